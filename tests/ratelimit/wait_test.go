package ratelimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/tests/server"
)

func TestWaitIsAnsweredWhenItsTimeHasCome(t *testing.T) {
	t.Parallel()
	const interval = 300 * time.Millisecond
	limits := ratelimit.Limits{ratelimit.Rate(1, interval).Burst(1)}
	s := server.Start(t)
	// A read timeout shorter than the wait does not end it.
	l := ratelimit.New(s.Client(func(o *redis.Options) { o.ReadTimeout = interval / 3 }))
	for _, timeout := range []time.Duration{time.Minute, 0} {
		key := timeout.String()
		began := time.Now()
		first, err := l.Wait(t.Context(), key, limits, timeout).Result()
		require.NoError(t, err)
		assert.False(t, first.Limited)
		assert.Zero(t, first.Wait)
		second, err := l.Wait(t.Context(), key, limits, timeout).Result()
		require.NoError(t, err)
		assert.False(t, second.Limited)
		assert.EqualValues(t, 1, second.Granted)
		assert.Positive(t, second.Wait)
		assert.LessOrEqual(t, second.Wait, time.Since(began)+time.Millisecond)
		assert.GreaterOrEqual(t, time.Since(began), interval)
	}
}

func TestWaitBeyondItsTimeoutIsLimitedAtOnce(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(1, day)}
	l := ratelimit.New(server.Start(t).Client())
	r, err := l.Wait(t.Context(), "k", limits, time.Minute).Result()
	require.NoError(t, err)
	require.False(t, r.Limited)
	r, err = l.Wait(t.Context(), "k", limits, time.Minute).Result()
	require.NoError(t, err)
	assert.True(t, r.Limited)

	// The time that the context has left counts as well.
	for _, timeout := range []time.Duration{0, 2 * day} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r, err = l.Wait(ctx, "k", limits, timeout).Result()
		cancel()
		require.NoError(t, err)
		assert.True(t, r.Limited)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err = l.Wait(ctx, "k", limits, 0).Result()
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// A WINDOW and a FIXED are waited for in order of arrival, and nothing is reserved.
func TestWaitForAWindow(t *testing.T) {
	t.Parallel()
	const period = 700 * time.Millisecond
	s := server.Start(t)
	for _, protocol := range []int{2, 3} {
		for _, limit := range []ratelimit.Limit{ratelimit.Window(1, period), ratelimit.Fixed(1, period).First()} {
			// A read timeout shorter than the wait does not end it.
			l := ratelimit.New(s.Client(server.Protocol(protocol), func(o *redis.Options) { o.ReadTimeout = period / 7 }))
			limits, key := ratelimit.Limits{limit, ratelimit.Rate(1000, time.Second)}, fmt.Sprint(protocol, limit)
			charged := time.Now()
			first, err := l.Limit(t.Context(), key, limits).Result()
			require.NoError(t, err)
			require.False(t, first.Limited)
			came := make(chan int, 2)
			for i := range 2 {
				go func() {
					began := time.Now()
					r, err := l.Wait(context.WithoutCancel(t.Context()), key, limits, time.Minute).Result()
					assert.NoError(t, err)
					assert.False(t, r.Limited)
					assert.EqualValues(t, 1, r.Granted)
					assert.LessOrEqual(t, r.Wait, time.Since(began)+time.Millisecond)
					assert.GreaterOrEqual(t, time.Since(charged), time.Duration(i+1)*period, "one for each window")
					came <- i
				}()
				require.Eventually(t, func() bool { return s.Info("throttle")["throttle_waiting"] == fmt.Sprint(i+1) || len(came) > 0 },
					10*time.Second, time.Millisecond)
			}
			require.Equal(t, 0, <-came)
			require.Equal(t, 1, <-came)
		}
	}
}

// The deadline of a context ends a wait with the answer limited. It is no outage, also with a
// client that heeds deadlines itself. Nothing was charged, so the next caller has the units.
func TestWaitForAWindowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	const patience = 400 * time.Millisecond
	s := server.Start(t)
	limits := ratelimit.Limits{ratelimit.Window(1, day)}
	for _, heeds := range []bool{false, true} {
		l, key := ratelimit.New(s.Client(func(o *redis.Options) { o.ContextTimeoutEnabled = heeds })), fmt.Sprint(heeds)
		_, err := l.Limit(t.Context(), key, limits).Result()
		require.NoError(t, err)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			began := time.Now()
			r, err := l.Wait(ctx, key, limits, 0).Result()
			cancel()
			require.NoError(t, err)
			require.True(t, r.Limited)
			require.Positive(t, r.RetryAfter)
			require.GreaterOrEqual(t, time.Since(began), patience/2, "it stood in line")
			require.Zero(t, r.Granted)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan ratelimit.Result, 1)
		began := time.Now()
		go func() {
			r, err := l.Wait(ctx, key, limits, patience).Result()
			assert.NoError(t, err)
			ended <- r
		}()
		require.Eventually(t, func() bool { return s.Info("throttle")["throttle_waiting"] == "1" || len(ended) > 0 }, 10*time.Second, time.Millisecond)
		cancel()
		r := <-ended
		assert.True(t, r.Limited)
		assert.GreaterOrEqual(t, time.Since(began), patience, "go-redis does not heed it")
		_, err = l.Wait(ctx, key, limits, patience).Result()
		require.ErrorIs(t, err, context.Canceled)

		_, err = l.Refund(t.Context(), key, limits).Result()
		require.NoError(t, err)
		r, err = l.Wait(t.Context(), key, limits, time.Minute).Result()
		require.NoError(t, err)
		assert.False(t, r.Limited)
		assert.Zero(t, r.Wait, "nobody was charged while waiting")
	}
}

func TestWaitNeedsAClientWithThePatience(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	limits := ratelimit.Limits{ratelimit.Rate(1, day)}
	ring := func(readTimeout time.Duration) *redis.Ring {
		r := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.Addr()}, ReadTimeout: readTimeout})
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	for _, c := range []struct {
		readTimeout, timeout time.Duration
		ok                   bool
	}{
		{time.Second, time.Minute, false},
		{time.Second, time.Second, false},
		{time.Second, 0, false},
		{2 * time.Minute, time.Minute, true},
		{-1, time.Minute, true},
		{-1, 0, true},
	} {
		_, err := ratelimit.New(ring(c.readTimeout)).Wait(t.Context(), c.readTimeout.String()+c.timeout.String(), limits, c.timeout).Result()
		if c.ok {
			assert.NoError(t, err, "%+v", c)
		} else {
			assert.ErrorContains(t, err, "ReadTimeout", "%+v", c)
		}
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr()}})
	defer cluster.Close()
	_, err := ratelimit.New(cluster).Wait(t.Context(), "k", limits, time.Minute).Result()
	assert.ErrorContains(t, err, "ReadTimeout")
}
