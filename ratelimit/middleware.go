package ratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
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
// Several may be nested; each adds its policies.
type Middleware struct {
	// Limiter, Limits and Key are required. Key says who is limited: the key in Redis
	// for a request, such as "api:" + RemoteHost(r). Requests with the key "" are not
	// limited.
	Limiter Decider
	Limits  Limits
	Key     func(r *http.Request) string

	// Cost is how many units a request takes; nil is 1 for each.
	Cost func(r *http.Request) int64

	// FailClosed answers 503 during an outage of Redis (IsOutage). By default requests are
	// let through meanwhile: an outage of Redis is then no outage of the service, and while
	// it lasts there is no limit. Any other error is a mistake, such as a negative Cost or a
	// key that holds something else. It is answered with status 500, whatever FailClosed says.
	FailClosed bool

	// OnError is called with every error, outage or mistake; nil logs them through slog.
	OnError func(r *http.Request, err error)

	// Denied writes the response to a limited request. The header fields are set, the
	// status is not; nil writes status 429 and a problem document.
	Denied func(w http.ResponseWriter, r *http.Request, result Result)

	// PartitionKey goes into the fields as pk: it tells apart the quotas of a client who
	// has several. Clients see it, so it must not hold secrets. Nil leaves it out.
	PartitionKey func(r *http.Request) []byte
}

// Wrap returns next behind the limits. It panics when a required field is missing, a
// limit is none, or its name cannot be written into a header field: those are mistakes
// in the program.
func (m Middleware) Wrap(next http.Handler) http.Handler {
	if m.Limiter == nil || len(m.Limits) == 0 || m.Key == nil {
		panic("ratelimit: Middleware needs a Limiter, Limits and a Key")
	}
	policies, err := policiesOf(m.Limits)
	if err != nil {
		panic(err)
	}
	if m.Denied == nil {
		m.Denied = func(w http.ResponseWriter, _ *http.Request, result Result) {
			writeProblem(w, policies[result.Rule])
		}
	}
	if m.OnError == nil {
		m.OnError = logError
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := m.Key(r)
		if key == "" {
			next.ServeHTTP(w, r)
			return
		}
		result, err := m.ask(r, key)
		if err != nil {
			m.failed(w, r, next, err)
			return
		}
		setHeader(w.Header(), policies, result, m.partitionKey(r))
		if result.Limited {
			m.Denied(w, r, result)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (m Middleware) ask(r *http.Request, key string) (Result, error) {
	var opts []LimitOption
	if m.Cost != nil {
		opts = append(opts, Cost(m.Cost(r)))
	}
	return m.Limiter.Decide(r.Context(), key, m.Limits, opts...)
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
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
	default:
		next.ServeHTTP(w, r)
	}
}

func logError(r *http.Request, err error) {
	slog.ErrorContext(r.Context(), "a request could not be checked against its rate limit", "error", err)
}

// writeProblem writes the problem document "quota-exceeded" of section 5.1 of the draft.
func writeProblem(w http.ResponseWriter, violated policy) {
	body, _ := json.Marshal(struct { // strings and an integer always encode
		Type     string   `json:"type"`
		Title    string   `json:"title"`
		Status   int      `json:"status"`
		Violated []string `json:"violated-policies"`
	}{
		Type:     "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:    "Quota Exceeded",
		Status:   http.StatusTooManyRequests,
		Violated: []string{violated.name},
	})
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write(append(body, '\n')) // a client that has left cannot be told
}

// RemoteHost is the address of the peer of r, for Middleware.Key. Of IPv6 addresses it is
// the network (/64), since a single host has all addresses of one. Behind a proxy the
// peer is the proxy: take the client's address from the header field that the proxy
// sets, and only if clients cannot set it themselves.
func RemoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	network, err := addr.Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}
