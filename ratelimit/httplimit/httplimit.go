// Package httplimit limits the requests to an http.Handler, and with NewTransport those of an http.Client.
//
//	limited := httplimit.New(ratelimit.New(client, ratelimit.Options{}), httplimit.Options{
//		Limits: ratelimit.Limits{ratelimit.Rate(100, time.Minute)},
//		Key:    keyby.Prefixed("ip:", keyby.RemoteHost),
//	})
//	http.ListenAndServe("127.0.0.1:8080", limited(handler))
package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/field"
	"redis-throttle/ratelimit/internal/keys"
)

// Options configure New. Limits and Key are required, unless each of Routes has its own. Other requests are not limited
// then.
type Options struct {
	Limits ratelimit.Limits
	// Key says who is limited: the key in Redis for a request. Package keyby has functions for it. Requests with the
	// key "" are not limited.
	Key func(r *http.Request) string

	// And are further keys that a request counts for, such as an organisation beside a user: all limits are charged in
	// one call, or none. In a cluster the keys must be in one slot, which a hash tag sees to: "{acme}:user:42" and
	// "{acme}". Routes and LimitsFor are about the limits of Key.
	And []Part

	// Routes are limits of their own for some requests, in place of Limits. Several that match are as with
	// an http.ServeMux: the most specific one applies.
	Routes []Route

	// LimitsFor picks the limits of a request that none of Routes matches, such as by the plan of the
	// caller. Where it returns none, Limits apply, which are then required.
	LimitsFor func(r *http.Request) ratelimit.Limits

	// Cost is how many units a request takes, 0 being none; nil is 1 for each.
	Cost func(r *http.Request) int64

	// Skip says which requests are not limited, such as those of networks of your own: keyby.From. Nil is none.
	Skip func(r *http.Request) bool

	// Ban bans the keys of a request that is limited for so long: until then every call on them is limited. 0 bans
	// nobody. BanAfter is of which denial the ban begins, such as "10/1h": with the tenth within an hour of the first.
	// Without it, the first one bans. Whatever a client can put into a key, it can have banned: a ban on an account
	// alone shuts its owner out.
	Ban      time.Duration
	BanAfter string

	// Preflights has the questions of browsers whether a page may send a request (OPTIONS with Origin and
	// Access-Control-Request-Method) count as requests. Without it they are served, and charge nothing.
	Preflights bool

	// Failures says what happens to requests when the limiter fails.
	Failures

	// Denied writes the response to a limited request. The header fields are set, the
	// status is not; nil writes status 429 and a problem document. No limit decided when result is Banned.
	Denied func(w http.ResponseWriter, r *http.Request, result ratelimit.Result)

	// PartitionKey goes into the fields as pk: it tells apart the quotas of a client who
	// has several. Clients see it, so it must not hold secrets. Nil leaves it out.
	PartitionKey func(r *http.Request) []byte

	// XRateLimit adds X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset.
	XRateLimit XRateLimit
}

// Part is a further key of requests, with its limits. Its key is left out of the call where Key returns "".
type Part struct {
	Limits ratelimit.Limits
	Key    func(r *http.Request) string
}

// New returns a middleware. A request that is let through gets
// a response with the header fields RateLimit-Policy and RateLimit of
// draft-ietf-httpapi-ratelimit-headers-11; one that is not gets status 429 with
// Retry-After and a problem document (RFC 9457) in addition.
//
// Policies are called by Limit.Named or ratelimit.Policy, or else "default", with several limits "limit-1",
// "limit-2" and so on. RateLimit-Policy lists all of them: the units that come back (q)
// in the time a full limit takes to get all its units back (w, seconds). RateLimit tells
// of the one that decided how many units remain (r) and when there is one more (t,
// seconds).
//
// Put a middleware for CORS before this one, so that a 429 has its fields too, and have it expose RateLimit,
// RateLimit-Policy and Retry-After (Access-Control-Expose-Headers): pages of other origins see no other fields. A Route
// for GET is for HEAD as well.
//
// Several may be nested; each adds its policies. A name that an outer one has sent gets a number, as in default-2. A
// response after a decision that was made without any limit (Result.By is "policy" or "none") has none of the fields,
// and one that is denied then gets status 503.
//
// Limits of ratelimit.Policy are changed by a decider of package policies: the fields then tell of the limits in force.
//
// New panics when decider is nil, a required option is missing, a limit is invalid or the pattern of a route is: those
// are mistakes in the program.
func New(decider ratelimit.Decider, o Options) func(next http.Handler) http.Handler {
	m := &middleware{Options: o, decider: ratelimit.With(decider), failures: failures{Failures: o.Failures}}
	if err := m.compile(); err != nil {
		panic(err)
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httplimit: the middleware needs a handler, not nil")
		}
		return &handler{m, next}
	}
}

