// Package cached remembers denials, so that a caller that keeps asking while it is limited costs the server nothing.
//
//	limiter := cached.New(ratelimit.New(client, ratelimit.Options{}), cached.Options{})
//	result, err := limiter.Decide(ctx, call)
package cached

import (
	"context"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
	"redis-throttle/ratelimit/internal/denials"
	"redis-throttle/ratelimit/internal/reports"
)

// Options configure New. The zero Options are a good default.
type Options struct {
	// Denials is how many are remembered at most: 10,000 when it is 0. A denial takes some 450 bytes, however long its
	// key. When there are more, those used least recently are forgotten, and the server is asked again.
	Denials int
	// MaxAge is how long a denial is remembered at most: 10 s when it is 0. After that long, units that were returned
	// by another process, and a ban that was lifted, are noticed.
	MaxAge time.Duration
}

// Cached remembers the denials of the Decider behind it, and answers the same call itself until its RetryAfter is over,
// or MaxAge.
//
// Two calls are the same if they have the same keys, limits, cost and options. A call that costs 5 may be
// limited while one that costs 1 is not, so each has its own denial. Only denials by the server are
// remembered. Allowed calls, errors, denials that no waiting ends (Never), all verbs but VerbLimit, and calls
// that charge a denied call (charge.Strict, charge.Force) or take slots go to the server.
//
// A refund, a ban, a settlement and a reset that pass through make it forget their keys. Of those in other processes it
// learns nothing until MaxAge is over: it may be too strict for that long. A raised limit is a different limit and has
// no denials. The server is told of denials that Cached answers for its CL.TOP, in the background; its INFO does not
// count them.
//
// In a remembered Result RetryAfter, ResetAfter and NextAfter are counted down, by a clock that
// is never set. Remaining is what it was; units that have come since are not in it.
type Cached struct {
	next    ratelimit.Decider
	denials *denials.Denials
	reports *reports.Reports
}

// New returns a Cached before next. It panics if next is nil.
func New(next ratelimit.Decider, o Options) *Cached {
	if o.Denials <= 0 {
		o.Denials = 10_000
	}
	if o.MaxAge <= 0 {
		o.MaxAge = 10 * time.Second
	}
	behind := ratelimit.With(next)
	return &Cached{next: behind, denials: denials.New(o.Denials, o.MaxAge), reports: reports.New(behind)}
}

// Decide answers a call whose denial is remembered, and hands on any other. By of its Result says
// which.
func (c *Cached) Decide(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	if !rememberable(&call) {
		result, err := c.next.Decide(ctx, call)
		if givesBack(call.Verb) {
			for i := range call.Keys {
				c.Forget(call.Keys[i].Name)
			}
		}
		return result, err
	}
	asked := time.Now()
	if !c.denials.IsEmpty() { // to hash a call takes longer than to look its denial up
		if result, ok := c.denials.Recall(denials.IDOf(&call), call.Keys, asked); ok {
			c.reports.Count(result.Key, asked)
			return result, nil
		}
	}
	result, err := c.next.Decide(ctx, call)
	if err == nil && result.Limited {
		c.denials.Remember(denials.IDOf(&call), result, asked, time.Now())
	}
	return result, err
}

// Forget forgets the denials of all calls on a key, such as after a refund in another process.
func (c *Cached) Forget(key string) { c.denials.Forget(key, time.Now()) }

// rememberable says whether a denial of a call holds until its RetryAfter. With BanAfter the server counts each denied
// call.
func rememberable(call *ratelimit.Call) bool {
	o := denials.OptionsOf(call)
	known := denials.Options{Units: o.Units, Any: o.Any, Ban: o.Ban, MaxWait: o.MaxWait, Each: o.Each}
	if o.Charge == charge.UpTo { // a denied call is not charged
		known.Charge = o.Charge
	}
	if call.Verb != ratelimit.VerbLimit || o != known {
		return false
	}
	for i := range call.Keys {
		if denials.SlotsOf(&call.Keys[i]) != (denials.Slots{}) {
			return false
		}
	}
	return true
}

func givesBack(v ratelimit.Verb) bool {
	switch v {
	case ratelimit.VerbRefund, ratelimit.VerbBan, ratelimit.VerbSettle, ratelimit.VerbReset:
		return true
	}
	return false
}
