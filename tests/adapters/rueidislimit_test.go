package adapters

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/commands"
	"redis-throttle/ratelimit/rueidislimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

func connect(t *testing.T, options rueidis.ClientOption) rueidis.Client {
	t.Helper()
	options.DisableCache = true
	options.ConnWriteTimeout = time.Second
	client, err := rueidis.NewClient(options)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func on(s *server.Server) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{s.Addr()}}
}

// A read timeout does not end a wait, and a caller whose context ends leaves the queue.
func TestWaitIsAnsweredWhenItsTimeHasCome(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := rueidislimit.New(connect(t, on(s)))
	limits := ratelimit.Limits{ratelimit.Rate(1, 2500*time.Millisecond)}
	began := time.Now()
	for range 2 {
		r := calls.Ask(t, l, calls.InLine("k", limits, time.Minute))
		require.False(t, r.Limited)
	}
	assert.GreaterOrEqual(t, time.Since(began), 2500*time.Millisecond)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	hourly := ratelimit.Limits{ratelimit.Rate(1, time.Hour)}
	for range 2 {
		go func() {
			_, err := l.Decide(ctx, calls.InLine("left", hourly, 0))
			ended <- err
		}()
	}
	require.NoError(t, <-ended)
	require.Eventually(t, func() bool { return s.Info("throttle")["throttle_waiting"] == "1" }, 10*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, func() bool { return s.Info("throttle")["throttle_waiting"] == "0" }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool {
		r, err := l.Peek(t.Context(), "left", hourly, 1)
		return err == nil && r.ResetAfter <= time.Hour
	}, 10*time.Second, time.Millisecond, "the slot is given back")
}

func TestManyCallersShareAConnection(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := rueidislimit.New(connect(t, on(s)))
	limits := ratelimit.Limits{ratelimit.Fixed(100, day)}
	var allowed atomic.Int64
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			for range 10 {
				if r, err := l.Limit(t.Context(), "k", limits, 1); assert.NoError(t, err) && !r.Limited {
					allowed.Add(1)
				}
			}
		})
	}
	callers.Wait()
	assert.EqualValues(t, 100, allowed.Load())
}

func TestErrorsAreToldApart(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(5, day)}
	s := server.Start(t)
	client := connect(t, on(s))
	l := rueidislimit.New(client)
	s.MustDo("RPUSH", "list", "1")
	_, err := l.Limit(t.Context(), "list", limits, 1)
	var reply *rueidis.RedisError
	require.ErrorAs(t, err, &reply)
	assert.ErrorContains(t, err, "ratelimit: CL.LIMIT: WRONGTYPE")
	assert.False(t, ratelimit.IsOutage(err))

	plain := rueidislimit.Client(connect(t, on(server.Start(t, server.WithoutModule()))))
	_, err = ratelimit.New(commands.On(plain, commands.Options{Send: commands.Module}), ratelimit.Options{}).Limit(t.Context(), "k", limits, 1)
	require.ErrorIs(t, err, ratelimit.ErrNoModule)

	s.MustDo("REPLICAOF", "127.0.0.1", "1")
	_, err = l.Limit(t.Context(), "k", limits, 1)
	require.ErrorContains(t, err, "READONLY")
	assert.True(t, ratelimit.IsOutage(err))
	s.MustDo("REPLICAOF", "NO", "ONE")

	s.Pause()
	_, err = l.Limit(t.Context(), "k", limits, 1)
	s.Resume()
	require.Error(t, err)
	assert.True(t, ratelimit.IsOutage(err), "%v", err)

	s.Kill()
	_, err = l.Limit(t.Context(), "k", limits, 1)
	require.Error(t, err)
	assert.True(t, ratelimit.IsOutage(err), "%v", err)
}

func TestClusterFindsTheNodeOfAKey(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	options := rueidis.ClientOption{ShuffleInit: true}
	for _, n := range c.Nodes {
		options.InitAddress = append(options.InitAddress, n.Addr())
	}
	l := rueidislimit.New(connect(t, options))
	limits := ratelimit.Limits{ratelimit.Rate(2, day)}
	for i := range 30 {
		key := fmt.Sprint("key", i)
		for call, limited := range []bool{false, false, true} {
			r := calls.Ask(t, l, calls.On(key, limits))
			require.Equal(t, limited, r.Limited, "%s, call %d", key, call)
		}
		r := calls.Ask(t, l, calls.Throttle(key, limits[0], 1))
		require.True(t, r.Limited)
	}
}

func TestSentinelsLeadTheClientToTheNewMaster(t *testing.T) {
	t.Parallel()
	master := server.Start(t)
	replica := server.Start(t, server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, replica)
	sentinels := topology.Watch(t, 3, master, 1)
	l := rueidislimit.New(connect(t, rueidis.ClientOption{
		InitAddress: sentinels.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: topology.MasterName},
	}))
	limits := ratelimit.Limits{ratelimit.Rate(5, day)}
	r := calls.Ask(t, l, calls.On("k", limits, calls.Cost(3)))
	require.EqualValues(t, 2, r.Remaining)
	topology.AwaitReplicas(t, master, replica)
	master.Kill()
	for err := error(nil); ; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		r, err = l.Limit(ctx, "k", limits, 1)
		cancel()
		if err == nil {
			break
		}
		require.True(t, ratelimit.IsOutage(err), "%v", err)
		require.NoError(t, t.Context().Err())
	}
	assert.Same(t, replica, sentinels.AwaitPromotion(t, master, master, replica))
	assert.EqualValues(t, 1, r.Remaining, "what was charged to the old master counts")
}
