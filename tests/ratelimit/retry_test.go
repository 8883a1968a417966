package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/retry"
	"redis-throttle/tests/server"
)

func TestRetryGetsThroughALimitOfTheServer(t *testing.T) {
	t.Parallel()
	const interval = 200 * time.Millisecond
	l := ratelimit.New(server.Start(t).Client(), ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Rate(1, interval).Burst(1)}
	began := time.Now()
	for range 3 {
		err := retry.Backoff{Base: time.Millisecond}.Do(t.Context(), func(ctx context.Context) error {
			result, err := l.Limit(ctx, "k", limits, 1)
			if err != nil {
				return err
			}
			return result.Err()
		})
		require.NoError(t, err)
	}
	assert.GreaterOrEqual(t, time.Since(began), 2*interval)
}