// middleware is Options that are ready to use.
type middleware struct {
	Options
	decider  ratelimit.Decider
	failures failures
	rules    rules
	parts    []*field.Policies // of And
}

type handler struct {
	m    *middleware
	next http.Handler
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := h.m
	if (!m.Preflights && isPreflight(r)) || (m.Skip != nil && m.Skip(r)) {
		h.next.ServeHTTP(w, r)
		return
	}
	first, second, err := m.rules.of(r)
	if err != nil {
		m.failures.failed(w, r, h.next, err)
		return
	}
	if m.responds(w, r, h.next, first) || (second != nil && m.responds(w, r, h.next, second)) {
		return
	}
	h.next.ServeHTTP(w, r)
}

// isPreflight says whether a browser asks if a page of another origin may send a request. It sends the request itself
// afterwards.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// responds decides a request by a rule, and reports whether that has written the response.
func (m *middleware) responds(w http.ResponseWriter, r *http.Request, next http.Handler, rule *rule) bool {
	var (
		call     ratelimit.Call
		room     [4]*field.Policies
		policies = room[:0]
	)
	call.Keys = make([]ratelimit.Key, 0, 1+len(m.And))
	if key := rule.keyOf(r); key != "" {
		call.Keys = append(call.Keys, ratelimit.Key{Name: key, Limits: rule.limits})
		policies = append(policies, rule.policies)
	}
	for i := range m.And {
		if key := m.And[i].Key(r); key != "" {
			call.Keys = append(call.Keys, ratelimit.Key{Name: keys.Plain(key), Limits: m.And[i].Limits})
			policies = append(policies, m.parts[i])
		}
	}
	if len(call.Keys) == 0 {
		return false
	}
	if rule.cost != nil {
		call.Cost = rule.cost(r)
		call.NoCost = call.Cost == 0
	}
	call.Ban, call.BanAfter = m.Ban, m.BanAfter
	result, err := m.decider.Decide(r.Context(), call)
	switch {
	case err != nil:
		m.failures.failed(w, r, next, err)
		return true
	case !field.Nobody(result.By):
		for i := range result.Policies {
			policies[i] = inForce.Of(&result, i, policies[i])
		}
		field.Apart(w.Header(), policies)
		m.setFields(w.Header(), r, policies, &result)
	case result.Limited:
		m.failures.unavailable(w, result.RetryAfter)
		return true
	}
	switch {
	case !result.Limited:
		return false
	case m.Denied != nil:
		m.Denied(w, r, result)
	default:
		writeProblem(w, http.StatusTooManyRequests, policies[result.KeyIndex].Name(result.Rule), result.Banned)
	}
	return true
}

func (m *middleware) setFields(h http.Header, r *http.Request, policies []*field.Policies, result *ratelimit.Result) {
	partition := ""
	if m.PartitionKey != nil {
		partition = field.Partition(m.PartitionKey(r))
	}
	for _, p := range policies {
		p.AddPolicy(h, partition)
	}
	policies[result.KeyIndex].AddLimit(h, result, partition)
	if result.Limited && result.RetryAfter != ratelimit.Never {
		field.SetRetryAfter(h, result.RetryAfter)
	}
	if result.Limited || !policies[result.KeyIndex].Hidden(result.Rule) { // nothing left of a Shadow is no reason to hold back
		setXRateLimit(h, m.XRateLimit, result, time.Now())
	}
}

// XRateLimit is whether X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset are set as
// well, and what the last of them says. No standard defines these fields, and services differ about Reset.
type XRateLimit int

// Whether there are X-RateLimit fields, and the unit of X-RateLimit-Reset: the time when the limit is full.
const (
	NoXRateLimit      XRateLimit = iota
	XRateLimitSeconds            // seconds from now
	XRateLimitUnix               // seconds since the Unix epoch, by the clock of this process
)

// setXRateLimit sets the fields of the limit that decided. They have room for one: of nested middlewares it is
// the one that denied the request, otherwise the one with the fewest units left.
func setXRateLimit(h http.Header, form XRateLimit, result *ratelimit.Result, now time.Time) {
	if form == NoXRateLimit {
		return
	}
	outer, err := strconv.ParseInt(h.Get("X-RateLimit-Remaining"), 10, 64)
	if err == nil && outer <= result.Remaining && !result.Limited {
		return
	}
	reset := field.CeilSeconds(result.ResetAfter)
	if form == XRateLimitUnix { // no earlier than the time itself, whose fractions are cut
		reset = now.Add(result.ResetAfter).Add(time.Second - 1).Unix()
	}
	h.Set("X-RateLimit-Limit", strconv.FormatInt(result.Limit, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(result.Remaining, 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
}
