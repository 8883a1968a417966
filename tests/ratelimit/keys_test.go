package ratelimit_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/pipelimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/topology"
)

func TestKeysOfOneSlotAreFoundInACluster(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t).Client()
	limits := ratelimit.Limits{ratelimit.Rate(2, day)}
	for i := range 20 {
		pipe := c.Pipeline()
		tag := fmt.Sprintf("{%d}", i)
		keys := []ratelimit.Key{{Name: tag + "user", Limits: limits}, {Name: tag, Limits: ratelimit.Limits{ratelimit.Fixed(9, day)}}}
		queued := pipelimit.Queue(t.Context(), pipe, calls.OnKeys(keys))
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
		r, err := queued.Result()
		require.NoError(t, err)
		assert.False(t, r.Limited)
		assert.False(t, calls.Ask(t, ratelimit.New(c, ratelimit.Options{}), calls.OnKeys(keys)).Limited)
	}
	_, err := ratelimit.New(c, ratelimit.Options{}).Decide(t.Context(), calls.OnKeys([]ratelimit.Key{{Name: "a", Limits: limits}, {Name: "b", Limits: limits}}))
	require.True(t, redis.HasErrorPrefix(err, "CROSSSLOT"), "%v", err)
	assert.False(t, ratelimit.IsOutage(err))
	assert.ErrorContains(t, err, "the same hash tag")
}
