package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// A function cannot make its caller wait, and no client does so unless it is told to.
func TestACallThatWaitsNeedsTheModuleOrPoll(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	var log kit.Log
	client := server.Start(t, server.WithoutModule()).Client()
	limiter := limiterOn(client, &log, 0)
	lease := ratelimit.Call{Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: "l", Slots: 1, TTL: time.Hour}}, ID: "a", MaxWait: time.Minute}
	for range 2 { // the first finds out that there is no module, the second knows it
		_, err := limiter.Wait(t.Context(), "k", fiveADay, 1)
		require.ErrorIs(t, err, ratelimit.ErrNoModule)
		require.ErrorContains(t, err, "Poll of commands.On")
		assert.False(t, ratelimit.IsOutage(err))
	}
	result, err := limiter.Decide(t.Context(), lease)
	require.NoError(t, err, "a slot is free: nobody waits")
	assert.False(t, result.Limited)
	lease.ID = "b"
	_, err = limiter.Decide(t.Context(), lease)
	require.ErrorContains(t, err, "Poll of commands.On")

	lease.Group = "tenant"
	_, err = limiterOn(client, &log, time.Second).Decide(t.Context(), lease)
	require.ErrorContains(t, err, "Group, Priority and Weight need the module")
}

// Of a ban that lasts longer than it waits a caller is told at once, as by CL.WAIT.
func TestABanThatLastsLongerEndsAWaitAtOnce(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	var log kit.Log
	for name, client := range map[string]*redis.Client{"module": server.Start(t).Client(), "functions": server.Start(t, server.WithoutModule()).Client()} {
		limiter := limiterOn(client, &log, time.Hour) // a poll would never come
		_, err := limiter.Ban(t.Context(), "k", 2*time.Hour)
		require.NoError(t, err)
		for _, limit := range []ratelimit.Limit{ratelimit.Rate(5, time.Second), ratelimit.Window(5, time.Second)} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			result, err := limiter.Decide(ctx, ratelimit.Call{Verb: ratelimit.VerbWait,
				Keys: []ratelimit.Key{{Name: "k", Limits: ratelimit.Limits{limit}}}, Cost: 1, MaxWait: time.Hour})
			cancel()
			require.NoError(t, err, name)
			assert.True(t, result.Banned, name)
		}
	}
}

// Units of Rates are reserved in order of arrival, and given back when the caller leaves.
func TestWaitingOnRatesReservesWithoutTheModule(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	var log kit.Log
	s := server.Start(t, server.WithoutModule())
	limiter := limiterOn(s.Client(), &log, time.Hour) // a poll would never come
	limits := ratelimit.Limits{ratelimit.Rate(20, time.Second).Burst(1)}
	began := time.Now()
	for i := range 4 {
		result, err := limiter.Wait(t.Context(), "k", limits, 1)
		require.NoError(t, err)
		assert.False(t, result.Limited)
		assert.GreaterOrEqual(t, time.Since(began), time.Duration(i)*49*time.Millisecond)
	}

	slow := ratelimit.Limits{ratelimit.Rate(1, time.Hour)}
	_, err := limiter.Limit(t.Context(), "slow", slow, 1)
	require.NoError(t, err)
	result, err := limiter.Decide(t.Context(), ratelimit.Call{Verb: ratelimit.VerbWait, Keys: []ratelimit.Key{{Name: "slow", Limits: slow}}, MaxWait: time.Minute})
	require.NoError(t, err)
	assert.True(t, result.Limited, "its time comes too late, which it is told at once")

	ctx, leave := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := limiter.Wait(ctx, "slow", slow, 1)
		answer <- err
	}()
	peek := func() int64 {
		result, err := limiter.Peek(t.Context(), "slow", slow, 1)
		require.NoError(t, err)
		return int64(result.RetryAfter / time.Hour)
	}
	require.Eventually(t, func() bool { return peek() == 1 }, patience, time.Millisecond, "it is reserved")
	leave()
	require.ErrorIs(t, <-answer, context.Canceled)
	require.Eventually(t, func() bool { return peek() == 0 }, patience, time.Millisecond, "it is given back")
}

// Where nothing can be reserved, callers ask again.
func TestWaitingByPollsWithoutTheModule(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	var log kit.Log
	s := server.Start(t, server.WithoutModule())
	limiter := limiterOn(s.Client(), &log, 5*time.Millisecond)
	window := ratelimit.Limits{ratelimit.Window(1, time.Hour)}
	_, err := limiter.Limit(t.Context(), "w", window, 1)
	require.NoError(t, err)
	answer := make(chan ratelimit.Result, 1)
	go func() {
		result, err := limiter.Wait(t.Context(), "w", window, 1)
		assert.NoError(t, err)
		answer <- result
	}()
	polls := func() int64 { return s.InfoInt("stats", "total_commands_processed") }
	before := polls()
	require.Eventually(t, func() bool { return polls() > before+20 }, patience, time.Millisecond, "it asks again")
	_, err = limiter.Refund(t.Context(), "w", window, 1)
	require.NoError(t, err)
	result := <-answer
	assert.False(t, result.Limited)
	assert.Positive(t, result.Wait)

	for range 20 { // the last pause ends anywhere within the last millisecond
		const most = 7 * time.Millisecond
		result, err = limiter.Decide(t.Context(), ratelimit.Call{Verb: ratelimit.VerbWait, Keys: []ratelimit.Key{{Name: "w", Limits: window}}, MaxWait: most})
		require.NoError(t, err)
		assert.True(t, result.Limited)
		assert.GreaterOrEqual(t, result.Wait, most, "limited when its time is over: a refund may come before")
	}

	lease := ratelimit.Call{Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: "l", Slots: 1, TTL: time.Hour}}, ID: "a"}
	_, err = limiter.Decide(t.Context(), lease)
	require.NoError(t, err)
	next := lease
	next.ID, next.MaxWait = "b", ratelimit.Forever
	go func() {
		result, err := limiter.Decide(t.Context(), next)
		assert.NoError(t, err)
		answer <- result
	}()
	_, err = limiter.Decide(t.Context(), ratelimit.Call{Verb: ratelimit.VerbRelease, Keys: []ratelimit.Key{{Name: "l"}}, ID: "a"})
	require.NoError(t, err)
	assert.False(t, (<-answer).Limited)
}
