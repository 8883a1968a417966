package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/pipelimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

func TestSeveralKeysAreChargedTogether(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, protocol := range []int{2, 3} {
		l := ratelimit.New(s.Client(server.Protocol(protocol)), ratelimit.Options{})
		key := func(name string) string { return fmt.Sprint(protocol, name) }
		org := ratelimit.Key{Name: key("org"), Limits: ratelimit.Limits{ratelimit.Fixed(100, day), ratelimit.Rate(3, day)}}
		user := func(name string) ratelimit.Key {
			return ratelimit.Key{Name: key(name), Limits: ratelimit.Limits{ratelimit.Rate(2, day)}}
		}
		began := time.Now()
		r, err := l.Decide(t.Context(), calls.OnKeys([]ratelimit.Key{org, user("ann")}, calls.Cost(2)))
		require.NoError(t, err)
		assert.Equal(t, 1, r.Key)
		requireResult(t, began, ratelimit.Result{Key: 1, Limit: 2, Granted: 2, ResetAfter: day, NextAfter: day / 2}, r)

		r, err = l.Decide(t.Context(), calls.OnKeys([]ratelimit.Key{org, user("bob")}, calls.Cost(2)))
		require.NoError(t, err)
		assert.True(t, r.Limited)
		assert.Equal(t, 0, r.Key)
		assert.Equal(t, 1, r.Rule)
		assert.EqualValues(t, 2, remaining(t, s, key("bob"), user("bob").Limits), "nothing is charged")

		// One group for all: the rule counts within its key all the same.
		same := []ratelimit.Key{user("cid"), user("ann"), user("dan")}
		r, err = l.Decide(t.Context(), calls.OnKeys(same))
		require.NoError(t, err)
		assert.True(t, r.Limited)
		assert.Equal(t, 1, r.Key)
		assert.Equal(t, 0, r.Rule)
		r, err = l.Decide(t.Context(), calls.OnKeys([]ratelimit.Key{same[1], same[2], same[0]}, calls.Any))
		require.NoError(t, err)
		assert.False(t, r.Limited)
		assert.Equal(t, 1, r.Key)
		assert.EqualValues(t, 1, remaining(t, s, key("dan"), same[2].Limits))
		assert.EqualValues(t, 2, remaining(t, s, key("cid"), same[0].Limits))

		// A shadow in a later key, and a ban.
		shadowed := ratelimit.Key{Name: key("ann"), Limits: ratelimit.Limits{ratelimit.Rate(2, day).Shadow()}}
		r, err = l.Decide(t.Context(), calls.OnKeys([]ratelimit.Key{same[0], shadowed}))
		require.NoError(t, err)
		assert.False(t, r.Limited)
		assert.True(t, r.Shadowed)
		assert.Equal(t, 1, r.ShadowKey)
		assert.Zero(t, r.Shadow)
		_, err = l.Ban(t.Context(), key("cid"), time.Hour)
		require.NoError(t, err)
		r, err = l.Decide(t.Context(), calls.OnKeys([]ratelimit.Key{same[2], same[0]}))
		require.NoError(t, err)
		assert.True(t, r.Banned)
		assert.Equal(t, 1, r.Key)
	}
}

func TestErrorsOfCallsOnSeveralKeys(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(server.Start(t).Client(), ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Rate(2, day)}
	for want, keys := range map[string][]ratelimit.Key{
		"wrong number of arguments":  nil,
		"each key can be given once": {{Name: "a", Limits: limits}, {Name: "a", Limits: limits}},
		"ratelimit: CL.LIMIT: RATE":  {{Name: "a", Limits: ratelimit.Limits{ratelimit.Rate(0, day)}}},
		"key 2 of 2 has neither Lim": {{Name: "a", Limits: limits}, {Name: "b"}},
	} {
		_, err := l.Decide(t.Context(), calls.OnKeys(keys))
		assert.ErrorContains(t, err, want)
		assert.NotErrorIs(t, err, ratelimit.ErrNoModule)
	}
}

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
		for _, call := range []answer{answered(queued.Result()), answered(ratelimit.New(c, ratelimit.Options{}).Decide(t.Context(), calls.OnKeys(keys)))} {
			r, err := call.Result()
			require.NoError(t, err)
			assert.False(t, r.Limited)
		}
	}
	_, err := ratelimit.New(c, ratelimit.Options{}).Decide(t.Context(), calls.OnKeys([]ratelimit.Key{{Name: "a", Limits: limits}, {Name: "b", Limits: limits}}))
	require.True(t, redis.HasErrorPrefix(err, "CROSSSLOT"), "%v", err)
	assert.False(t, ratelimit.IsOutage(err))
}
