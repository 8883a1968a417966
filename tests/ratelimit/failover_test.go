package ratelimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/ratelimit/pipelimit"
	"redis-throttle/ratelimit/rueidislimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

func TestSentinelsLeadTheClientToTheNewMaster(t *testing.T) {
	t.Parallel()
	master := server.Start(t)
	replica := server.Start(t, server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, replica)
	sentinels := topology.Watch(t, 3, master, 1)
	limiters := map[string]*ratelimit.Limiter{
		"go-redis": ratelimit.New(sentinels.Client(t), ratelimit.Options{}),
		"rueidis": rueidislimit.New(connect(t, rueidis.ClientOption{
			InitAddress: sentinels.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: topology.MasterName},
		})),
	}
	limits := ratelimit.Limits{ratelimit.Rate(5, day), ratelimit.Window(9, day)}
	// A slot further away than the read timeout of either client.
	queue := ratelimit.Limits{ratelimit.Rate(1, 1500*time.Millisecond)}
	for library, l := range limiters {
		require.EqualValues(t, 2, calls.Ask(t, l, calls.On(library, limits, calls.Cost(3))).Remaining)
		for range 2 {
			waited := calls.Ask(t, l, calls.InLine("queue of "+library, queue, 5*time.Second))
			require.False(t, waited.Limited)
		}
	}

	topology.AwaitReplicas(t, master, replica)
	master.Kill()
	for library, l := range limiters {
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			r, err := l.Limit(ctx, library, limits, 1)
			cancel()
			if err == nil {
				assert.EqualValues(t, 1, r.Remaining, "what was charged to the old master counts")
				break
			}
			require.True(t, ratelimit.IsOutage(err), "%v", err)
			require.NoError(t, t.Context().Err())
		}
	}
	assert.Same(t, replica, sentinels.AwaitPromotion(t, master, master, replica))
}

func TestPipelineOfAClusterSendsEachCallToItsNode(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t).Client()
	limits := ratelimit.Limits{ratelimit.Rate(2, day)}
	for name, pipe := range map[string]redis.Pipeliner{"pipeline": c.Pipeline(), "{one slot}": c.TxPipeline()} {
		cmds := map[string][]*pipelimit.Reply{}
		for i := range 60 {
			key := fmt.Sprintf("%s:%d", name, i%20)
			cmds[key] = append(cmds[key], pipelimit.Queue(t.Context(), pipe, calls.On(key, limits)))
		}
		peeks := pipelimit.Queue(t.Context(), pipe, ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: []ratelimit.Key{{Name: name, Limits: limits}}, Cost: 1})
		banned := pipelimit.Queue(t.Context(), pipe, ratelimit.Call{Verb: ratelimit.VerbBan, Keys: []ratelimit.Key{{Name: name + ":banned"}}, Ban: time.Hour})
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err, name)
		for key, calls := range cmds {
			for i, call := range calls {
				r, err := call.Result()
				require.NoError(t, err, key)
				assert.Equal(t, i == 2, r.Limited, "%s, call %d", key, i)
			}
		}
		_, err = peeks.Result()
		require.NoError(t, err, name)
		d, err := banned.Result()
		require.NoError(t, err, name)
		assert.Positive(t, d.Lasts, name)
	}
}

// Also when the first error in the pipeline has another cause.
func TestPipelinesReachTheNewMasterOfACluster(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	masters := c.Masters()
	dies := masters[0]
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{masters[1].Addr(), masters[2].Addr()}, DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: time.Second, MaxRetries: -1,
		MaxRedirects:               1,
		ClusterStateReloadInterval: time.Hour, // nobody waits for that
	})
	t.Cleanup(func() { _ = client.Close() })
	pipelimit.Follow(client)
	limits := ratelimit.Limits{ratelimit.Window(1_000_000, day)}
	there, elsewhere := c.KeyOn(dies, "key"), c.KeyOn(masters[1], "key")
	ask := func() (ratelimit.Result, error) {
		pipe := client.Pipeline()
		wrong := pipelimit.Queue(t.Context(), pipe, calls.On(elsewhere, ratelimit.Limits{ratelimit.Rate(1_000_000_000_000, time.Second)}))
		reply := pipelimit.Queue(t.Context(), pipe, calls.On(there, limits))
		_, err := pipe.Exec(t.Context())
		require.ErrorContains(t, err, "at most 10^9 units per second", "the first error")
		_, err = wrong.Result()
		require.ErrorContains(t, err, "at most 10^9 units per second")
		return reply.Result()
	}
	result, err := ask()
	require.NoError(t, err)
	require.EqualValues(t, 1_000_000-1, result.Remaining)
	successor := c.ReplicaOf(dies)
	topology.AwaitReplicas(t, dies, successor)
	dies.Kill()
	_, err = ask()
	require.True(t, ratelimit.IsOutage(err), "%v", err)
	successor.MustDo("CLUSTER", "FAILOVER", "TAKEOVER")
	require.Eventually(t, func() bool {
		result, err = ask()
		return err == nil
	}, time.Minute, time.Millisecond)
	assert.EqualValues(t, 1_000_000-2, result.Remaining)
}

// A holder keeps its lease over a failover that is shorter than its TTL, renews it at the new master and releases it
// there.
func TestALeaseOutlivesItsMaster(t *testing.T) {
	t.Parallel()
	const ttl = 24 * time.Second
	master := server.Start(t)
	replica := server.Start(t, server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, replica)
	sentinels := topology.Watch(t, 3, master, 1)
	l := ratelimit.New(sentinels.Client(t), ratelimit.Options{})
	lease, err := leases.Take(t.Context(), l, leases.Options{Key: "jobs", Slots: 1, TTL: ttl})
	require.NoError(t, err)
	lasts := func(s *server.Server) time.Duration {
		held, err := leases.List(t.Context(), s.Client(), "jobs", 1)
		if err != nil || len(held.Leases) == 0 {
			return 0
		}
		return held.Leases[0].Lasts
	}
	require.Eventually(t, func() bool { return lasts(master) > ttl/2 }, time.Minute, 10*time.Millisecond, "the first, short TTL is over")
	topology.AwaitReplicas(t, master, replica)
	master.Kill()
	require.Same(t, replica, sentinels.AwaitPromotion(t, master, master, replica))
	before := lasts(replica)
	require.Eventually(t, func() bool { return lasts(replica) > before }, time.Minute, 10*time.Millisecond, "it is renewed at the new master")
	require.NoError(t, lease.Context().Err())
	_, err = leases.Take(t.Context(), l, leases.Options{Key: "jobs", Slots: 1, TTL: ttl})
	require.ErrorIs(t, err, ratelimit.ErrLimited)
	require.NoError(t, lease.Release(t.Context()))
	assert.Zero(t, lasts(replica))
}
