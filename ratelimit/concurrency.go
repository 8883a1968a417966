package ratelimit

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Concurrency limits how many requests are served at a time, in all processes together: each holds a Lease while it is
// served. One that finds all slots taken gets status 429 and Retry-After: 1, since slots are free whenever a
// request ends. Put it behind a Middleware, so that requests it denies hold no slot.
type Concurrency struct {
	// Limiter, Slots and Key are required. Slots is how many requests with the same key are served at a time; those with
	// the key "" are not limited. Leases are sorted sets, so the keys must differ from those of limits.
	Limiter *Limiter
	Slots   int64
	Key     func(r *http.Request) string

	// TTL is after which time the slots of a process that has died are free again; 30 s when 0. See Limiter.Lease.
	TTL time.Duration

	// FailClosed, OutageRetryAfter and OnError are as in Middleware. A lease that is lost while its request is
	// served ends the request's context, whatever FailClosed says: the cause is ErrLeaseLost.
	FailClosed       bool
	OutageRetryAfter time.Duration
	OnError          func(r *http.Request, err error)

	// Denied writes the response to a request without a slot. Retry-After is set; nil writes status 429.
	Denied func(w http.ResponseWriter, r *http.Request)
}

// Wrap returns next behind the slots. It panics when a required field is missing.
func (c Concurrency) Wrap(next http.Handler) http.Handler {
	if c.Limiter == nil || c.Slots < 1 || c.Key == nil {
		panic("ratelimit: Concurrency needs a Limiter, Slots and a Key")
	}
	if c.TTL == 0 {
		c.TTL = 30 * time.Second
	}
	outage := Middleware{FailClosed: c.FailClosed, OutageRetryAfter: c.OutageRetryAfter, OnError: c.OnError}
	if outage.OnError == nil {
		outage.OnError = logError
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := c.Key(r)
		if key == "" {
			next.ServeHTTP(w, r)
			return
		}
		lease, err := c.Limiter.Lease(r.Context(), key, c.Slots, c.TTL)
		var limited *LimitedError
		switch {
		case errors.As(err, &limited):
			c.deny(w, r)
			return
		case err != nil:
			outage.failed(w, r, next, err)
			return
		}
		defer func() {
			// Without an answer the slot is free after the TTL; the client has its response already.
			if err := lease.Release(r.Context()); err != nil && !errors.Is(err, context.Canceled) {
				outage.OnError(r, err)
			}
		}()
		next.ServeHTTP(w, r.WithContext(lease.Context()))
	})
}

func (c Concurrency) deny(w http.ResponseWriter, r *http.Request) {
	setRetryAfter(w.Header(), time.Second)
	if c.Denied != nil {
		c.Denied(w, r)
		return
	}
	http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
}
