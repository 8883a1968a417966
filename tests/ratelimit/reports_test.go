package ratelimit_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/ratelimit/cached"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// Denials that a layer answers count in CL.TOP as those that the server answers.
func TestCLTopCountsWhatLayersDeny(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("top", "100"))
	remote := ratelimit.New(s.Client(), ratelimit.Options{})
	batches := batched.New(remote, batched.Options{})
	t.Cleanup(func() { _ = batches.Close(t.Context()) })
	for key, layer := range map[string]ratelimit.Decider{
		"cached":         cached.New(remote, cached.Options{}),
		"guarded":        cached.New(guard.New(remote, guard.Options{}), cached.Options{}),
		"batched":        batches,
		"cached batches": cached.New(batches, cached.Options{}),
	} {
		call := calls.On(key, ratelimit.Limits{ratelimit.Rate(1, time.Hour)})
		require.False(t, calls.Ask(t, layer, call).Limited)
		for range 300 {
			require.True(t, calls.Ask(t, layer, call).Limited)
		}
	}
	for _, key := range []string{"cached", "guarded", "batched", "cached batches"} {
		require.Eventually(t, func() bool { return kit.LimitedOf(s, key) == 300 }, patience, 10*time.Millisecond, "%s: %v", key, s.MustDo("CL.TOP"))
	}
	reports, err := strconv.Atoi(s.Info("throttle")["throttle_calls_denied"])
	require.NoError(t, err)
	assert.Less(t, reports, 100, "a call for each key and second")
}

// A report that the server cannot count is one refused call, or none, and changes nothing of how other calls are sent.
func TestAReportThatIsNotCountedChangesNothing(t *testing.T) {
	t.Parallel()
	report := ratelimit.Call{Verb: ratelimit.VerbDenied, Keys: []ratelimit.Key{{Name: "k"}}, Cost: 3}
	call := calls.On("k", ratelimit.Limits{ratelimit.Rate(1, time.Hour)})

	off := server.Start(t)
	limiter := ratelimit.New(off.Client(), ratelimit.Options{})
	assert.Zero(t, calls.Ask(t, limiter, report).Granted, "CL.TOP is off")
	assert.False(t, calls.Ask(t, limiter, call).Limited)
	if off.Program.AtLeast(6, 2) {
		off.MustDo("ACL", "SETUSER", "default", "-cl.denied")
		_, err := limiter.Decide(t.Context(), report)
		require.ErrorContains(t, err, "NOPERM")
		assert.False(t, ratelimit.IsOutage(err))
		assert.True(t, calls.Ask(t, limiter, call).Limited)
		assert.NotContains(t, off.Info("commandstats"), "cmdstat_evalsha", "the module stays the way")
	}

	without := server.Start(t, server.WithoutModule())
	limiter = ratelimit.New(without.Client(), ratelimit.Options{})
	calls.Ask(t, limiter, call)
	refused := without.Info("errorstats")
	_, err := limiter.Decide(t.Context(), report)
	require.ErrorIs(t, err, ratelimit.ErrNoModule)
	assert.Equal(t, refused, without.Info("errorstats"), "nothing was sent")
}
