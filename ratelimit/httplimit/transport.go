package httplimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/keys"
)

// TransportOptions configure NewTransport. Limits and Key are required.
type TransportOptions struct {
	Limits ratelimit.Limits
	// Key says whose limits a request counts for, such as "partner" for all of them. Requests with the key "" are not
	// limited.
	Key func(r *http.Request) string

	// Cost is how many units a request takes, 0 being none; nil is 1 for each.
	Cost func(r *http.Request) int64

	// MaxWait is how long a request waits for its turn, at most until the deadline of its context: 0 is not at all,
	// ratelimit.Forever as long as it takes. See ratelimit.Limiter.Wait.
	MaxWait time.Duration

	// Failures says what happens to requests when the limiter fails: those that are not let through end with its error.
	Failures

	// Next sends the requests; nil is http.DefaultTransport.
	Next http.RoundTripper
}

// NewTransport returns the Transport of an http.Client that keeps to the limits of somebody else's service, in all
// processes together. A request beyond the limits is not sent: it ends with an error that is a *ratelimit.LimitedError,
// for errors.As.
//
// A client that follows redirects or retries sends further requests, each of which counts. NewTransport panics when
// decider is nil, a required option is missing or a limit is invalid.
func NewTransport(decider ratelimit.Decider, o TransportOptions) http.RoundTripper {
	if o.Key == nil {
		panic("httplimit: NewTransport needs a Key")
	}
	if err := o.Limits.Validate(); err != nil {
		panic(err)
	}
	if o.Next == nil {
		o.Next = http.DefaultTransport
	}
	return &transport{TransportOptions: o, decider: ratelimit.With(decider), failures: failures{Failures: o.Failures}}
}

type transport struct {
	TransportOptions
	decider  ratelimit.Decider
	failures failures
}

// RoundTrip sends a request when its limits allow it.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.pass(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as http.RoundTripper has to
		}
		return nil, err
	}
	return t.Next.RoundTrip(r)
}

func (t *transport) pass(r *http.Request) error {
	key := t.Key(r)
	if key == "" {
		return nil
	}
	call := ratelimit.Call{Keys: []ratelimit.Key{{Name: keys.Plain(key), Limits: t.Limits}}}
	if t.Cost != nil {
		call.Cost = t.Cost(r)
		call.NoCost = call.Cost == 0
	}
	if t.MaxWait > 0 {
		call.Verb, call.MaxWait = ratelimit.VerbWait, t.MaxWait
	}
	result, err := t.decider.Decide(r.Context(), call)
	if err == nil {
		return result.Err()
	}
	if over(r.Context()) {
		if cause := context.Cause(r.Context()); cause != nil {
			return cause
		}
		return errors.Join(context.DeadlineExceeded, err)
	}
	kind, answer := t.failures.classify(err)
	t.failures.report(r, kind, err)
	if answer == Allow {
		return nil
	}
	return err
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through to Next.
func (t *transport) CloseIdleConnections() {
	if next, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}
