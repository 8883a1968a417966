package ratelimittest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/ratelimit/cached"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/tests/calls"
)

func TestCachedKnowsWhichCallWasDenied(t *testing.T) {
	t.Parallel()
	cached := cached.New(ratelimittest.New(t), cached.Options{Denials: 2})
	limits := ratelimit.Limits{ratelimit.Rate(10, day)}
	calls.Ask(t, cached, calls.On("k", limits, calls.Cost(8)))
	require.True(t, calls.Ask(t, cached, calls.On("k", limits, calls.Cost(3))).Limited)
	for _, c := range []struct {
		name string
		call ratelimit.Call
		by   string
	}{
		{"the same", calls.On("k", limits, calls.Cost(3)), "cache"},
		{"the same under another name", calls.On("k", ratelimit.Limits{limits[0].Named("daily")}, calls.Cost(3)), "cache"},
		{"another key", calls.On("kk", limits, calls.Cost(3)), "server"},
		{"a raised limit", calls.On("k", ratelimit.Limits{limits[0].Burst(20)}, calls.Cost(3)), "server"},
		{"as much as there is", calls.On("k", limits, calls.Cost(3), calls.UpTo), "server"},
		{"a smaller cost", calls.On("k", limits), "server"},
		{"a second denial", calls.On("k", limits, calls.Cost(4)), "server"},
		{"a third denial", calls.On("k", limits, calls.Cost(5)), "server"},
		{"the one that was used least recently", calls.On("k", limits, calls.Cost(3)), "server"},
	} {
		assert.Equal(t, c.by, calls.Ask(t, cached, c.call).By, c.name)
	}
}

func TestWhatCachedNeverRemembers(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(2, day)}
	for name, c := range map[string]struct {
		call ratelimit.Call
		err  error
	}{
		"a call that is let through":    {calls.On("free", ratelimit.Limits{ratelimit.Rate(1000, day)}), nil},
		"an error":                      {calls.On("k", limits, calls.Cost(2)), ratelimittest.ReplyError("WRONGTYPE")},
		"a limit that is none":          {calls.On("k", ratelimit.Limits{ratelimit.Rate(-1, day)}), nil},
		"a denial that is charged":      {calls.On("k", limits, calls.Strict), nil},
		"a call that can never succeed": {calls.On("k", limits, calls.Cost(3)), nil},
		"what a server has not decided": {calls.On("k", limits), ratelimittest.ErrOutage},
	} {
		l := ratelimittest.New(t)
		calls.Ask(t, l, calls.On("k", limits, calls.Cost(2)))
		l.Fail(c.err)
		layer := cached.New(guard.New(l, guard.Options{Policy: guard.Closed, OnChange: func(string, error) {}}), cached.Options{})
		for range 3 {
			result, _ := layer.Decide(t.Context(), c.call)
			assert.NotEqual(t, "cache", result.By, name)
		}
	}
}

// What Cached denies the server would deny, too, and a caller that waits as told gets through. All times are whole
// milliseconds, as in replies.
func TestCachedIsAsStrictAsTheServer(t *testing.T) {
	t.Parallel()
	random := chance.New(t)
	for _, limits := range []ratelimit.Limits{
		{ratelimit.Rate(50, time.Second).Burst(3)},
		{ratelimit.Window(5, 100*time.Millisecond)},
		{ratelimit.Fixed(5, 100*time.Millisecond), ratelimit.Rate(100, time.Second)},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := ratelimittest.New(t)
			cached, remembered := cached.New(l, cached.Options{Denials: 10}), 0
			for range 5000 {
				time.Sleep(time.Duration(random.IntN(4)) * time.Millisecond)
				call := calls.On("k", limits, calls.Cost(1+random.Int64N(3)))
				ask := func() ratelimit.Result {
					l.Next(1).Slow(time.Duration(random.IntN(5)) * time.Millisecond)
					defer l.Heal()
					return calls.Ask(t, cached, call)
				}
				switch result := ask(); {
				case result.By == "cache":
					remembered++
					told := calls.Ask(t, l, call)
					require.True(t, told.Limited, "%v, retry after %v", limits, result.RetryAfter)
					require.Less(t, result.RetryAfter, told.RetryAfter+5*time.Millisecond, limits)
				case result.Limited && random.IntN(5) == 0:
					if result = ask(); result.Limited { // from the cache, unless it was over
						time.Sleep(result.RetryAfter)
						result = ask()
					}
					require.False(t, result.Limited, "%v, after waiting as told: %+v", limits, result)
				}
			}
			assert.Greater(t, remembered, 500, limits)
		})
	}
}

// A denial that was on its way when units were given back is not remembered.
func TestARefundOvertakesADenial(t *testing.T) {
	t.Parallel()
	for name, layer := range map[string]func(next ratelimit.Decider) ratelimit.Decider{
		"cached":  func(next ratelimit.Decider) ratelimit.Decider { return cached.New(next, cached.Options{}) },
		"batched": func(next ratelimit.Decider) ratelimit.Decider { return batched.New(next, batched.Options{}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			l := ratelimittest.New(t)
			d, call := layer(l), calls.On("k", ratelimit.Limits{ratelimit.Window(1, day)})
			calls.Ask(t, l, call)
			l.Next(1).Slow(time.Second)
			answered := make(chan ratelimit.Result, 1)
			go func() { answered <- calls.Ask(t, d, call) }()
			synctest.Wait()
			calls.Ask(t, d, ratelimit.Call{Verb: ratelimit.VerbRefund, Keys: call.Keys, Cost: 1})
			require.True(t, (<-answered).Limited)
			again := calls.Ask(t, d, call)
			assert.False(t, again.Limited, "%s answers by %s", name, again.By)
		})
	}
}
