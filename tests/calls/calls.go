// Package calls writes the calls of tests in short.
package calls

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
)

// Option changes a call.
type Option = func(*ratelimit.Call)

// On is VerbLimit on a key, for one unit unless an Option says otherwise.
func On(key string, limits ratelimit.Limits, opts ...Option) ratelimit.Call {
	return OnKeys([]ratelimit.Key{{Name: key, Limits: limits}}, opts...)
}

// OnKeys is VerbLimit on several keys.
func OnKeys(keys []ratelimit.Key, opts ...Option) ratelimit.Call {
	c := ratelimit.Call{Keys: keys}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// Cost is how many units the call takes, 0 being none.
func Cost(units int64) Option {
	return func(c *ratelimit.Call) { c.Cost, c.NoCost = units, units == 0 }
}

// UpTo sets Call.Charge.
func UpTo(c *ratelimit.Call) { c.Charge = charge.UpTo }

// Strict sets Call.Charge.
func Strict(c *ratelimit.Call) { c.Charge = charge.Strict }

// Force sets Call.Charge.
func Force(c *ratelimit.Call) { c.Charge = charge.Force }

// Any sets Call.Any.
func Any(c *ratelimit.Call) { c.Any = true }

// MaxWait sets Call.MaxWait.
func MaxWait(d time.Duration) Option { return func(c *ratelimit.Call) { c.MaxWait = d } }

// Ban sets Call.Ban.
func Ban(d time.Duration) Option { return func(c *ratelimit.Call) { c.Ban = d } }

// InLine is VerbWait; a timeout of 0 is as long as it takes.
func InLine(key string, limits ratelimit.Limits, timeout time.Duration, opts ...Option) ratelimit.Call {
	c := On(key, limits, opts...)
	c.Verb, c.MaxWait = ratelimit.VerbWait, timeout
	return c
}

// Throttle is VerbThrottle.
func Throttle(key string, limit ratelimit.Limit, cost int64) ratelimit.Call {
	return ratelimit.Call{Verb: ratelimit.VerbThrottle, Keys: []ratelimit.Key{{Name: key, Limits: ratelimit.Limits{limit}}}, Cost: cost, NoCost: cost == 0}
}

// Lease is VerbLease.
func Lease(key string, slots int64, ttl time.Duration, id string, opts ...Option) ratelimit.Call {
	c := ratelimit.Call{Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: key, Slots: slots, TTL: ttl}}, ID: id}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// Renew is VerbRenew.
func Renew(key, id string, ttl time.Duration) ratelimit.Call {
	return ratelimit.Call{Verb: ratelimit.VerbRenew, Keys: []ratelimit.Key{{Name: key, TTL: ttl}}, ID: id}
}

// Release is VerbRelease.
func Release(key, id string) ratelimit.Call {
	return ratelimit.Call{Verb: ratelimit.VerbRelease, Keys: []ratelimit.Key{{Name: key}}, ID: id}
}

// Ask has d decide a call, of which no error is expected.
func Ask(t testing.TB, d ratelimit.Decider, call ratelimit.Call) ratelimit.Result {
	t.Helper()
	result, err := d.Decide(context.WithoutCancel(t.Context()), call)
	require.NoError(t, err, call.Verb)
	return result
}

// Ends is how a call ends that is made in the background.
func Ends(ctx context.Context, d ratelimit.Decider, call ratelimit.Call) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := d.Decide(ctx, call)
		ended <- err
	}()
	return ended
}
