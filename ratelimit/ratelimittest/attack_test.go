package ratelimittest_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/ratelimit/ratelimittest"
)

// everywhere runs a test of its own outside of a bubble, and one inside.
func everywhere(t *testing.T, test func(t *testing.T)) {
	t.Run("outside", test)
	t.Run("inside", func(t *testing.T) { synctest.Test(t, test) })
}

// A test that ends answers every call that has no answer, and what is called afterwards does nothing.
func TestWhatOutlastsItsTestIsAnswered(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		var calls sync.WaitGroup
		var l *ratelimittest.Limiter
		t.Cleanup(func() { // runs after that of the Limiter
			calls.Wait()
			assert.Zero(t, l.Blocked())
			_, err := l.Limit(context.Background(), "k", hourly, 1)
			require.ErrorContains(t, err, "the test is over")
			l.AwaitBlocked(1)
			l.SetTime(l.Now().Add(24 * time.Hour))
			l.Fail(io.EOF)
			l.Hang()
			l.Heal()
			l.Advance(24 * time.Hour)
		})
		l = ratelimittest.New(t)
		decide(t, l, on("line", hourly))
		for i, prepare := range []func(){func() {}, func() { l.Slow(time.Hour) }, l.Hang} {
			prepare()
			calls.Go(func() {
				_, err := l.Wait(context.Background(), "line", hourly, 1)
				assert.ErrorContains(t, err, "the test is over")
			})
			l.AwaitBlocked(2*i + 1)
			calls.Go(func() {
				lease := ratelimit.Call{Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: "jobs", TTL: time.Minute}}, ID: "a", MaxWait: ratelimit.Forever}
				_, err := l.Decide(context.Background(), lease)
				assert.ErrorContains(t, err, "the test is over")
			})
			l.AwaitBlocked(2*i + 2)
		}
	})
}

// Advance is safe for concurrent use. Outside of a bubble the times add up; in a bubble they are slept at the same
// time.
func TestTheClockIsAdvancedBySeveral(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		l := ratelimittest.New(t)
		began, inBubble := l.Now(), time.Now().Year() < 2025
		decide(t, l, on("k", hourly))
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { decide(t, l, inLine("k", hourly)) })
		}
		l.AwaitBlocked(4)
		for range 8 {
			all.Go(func() { l.Advance(30 * time.Minute) })
			all.Go(func() { l.Blocked(); l.Asked(); l.Now() })
		}
		all.Wait()
		want := 4 * time.Hour // so long it takes until all are let in
		assert.Equal(t, want, l.Now().Sub(began), "in a bubble: %v", inBubble)
	})
}

// A clock that is set back and advanced any number of times goes on.
func TestTheClockGoesOnForCenturies(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	l := ratelimittest.New(t)
	start := l.Now()
	results := make(chan ratelimit.Result, 1)
	for i := range 20 {
		key := on(l.Now().String(), hourly).Keys[0].Name + string(rune('a'+i))
		decide(t, l, on(key, hourly))
		l.Slow(100 * year)
		go func() { results <- decide(t, l, inLine(key, hourly)) }()
		l.AwaitBlocked(1)
		l.Advance(time.Hour)
		l.SetTime(start.Add(100 * year))
		l.Advance(99 * year)
		assert.Equal(t, 1, l.Blocked(), "round %d", i)
		l.Advance(year)
		assert.False(t, (<-results).Limited)
		assert.Equal(t, start.Add(200*year), l.Now())
		l.Heal()
		l.SetTime(start)
	}
}

// A command without words is an error, whatever is wrong with the server.
func TestNoCommandIsAnError(t *testing.T) {
	t.Parallel()
	l := ratelimittest.New(t)
	for _, fault := range []func(){l.Heal, l.NoModule} {
		fault()
		require.Error(t, l.Process(t.Context(), redis.NewCmd(t.Context())))
	}
}

// A lease is renewed at its instants however the time passes: in steps of any length, by Advance or by itself, by
// several goroutines, with the wall clock set to and fro.
func TestALeaseLastsHoweverTimePasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimittest.New(t)
		o := leases.Options{Key: "jobs", Slots: 1, TTL: time.Minute}
		lease, err := leases.Take(t.Context(), l, o)
		require.NoError(t, err)
		for _, d := range []time.Duration{0, 1, time.Second, 20 * time.Second, time.Minute, time.Hour, 31 * 24 * time.Hour} {
			l.Advance(d)
			time.Sleep(d)
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { l.Advance(d) })
			}
			all.Wait()
			require.NoError(t, lease.Context().Err(), "after %v", d)
			_, err := leases.Take(t.Context(), l, o)
			require.ErrorIs(t, err, ratelimit.ErrLimited, "after %v", d)
		}
		l.SetTime(l.Now().Add(-time.Hour)) // the lease has an hour more to go on the server
		l.Advance(2 * time.Hour)
		require.NoError(t, lease.Context().Err(), "the clock was set back")
		l.SetTime(l.Now().Add(time.Hour)) // and here it has lapsed
		l.Advance(time.Minute)
		require.ErrorIs(t, context.Cause(lease.Context()), leases.ErrLost)
	})
}

// A holder that stops hearing from the server, in any way, stops in time, and so does its goroutine: the bubble ends.
func TestALeaseIsLostWithTheServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault func(*ratelimittest.Limiter)
		lost  bool
	}{
		"its key is deleted": {func(l *ratelimittest.Limiter) { _, _ = l.Reset(context.Background(), "jobs") }, true},
		"an outage":          {func(l *ratelimittest.Limiter) { l.Fail(ratelimittest.ErrOutage) }, true},
		"it hangs":           {(*ratelimittest.Limiter).Hang, true},
		"it is slow":         {func(l *ratelimittest.Limiter) { l.Slow(time.Hour) }, true},
		"a little slow":      {func(l *ratelimittest.Limiter) { l.Slow(time.Second) }, false},
		"no module":          {(*ratelimittest.Limiter).NoModule, true},
		"lost replies":       {(*ratelimittest.Limiter).LoseReplies, true},
		"one reply is lost":  {func(l *ratelimittest.Limiter) { l.Next(1).LoseReplies() }, false},
		"two commands fail":  {func(l *ratelimittest.Limiter) { l.Next(2).Fail(io.EOF) }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := ratelimittest.New(t)
			lease, err := leases.Take(t.Context(), l, leases.Options{Key: "jobs", Slots: 1, TTL: time.Minute})
			require.NoError(t, err)
			l.Advance(time.Minute)
			c.fault(l)
			l.Advance(59 * time.Second)
			if !c.lost {
				l.Advance(time.Hour)
				assert.NoError(t, lease.Context().Err(), name)
				return // and nobody releases it: it ends with the test's context
			}
			assert.ErrorIs(t, context.Cause(lease.Context()), leases.ErrLost, name)
		})
	}
}
