package httplimit

import (
	"context"
	"net/http"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/field"
	"redis-throttle/ratelimit/internal/quiet"
)

// Answer is what happens to a request when the limiter fails.
type Answer int

// The answers. The zero Answer is the usual one of its field.
const (
	Usual Answer = iota
	Allow        // serve the request without a limit
	Deny         // status 503, and when to come back
	Raise        // status 500
)

// The answers as they were called before.
//
// Deprecated: use Allow, Deny and Raise.
const (
	LetThrough    = Allow
	Unavailable   = Deny
	InternalError = Raise
)

// Failures says what happens to requests when the limiter fails. The zero Failures are a good default.
type Failures struct {
	// Outage is for when Redis is out of reach (ratelimit.IsOutage). Usually requests are let through: an outage of
	// Redis is then no outage of the service, and while it lasts there is no limit.
	Outage Answer
	// Overload is for when this process asks for more connections than it has (ratelimit.IsOverload). Usually requests
	// are denied: otherwise a flood of requests would open the limit that is there for it.
	Overload Answer
	// Mistake is for any other error, such as a server without the module, a password that has changed, or a negative
	// Cost. It does not go away by itself. Usually the answer is Raise.
	Mistake Answer
	// RetryAfter is what Retry-After says with status 503: 1 s when it is 0; negative leaves the field out.
	RetryAfter time.Duration
	// OnError is called with every error. Nil logs through slog, of each kind one line in ten seconds.
	OnError func(r *http.Request, err error)
}

// failures are Failures that are ready to use.
type failures struct {
	Failures
	log quiet.Log
}

// failed answers a request after an error.
func (f *failures) failed(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
	if over(r.Context()) {
		// The client has left or the time for the request is over: that is no failure of Redis, and serving it serves
		// nobody.
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	kind, answer := f.classify(err)
	f.report(r, kind, err)
	switch answer {
	case Allow:
		next.ServeHTTP(w, r)
	case Deny:
		f.unavailable(w, 0)
	default:
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	}
}

func (f *failures) classify(err error) (kind string, answer Answer) {
	or := func(answer, usual Answer) Answer {
		if answer == Usual {
			return usual
		}
		return answer
	}
	switch {
	case ratelimit.IsOutage(err):
		return "outage", or(f.Outage, Allow)
	case ratelimit.IsOverload(err):
		return "overload", or(f.Overload, Deny)
	}
	return "mistake", or(f.Mistake, Raise)
}

func (f *failures) report(r *http.Request, kind string, err error) {
	if f.OnError != nil {
		f.OnError(r, err)
		return
	}
	f.log.Error(r.Context(), kind, "a request could not be checked against its rate limit", err)
}

// over says whether nobody waits for the response any more. A connection may have learned of the deadline before ctx.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || (ok && !time.Now().Before(deadline))
}

// unavailable answers a request that nobody could decide about. retryAfter is when somebody may, 0 if unknown.
func (f *failures) unavailable(w http.ResponseWriter, retryAfter time.Duration) {
	if f.RetryAfter >= 0 {
		field.SetRetryAfter(w.Header(), max(f.RetryAfter, retryAfter)) // at least a second
	}
	http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
}
