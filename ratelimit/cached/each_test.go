package cached_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/cached"
)

type denyingEach struct{}

func (denyingEach) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{Limited: true, RetryAfter: 8 * time.Second, By: "server", Each: []ratelimit.Result{
		{Limited: true, RetryAfter: 8 * time.Second, ResetAfter: 9 * time.Second},
		{ResetAfter: time.Second},
		{Limited: true, RetryAfter: ratelimit.Never},
	}}, nil
}

// The times of each limit are counted down like those of the one that decided.
func TestEachLimitOfARememberedDenialIsCountedDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cached.New(denyingEach{}, cached.Options{})
		call := callOn("k")
		call.Each = true
		for _, want := range []time.Duration{8 * time.Second, 5 * time.Second, 3 * time.Second} {
			result, err := c.Decide(t.Context(), call)
			require.NoError(t, err)
			assert.Equal(t, want, result.RetryAfter)
			assert.Equal(t, want, result.Each[0].RetryAfter)
			assert.Equal(t, want+time.Second, result.Each[0].ResetAfter)
			assert.Equal(t, max(want-7*time.Second, 0), result.Each[1].ResetAfter)
			assert.Equal(t, ratelimit.Never, result.Each[2].RetryAfter)
			time.Sleep(want - max(want-3*time.Second, 3*time.Second))
		}
	})
}

// denyingSecond denies a call by its second key, and would have by the shadow of the first.
type denyingSecond struct{}

func (denyingSecond) Decide(_ context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{
		Limited: true, RetryAfter: time.Hour, Key: c.Keys[1].Name, KeyIndex: 1, Shadowed: true, ShadowKey: c.Keys[0].Name, By: "server",
		Each: []ratelimit.Result{{Key: c.Keys[0].Name}, {Key: c.Keys[1].Name, KeyIndex: 1}},
	}, nil
}

// A remembered denial names the keys that the server's did, and the first caller's is left as it was.
func TestARememberedDenialNamesItsKeys(t *testing.T) {
	t.Parallel()
	c := cached.New(denyingSecond{}, cached.Options{})
	call := callOn("a")
	call.Keys, call.Each = append(call.Keys, callOn("b").Keys...), true
	var results []ratelimit.Result
	for range 3 {
		result, err := c.Decide(t.Context(), call)
		require.NoError(t, err)
		results = append(results, result)
	}
	for i, result := range results {
		assert.Equal(t, i > 0, result.By == "cache")
		assert.Equal(t, []string{"b", "a"}, []string{result.Key, result.ShadowKey}, i)
		assert.Equal(t, []string{"a", "b"}, []string{result.Each[0].Key, result.Each[1].Key}, i)
	}
}
