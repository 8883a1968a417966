package httplimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/field"
	"redis-throttle/ratelimit/internal/keys"
	"redis-throttle/ratelimit/leases"
)

// ConcurrencyOptions configure NewConcurrency. Slots and Key are required.
type ConcurrencyOptions struct {
	// Slots is how many requests with the same key are served at a time, at least 1; those with
	// the key "" are not limited. Leases are sorted sets, so the keys must differ from those of limits.
	Slots int64
	Key   func(r *http.Request) string

	// Skip says which requests need no slot, such as those of networks of your own: keyby.From. Nil is none.
	Skip func(r *http.Request) bool

	// TTL is how long a lease lasts without a renewal: the slots of a process that has died are free after it. 30 s
	// when 0. See leases.Options.
	TTL time.Duration
	// MaxWait is how long a request waits for a slot: 0 is not at all, ratelimit.Forever as long as it takes.
	MaxWait time.Duration

	// Failures says what happens to requests when the limiter fails. A lease that is lost while its request is
	// served ends the request's context whatever it says: the cause is leases.ErrLost.
	Failures

	// Denied writes the response to a request without a slot. Retry-After is set; nil writes status 429.
	Denied func(w http.ResponseWriter, r *http.Request)
}

// mostReleases bounds the slots that are being given back at the same time, so that a Redis that hangs does not fill
// memory. Further ones are free after the TTL.
const mostReleases = 1000

// NewConcurrency returns a middleware that limits how many requests are served at a time, in all processes together:
// each holds a lease while it is served, and gives it back in the background. A request that finds all slots taken gets
// status 429 and Retry-After: 1, since slots are free whenever a request ends. Put it behind the middleware of New, so
// that requests that are denied there hold no slot. It panics when decider is nil or a required option is missing.
func NewConcurrency(decider ratelimit.Decider, o ConcurrencyOptions) func(next http.Handler) http.Handler {
	if o.Slots < 1 || o.Key == nil {
		panic("httplimit: NewConcurrency needs Slots and a Key")
	}
	if o.TTL == 0 {
		o.TTL = 30 * time.Second
	}
	c := &concurrency{
		ConcurrencyOptions: o, decider: ratelimit.With(decider), failures: failures{Failures: o.Failures},
		releasing: make(chan struct{}, mostReleases),
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httplimit: the middleware needs a handler, not nil")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, next) })
	}
}

type concurrency struct {
	ConcurrencyOptions
	decider   ratelimit.Decider
	failures  failures
	releasing chan struct{}
}

func (c *concurrency) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if c.Skip != nil && c.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	key := c.Key(r)
	if key == "" {
		next.ServeHTTP(w, r)
		return
	}
	lease, err := leases.Take(r.Context(), c.decider, leases.Options{Key: keys.Plain(key), Slots: c.Slots, TTL: c.TTL, MaxWait: c.MaxWait})
	switch {
	case errors.Is(err, ratelimit.ErrLimited):
		c.deny(w, r)
		return
	case err != nil:
		c.failures.failed(w, r, next, err)
		return
	}
	defer c.release(r, lease)
	next.ServeHTTP(w, r.WithContext(lease.Context()))
}

// release gives the slot back without holding up the response. Without an answer the slot is free after the TTL.
func (c *concurrency) release(r *http.Request, lease *leases.Lease) {
	select {
	case c.releasing <- struct{}{}:
	default:
		lease.Forget()
		return
	}
	go func() {
		defer func() { <-c.releasing }()
		if err := lease.Release(r.Context()); err != nil && !errors.Is(err, context.Canceled) {
			kind, _ := c.failures.classify(err)
			c.failures.report(r, kind, err)
		}
	}()
}

func (c *concurrency) deny(w http.ResponseWriter, r *http.Request) {
	field.SetRetryAfter(w.Header(), time.Second)
	if c.Denied != nil {
		c.Denied(w, r)
		return
	}
	http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
}
