package httplimit

import (
	"encoding/json"
	"net/http"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/chosen"
	"redis-throttle/ratelimit/internal/field"
)

// Policies are the header fields of the limits of a key, for programs that answer requests by themselves, such as one
// that a proxy asks. The middleware needs none.
type Policies struct{ field *field.Policies }

// inForce are the fields of limits that package policies has put in place of others.
var inForce chosen.InForce

// NewPolicies refuses limits that the server would refuse, and names that a field cannot hold.
func NewPolicies(limits ratelimit.Limits) (*Policies, error) {
	p, err := field.Valid(limits)
	if err != nil {
		return nil, err
	}
	return &Policies{p}, nil
}

// SetFields adds RateLimit-Policy and RateLimit after a decision about keys with these policies, in the order of
// Call.Keys, and sets Retry-After if that was a denial with an end. It adds nothing after a decision that was made
// without any limit.
func SetFields(h http.Header, policies []*Policies, result ratelimit.Result) {
	if field.Nobody(result.By) || len(policies) == 0 {
		return
	}
	fields := counted(policies, &result)
	field.Apart(h, fields)
	for _, p := range fields {
		p.AddPolicy(h, "")
	}
	fields[result.KeyIndex].AddLimit(h, &result, "")
	if result.Limited && result.RetryAfter != ratelimit.Never {
		field.SetRetryAfter(h, result.RetryAfter)
	}
}

// WriteProblem answers a request that was limited with a status, most often 429, and a problem document (RFC 9457).
func WriteProblem(w http.ResponseWriter, status int, policies []*Policies, result ratelimit.Result) {
	name := ""
	if !result.Banned && !field.Nobody(result.By) && result.KeyIndex < len(policies) {
		fields := counted(policies, &result)
		field.Apart(nil, fields)
		name = fields[result.KeyIndex].Name(result.Rule)
	}
	writeProblem(w, status, name, result.Banned)
}

// counted are the fields of the limits that counted.
func counted(policies []*Policies, result *ratelimit.Result) []*field.Policies {
	fields := make([]*field.Policies, len(policies))
	for i, p := range policies {
		fields[i] = inForce.Of(result, i, p.field)
	}
	return fields
}

// writeProblem writes a problem document of section 5 of the draft: "quota-exceeded", or
// "abnormal-usage-detected" when the key is banned.
func writeProblem(w http.ResponseWriter, status int, violated string, banned bool) {
	problem := struct {
		Type     string   `json:"type"`
		Title    string   `json:"title"`
		Status   int      `json:"status"`
		Violated []string `json:"violated-policies,omitempty"`
	}{
		Type:   "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:  "Quota Exceeded",
		Status: status,
	}
	if banned {
		problem.Type = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
		problem.Title = "Abnormal Usage Detected"
	} else if violated != "" {
		problem.Violated = []string{violated}
	}
	body, _ := json.Marshal(problem) // strings and an integer always encode
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has left cannot be told
}
