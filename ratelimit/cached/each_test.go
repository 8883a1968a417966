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
		call := callOn("k", 1)
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
