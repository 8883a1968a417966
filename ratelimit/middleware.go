package ratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"redis-throttle/ratelimit/keyby"
)

// Middleware limits the requests to an http.Handler. A request that is let through gets
// a response with the header fields RateLimit-Policy and RateLimit of
// draft-ietf-httpapi-ratelimit-headers-11; one that is not gets status 429 with
// Retry-After and a problem document (RFC 9457) in addition.
//
// Policies are called by Limit.Named, or else "default", with several limits "limit-1",
// "limit-2" and so on. RateLimit-Policy lists all of them: the units that come back (q)
// in the time a full limit takes to get all its units back (w, seconds). RateLimit tells
// of the one that decided how many units remain (r) and when there is one more (t,
// seconds).
//
// Several may be nested; each adds its policies. A response after a decision that was made without any limit
// (FromPolicy) has none of the fields, and one that is denied then gets status 503.
type Middleware struct {
	// Limiter, Limits and Key are required; Limits and Key are not where each of Routes has its own, and all
	// other requests are then not limited. Key says who is limited: the key in Redis for a request, such as
	// "api:" + RemoteHost(r); package keyby has more. Requests with the key "" are not limited.
	Limiter Decider
	Limits  Limits
	Key     func(r *http.Request) string

	// Routes are limits of their own for some requests, in place of Limits. Several that match are as with
	// an http.ServeMux: the most specific one applies.
	Routes []Route

	// LimitsFor picks the limits of a request that none of Routes matches, such as by the plan of the
	// caller. Where it returns none, Limits apply, which are then required.
	LimitsFor func(r *http.Request) Limits

	// Cost is how many units a request takes; nil is 1 for each.
	Cost func(r *http.Request) int64

	// FailClosed answers 503 during an outage of Redis (IsOutage). By default requests are
	// let through meanwhile: an outage of Redis is then no outage of the service, and while
	// it lasts there is no limit. Any other error is a mistake, such as a negative Cost or a
	// key that holds something else. It is answered with status 500, whatever FailClosed says.
	FailClosed bool

	// OutageRetryAfter is what Retry-After says in a 503: 1 s when it is 0; negative leaves the field out.
	OutageRetryAfter time.Duration

	// OnError is called with every error, outage or mistake; nil logs them through slog.
	OnError func(r *http.Request, err error)

	// Denied writes the response to a limited request. The header fields are set, the
	// status is not; nil writes status 429 and a problem document. No limit decided when result is Banned.
	Denied func(w http.ResponseWriter, r *http.Request, result Result)

	// PartitionKey goes into the fields as pk: it tells apart the quotas of a client who
	// has several. Clients see it, so it must not hold secrets. Nil leaves it out.
	PartitionKey func(r *http.Request) []byte

	// XRateLimit adds X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset.
	XRateLimit XRateLimit
}

// Wrap returns next behind the limits. It panics when a required field is missing, a
// limit is none, its name cannot be written into a header field, or the pattern of a route is invalid:
// those are mistakes in the program.
func (m Middleware) Wrap(next http.Handler) http.Handler {
	rules, err := m.rules()
	if err != nil {
		panic(err)
	}
	if m.OnError == nil {
		m.OnError = logError
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rule, err := rules.of(r)
		if err != nil {
			m.failed(w, r, next, err)
			return
		}
		key := rule.keyOf(r)
		if key == "" {
			next.ServeHTTP(w, r)
			return
		}
		result, err := m.ask(r, key, rule)
		if err != nil {
			m.failed(w, r, next, err)
			return
		}
		if result.By == FromPolicy {
			if result.Limited {
				m.unavailable(w, result.RetryAfter)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		setHeader(w.Header(), rule.policies, result, m.partitionKey(r))
		setXRateLimit(w.Header(), m.XRateLimit, result, time.Now())
		switch {
		case !result.Limited:
			next.ServeHTTP(w, r)
		case m.Denied != nil:
			m.Denied(w, r, result)
		default:
			writeProblem(w, rule.policies, result)
		}
	})
}

func (m Middleware) ask(r *http.Request, key string, rule rule) (Result, error) {
	var opts []LimitOption
	if rule.cost != nil {
		opts = append(opts, Cost(rule.cost(r)))
	}
	return m.Limiter.Decide(r.Context(), key, rule.limits, opts...)
}

func (m Middleware) partitionKey(r *http.Request) []byte {
	if m.PartitionKey == nil {
		return nil
	}
	return m.PartitionKey(r)
}

func (m Middleware) failed(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		// The client has left: that is no failure, and nobody reads the answer.
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	m.OnError(r, err)
	switch {
	case !IsOutage(err):
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	case m.FailClosed:
		m.unavailable(w, 0)
	default:
		next.ServeHTTP(w, r)
	}
}

// unavailable answers a request that nobody could decide about. retryAfter is when somebody may, 0 if unknown.
func (m Middleware) unavailable(w http.ResponseWriter, retryAfter time.Duration) {
	if m.OutageRetryAfter >= 0 {
		setRetryAfter(w.Header(), max(m.OutageRetryAfter, retryAfter)) // at least a second
	}
	http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
}

func logError(r *http.Request, err error) {
	slog.ErrorContext(r.Context(), "a request could not be checked against its rate limit", "error", err)
}

// writeProblem writes a problem document of section 5 of the draft: "quota-exceeded", or
// "abnormal-usage-detected" when the key is banned.
func writeProblem(w http.ResponseWriter, policies []policy, result Result) {
	problem := struct {
		Type     string   `json:"type"`
		Title    string   `json:"title"`
		Status   int      `json:"status"`
		Violated []string `json:"violated-policies,omitempty"`
	}{
		Type:   "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
		Title:  "Abnormal Usage Detected",
		Status: http.StatusTooManyRequests,
	}
	if !result.undecided() {
		problem.Type = "https://iana.org/assignments/http-problem-types#quota-exceeded"
		problem.Title = "Quota Exceeded"
		problem.Violated = []string{policies[result.Rule].name}
	}
	body, _ := json.Marshal(problem) // strings and an integer always encode
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write(append(body, '\n')) // a client that has left cannot be told
}

// RemoteHost is the address of the peer of r, for Middleware.Key. Of IPv6 addresses it is
// the network (/64), since a single host has all addresses of one. Behind a proxy the
// peer is the proxy: take keyby.Client, which knows the proxies.
func RemoteHost(r *http.Request) string { return keyby.RemoteHost(r) }
