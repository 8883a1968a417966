package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

func TestSeveralKeysAreChargedTogether(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, protocol := range []int{2, 3} {
		l := ratelimit.New(s.Client(server.Protocol(protocol)))
		key := func(name string) string { return fmt.Sprint(protocol, name) }
		org := ratelimit.KeyLimits{Key: key("org"), Limits: ratelimit.Limits{ratelimit.Fixed(100, day), ratelimit.Rate(3, day)}}
		user := func(name string) ratelimit.KeyLimits {
			return ratelimit.KeyLimits{Key: key(name), Limits: ratelimit.Limits{ratelimit.Rate(2, day)}}
		}
		began := time.Now()
		r, err := l.LimitKeys(t.Context(), []ratelimit.KeyLimits{org, user("ann")}, ratelimit.Cost(2)).Result()
		require.NoError(t, err)
		assert.Equal(t, 1, r.Key)
		requireResult(t, began, ratelimit.Result{Limit: 2, Granted: 2, ResetAfter: day, NextAfter: day / 2}, r.Result)

		r, err = l.LimitKeys(t.Context(), []ratelimit.KeyLimits{org, user("bob")}, ratelimit.Cost(2)).Result()
		require.NoError(t, err)
		assert.True(t, r.Limited)
		assert.Equal(t, 0, r.Key)
		assert.Equal(t, 1, r.Rule)
		assert.EqualValues(t, 2, remaining(t, s, key("bob"), user("bob").Limits), "nothing is charged")

		// One group for all: the rule counts within its key all the same.
		same := []ratelimit.KeyLimits{user("cid"), user("ann"), user("dan")}
		r, err = l.LimitKeys(t.Context(), same).Result()
		require.NoError(t, err)
		assert.True(t, r.Limited)
		assert.Equal(t, 1, r.Key)
		assert.Equal(t, 0, r.Rule)
		r, err = l.LimitAny(t.Context(), []ratelimit.KeyLimits{same[1], same[2], same[0]}).Result()
		require.NoError(t, err)
		assert.False(t, r.Limited)
		assert.Equal(t, 1, r.Key)
		assert.EqualValues(t, 1, remaining(t, s, key("dan"), same[2].Limits))
		assert.EqualValues(t, 2, remaining(t, s, key("cid"), same[0].Limits))

		// A shadow in a later key, and a ban.
		shadowed := ratelimit.KeyLimits{Key: key("ann"), Limits: ratelimit.Limits{ratelimit.Rate(2, day).Shadow()}}
		r, err = l.LimitKeys(t.Context(), []ratelimit.KeyLimits{same[0], shadowed}).Result()
		require.NoError(t, err)
		assert.False(t, r.Limited)
		assert.True(t, r.Shadowed)
		assert.Equal(t, 1, r.ShadowKey)
		assert.Zero(t, r.Shadow)
		_, err = l.Ban(t.Context(), key("cid"), time.Hour).Result()
		require.NoError(t, err)
		r, err = l.LimitKeys(t.Context(), []ratelimit.KeyLimits{same[2], same[0]}).Result()
		require.NoError(t, err)
		assert.True(t, r.Banned)
		assert.Equal(t, 1, r.Key)
	}
}

func TestErrorsOfCallsOnSeveralKeys(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(server.Start(t).Client())
	limits := ratelimit.Limits{ratelimit.Rate(2, day)}
	for want, keys := range map[string][]ratelimit.KeyLimits{
		"wrong number of arguments":   nil,
		"each key can be given once":  {{Key: "a", Limits: limits}, {Key: "a", Limits: limits}},
		"ratelimit: CL.MLIMIT: RATE":  {{Key: "a", Limits: ratelimit.Limits{ratelimit.Rate(0, day)}}},
		"expected RATE, WINDOW or FI": {{Key: "a", Limits: limits}, {Key: "b"}},
	} {
		_, err := l.LimitKeys(t.Context(), keys).Result()
		assert.ErrorContains(t, err, want)
	}
}

func TestKeysOfOneSlotAreFoundInACluster(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t).Client()
	limits := ratelimit.Limits{ratelimit.Rate(2, day)}
	for i := range 20 {
		pipe := c.Pipeline()
		tag := fmt.Sprintf("{%d}", i)
		keys := []ratelimit.KeyLimits{{Key: tag + "user", Limits: limits}, {Key: tag, Limits: ratelimit.Limits{ratelimit.Fixed(9, day)}}}
		for _, client := range []ratelimit.Client{c, pipe} {
			call := ratelimit.New(client).LimitKeys(t.Context(), keys)
			if client == ratelimit.Client(pipe) {
				_, err := pipe.Exec(t.Context())
				require.NoError(t, err)
			}
			r, err := call.Result()
			require.NoError(t, err)
			assert.False(t, r.Limited)
		}
	}
	_, err := ratelimit.New(c).LimitKeys(t.Context(), []ratelimit.KeyLimits{{Key: "a", Limits: limits}, {Key: "b", Limits: limits}}).Result()
	require.True(t, redis.HasErrorPrefix(err, "CROSSSLOT"), "%v", err)
	assert.False(t, ratelimit.IsOutage(err))
}
