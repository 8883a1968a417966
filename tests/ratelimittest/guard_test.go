package ratelimittest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/ratelimit/cached"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/tests/calls"
)

func untold(string, error) {}

// A caller that leaves says nothing about the server, nor does one that waits for less than Patience.
func TestCallersThatLeaveDoNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const patience = 50 * time.Millisecond
		l := ratelimittest.New(t)
		g := guard.New(l, guard.Options{Policy: guard.Open, Failures: 1, Pause: time.Hour, Patience: patience, OnChange: untold})
		ask := func(ctx context.Context) (by string, err error) {
			result, err := g.Decide(ctx, calls.On("k", hourly))
			return result.By, err
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		_, err := ask(left)
		require.ErrorIs(t, err, context.Canceled)
		l.Hang()
		leaving, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		_, err = ask(leaving)
		require.ErrorIs(t, err, context.Canceled)
		for _, c := range []struct {
			timeout, took time.Duration
			out           bool
		}{{-time.Second, 0, false}, {patience - 1, patience - 1, false}, {patience, patience, true}, {patience, 0, true}} {
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			began := time.Now()
			by, err := ask(ctx)
			cancel()
			if c.timeout < 0 {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			} else {
				require.NoError(t, err)
				assert.Equal(t, "policy", by)
			}
			assert.Equal(t, c.took, time.Since(began))
			assert.Equal(t, c.out, g.Out(), c.timeout)
		}
	})
}

// What Local decides is a mistake where it is one for the server, and a lease of the server is an outage.
func TestLocalInAnOutage(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(5, time.Minute)}
	for _, neverMore := range []bool{false, true} {
		l := ratelimittest.New(t)
		g := guard.New(l, guard.Options{Policy: guard.Local, Processes: 8, NeverMore: neverMore, Failures: 1, Pause: time.Hour, OnChange: untold})
		taken := calls.Ask(t, g, calls.Lease("jobs", 2, time.Hour, "of the server"))
		require.Equal(t, "server", taken.By)
		l.Fail(ratelimittest.ErrOutage)
		result := calls.Ask(t, g, calls.On("k", limits))
		assert.Equal(t, neverMore, result.Limited, "a limit that is smaller than the number of processes")
		assert.Equal(t, "local", result.By)
		for text, call := range map[string]ratelimit.Call{
			"the Cost, -1, is negative":           calls.On("k", limits, calls.Cost(-1)),
			"there must be a limit after the key": calls.On("k", nil),
		} {
			_, err := g.Decide(t.Context(), call)
			require.ErrorContains(t, err, text)
			assert.False(t, ratelimit.IsOutage(err))
		}
		_, err := g.Decide(t.Context(), calls.Renew("jobs", "of the server", time.Hour))
		require.ErrorIs(t, err, ratelimittest.ErrOutage)
	}
}

// Denials that are remembered before the guard, or behind it, are no sign of life of the server.
func TestACacheBeforeOrBehindTheGuard(t *testing.T) {
	t.Parallel()
	protect := func(d ratelimit.Decider) *guard.Guard {
		return guard.New(d, guard.Options{Policy: guard.Open, Failures: 2, Pause: time.Hour, OnChange: untold})
	}
	for name, build := range map[string]func(ratelimit.Decider) (outer ratelimit.Decider, g *guard.Guard){
		"before": func(l ratelimit.Decider) (ratelimit.Decider, *guard.Guard) {
			g := protect(l)
			return cached.New(g, cached.Options{}), g
		},
		"behind": func(l ratelimit.Decider) (ratelimit.Decider, *guard.Guard) {
			g := protect(cached.New(l, cached.Options{}))
			return g, g
		},
		"batches before": func(l ratelimit.Decider) (ratelimit.Decider, *guard.Guard) {
			g := protect(l)
			return batched.New(g, batched.Options{}), g
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := ratelimittest.New(t)
			d, g := build(l)
			by := func(key string) string { return calls.Ask(t, d, calls.On(key, hourly)).By }
			assert.Equal(t, []string{"server", "server", "cache"}, []string{by("denied"), by("denied"), by("denied")}, name)
			l.Fail(ratelimittest.ErrOutage)
			assert.Equal(t, []string{"cache", "policy", "cache", "policy"}, []string{by("denied"), by("other"), by("denied"), by("other")}, name)
			assert.True(t, g.Out(), name)
		})
	}
}

// An OnChange that asks the guard, such as one that reports through a limited channel, holds up nobody.
func TestOnChangeMayCallTheGuard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // which fails if the guard waits for itself
		l := ratelimittest.New(t)
		l.Fail(ratelimittest.ErrOutage)
		var g *guard.Guard
		told := false
		g = guard.New(l, guard.Options{Policy: guard.Open, Failures: 1, OnChange: func(string, error) {
			told = calls.Ask(t, g, calls.On("k", hourly)).By == "policy"
		}})
		calls.Ask(t, g, calls.On("k", hourly))
		synctest.Wait()
		assert.True(t, told)
	})
}

// For a single process, local is the server: the same calls get the same answers.
func TestLocalDecidesAsTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter, away := ratelimittest.New(t), ratelimittest.New(t)
		away.Fail(ratelimittest.ErrOutage)
		local := guard.New(away, guard.Options{Policy: guard.Local, Failures: 1, Pause: time.Hour, OnChange: untold})
		for i, limits := range []ratelimit.Limits{
			{ratelimit.Rate(10, day)},
			{ratelimit.Rate(24, day).Burst(3)},
			{ratelimit.Window(7, day)},
			{ratelimit.Fixed(7, 365*day)},
			{ratelimit.Rate(10, day), ratelimit.Window(9, day), ratelimit.Fixed(8, 365*day)},
			{ratelimit.Rate(10, day).Take(2), ratelimit.Window(9, day)},
			{ratelimit.Rate(10, day).Spare(3), ratelimit.Fixed(4, 365*day).Shadow()},
			{ratelimit.FixedYears(7, 1).Zone("Europe/Berlin"), ratelimit.Fixed(9, 365*day).First()},
		} {
			options := [][]calls.Option{
				nil, {calls.Cost(0)}, {calls.Cost(3)}, {calls.Cost(11)}, {calls.Cost(4), calls.UpTo}, {calls.Cost(2), calls.Strict},
			}
			switch {
			case i < 2:
				options = append(options, []calls.Option{calls.MaxWait(5 * time.Hour)})
			case i == 5: // TAKE excludes it
				options[4] = []calls.Option{calls.Cost(2), calls.Force}
			case i == 6:
				options = append(options, []calls.Option{calls.Cost(9), calls.Ban(time.Hour)})
			}
			for step := range 60 {
				time.Sleep(time.Duration(step) * time.Minute)
				call := calls.On(fmt.Sprint(i, step/20), limits, options[(step*7+step/5)%len(options)]...)
				want, got := calls.Ask(t, limiter, call), calls.Ask(t, local, call)
				require.Equal(t, "local", got.By)
				got.By = want.By
				require.Equal(t, want, got, "%v, step %d", limits, step)
			}
		}
	})
}
