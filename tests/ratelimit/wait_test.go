package ratelimit_test

import (
	"context"
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
