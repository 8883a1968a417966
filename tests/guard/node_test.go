package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// nodes sends keys to the server that they name.
type nodes map[string]ratelimit.Decider

func (n nodes) Decide(ctx context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	return n[c.Keys[0].Name].Decide(ctx, c)
}

// A node that is down keeps no call from the others.
func TestEachNodeHasABreakerOfItsOwn(t *testing.T) {
	t.Parallel()
	up, down := server.Start(t), server.Start(t)
	behind := nodes{
		"up":   ratelimit.New(up.Client(), ratelimit.Options{}),
		"down": ratelimit.New(down.Client(quick), ratelimit.Options{}),
	}
	var changed []string
	g := guard.New(behind, guard.Options{
		Policy: guard.Open, Pause: time.Hour, Node: func(key string) string { return key },
		OnChange: func(node string, outage error) { changed = append(changed, node) },
	})
	down.Kill()
	limits := ratelimit.Limits{ratelimit.Rate(1000, day)}
	for range 100 {
		result := calls.Ask(t, g, calls.On("up", limits))
		assert.Equal(t, "server", result.By)
		result = calls.Ask(t, g, calls.On("down", limits))
		assert.Equal(t, "policy", result.By)
	}
	assert.Equal(t, []string{"down"}, changed)
}

// The same in a cluster, where the client says which master has a key.
func TestAMasterThatHangsKeepsNoCallFromTheOthers(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t, server.Config("cluster-require-full-coverage no"))
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{c.Masters()[0].Addr(), c.Masters()[1].Addr(), c.Masters()[2].Addr()}, ReadTimeout: 100 * time.Millisecond, MaxRetries: -1, MaxRedirects: 1,
	})
	t.Cleanup(func() { _ = client.Close() })
	hangs := c.Masters()[0]
	var mu sync.Mutex
	changed := map[string]bool{}
	g := guard.New(ratelimit.New(client, ratelimit.Options{}), guard.Options{
		Policy: guard.Open, Pause: time.Hour, Node: guard.Masters(client),
		OnChange: func(node string, _ error) {
			mu.Lock()
			defer mu.Unlock()
			changed[node] = true
		},
	})
	limits := ratelimit.Limits{ratelimit.Rate(1_000_000, day)}
	var there, elsewhere []string
	for i := 0; len(there) < 20 || len(elsewhere) < 40; i++ {
		key := fmt.Sprint("key", i)
		if c.Owner(c.Slot(key)) == hangs {
			there = append(there, key)
		} else {
			elsewhere = append(elsewhere, key)
		}
		result := calls.Ask(t, g, calls.On(key, limits))
		require.Equal(t, "server", result.By)
	}

	hangs.Pause()
	defer hangs.Resume()
	for i := range 20 {
		result := calls.Ask(t, g, calls.On(there[i], limits))
		assert.Equal(t, "policy", result.By)
		for _, key := range elsewhere {
			result := calls.Ask(t, g, calls.On(key, limits))
			require.Equal(t, "server", result.By)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, map[string]bool{hangs.Addr(): true}, changed)
}

// An OnChange that asks the guard, such as one that reports through a limited channel, holds up nobody.
func TestOnChangeMayCallTheGuard(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	limits := ratelimit.Limits{ratelimit.Rate(1000, day)}
	var g *guard.Guard
	told := make(chan error, 2)
	g = guard.New(ratelimit.New(s.Client(quick), ratelimit.Options{}), guard.Options{
		Policy: guard.Open, Failures: 1, Pause: time.Hour,
		OnChange: func(string, error) {
			_, err := g.Decide(context.Background(), calls.On("k", limits))
			told <- err
		},
	})
	s.Kill()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = g.Decide(context.Background(), calls.On("k", limits))
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the guard waits for itself")
	}
	require.NoError(t, <-told)
}

// A limit that is smaller than the number of processes lets something through in each of them.
func TestASmallLimitIsNoDenialOfEverything(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.Kill()
	limits := ratelimit.Limits{ratelimit.Rate(5, time.Minute)}
	for never, want := range map[bool]bool{false: false, true: true} {
		g := guard.New(ratelimit.New(s.Client(quick), ratelimit.Options{}), guard.Options{
			Policy: guard.Local, Processes: 8, NeverMore: never, Failures: 1, Pause: time.Hour, Logger: silent,
		})
		result := calls.Ask(t, g, calls.On("k", limits))
		assert.Equal(t, want, result.Limited)
		assert.Equal(t, "local", result.By)
	}
}

// What is about the state of the server fails with the outage; leases that were taken here are renewed and released here.
func TestLeasesInAnOutage(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := guard.New(ratelimit.New(s.Client(quick), ratelimit.Options{}), guard.Options{Policy: guard.Local, Failures: 1, Pause: time.Hour, Logger: silent})
	taken := calls.Ask(t, g, calls.Lease("jobs", 2, time.Hour, "of the server"))
	require.Equal(t, "server", taken.By)
	s.Kill()
	_, err := g.Decide(t.Context(), calls.Renew("jobs", "of the server", time.Hour))
	require.True(t, ratelimit.IsOutage(err), err)
	taken = calls.Ask(t, g, calls.Lease("jobs", 2, time.Hour, "mine"))
	require.Equal(t, "local", taken.By)
	renewed := calls.Ask(t, g, calls.Renew("jobs", "mine", time.Hour))
	assert.False(t, renewed.Limited)
	released := calls.Ask(t, g, calls.Release("jobs", "mine"))
	assert.EqualValues(t, -1, released.Granted)
	_, err = g.Decide(t.Context(), ratelimit.Call{Verb: ratelimit.VerbRefund, Keys: calls.On("k", ratelimit.Limits{ratelimit.Rate(1, day)}).Keys, Cost: 1})
	require.True(t, ratelimit.IsOutage(err), err)
}

// While nobody knows the cluster, Masters says so at once: it does not ask anew for each call, and it waits for no answer.
func TestMastersDoNotWaitForAClusterThatIsUnknown(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	//lint:ignore SA1019 it is what ClusterOptions.ClusterSlots has to answer
	slots, err := c.Masters()[0].Client().ClusterSlots(t.Context()).Result()
	require.NoError(t, err)
	var known atomic.Bool
	asked := make(chan struct{}, 1000)
	answers := make(chan struct{})
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			asked <- struct{}{}
			<-answers
			if !known.Load() {
				return nil, errors.New("nobody knows")
			}
			return slots, nil
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	masterOf := guard.Masters(client)
	said := make(chan string, 1)
	go func() {
		for range 99 {
			masterOf("k")
		}
		said <- masterOf("k")
	}()
	select {
	case addr := <-said:
		assert.Empty(t, addr)
	case <-time.After(time.Minute):
		t.Fatal("Masters waits for the cluster")
	}
	<-asked
	assert.Empty(t, asked, "it asks once at a time")
	known.Store(true)
	close(answers)
	port := fmt.Sprint(":", c.Owner(c.Slot("k")).Port)
	require.Eventually(t, func() bool { return strings.HasSuffix(masterOf("k"), port) }, time.Minute, time.Millisecond)
}

// What was an outage while nobody knew the cluster is over when the node answers that has the key.
func TestTheOutageOfAnUnknownClusterEnds(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	//lint:ignore SA1019 it is what ClusterOptions.ClusterSlots has to answer
	slots, err := c.Masters()[0].Client().ClusterSlots(t.Context()).Result()
	require.NoError(t, err)
	var known atomic.Bool
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			if !known.Load() {
				return nil, io.EOF
			}
			return slots, nil
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	var changed []string
	g := guard.New(ratelimit.New(client, ratelimit.Options{}), guard.Options{
		Policy: guard.Open, Failures: 1, Pause: time.Millisecond, Node: guard.Masters(client),
		OnChange: func(node string, outage error) {
			changed = append(changed, fmt.Sprintf("%q away: %t", node, outage != nil))
		},
	})
	ask := func() string {
		result := calls.Ask(t, g, calls.On("k", ratelimit.Limits{ratelimit.Rate(1_000_000, day)}))
		return result.By
	}
	require.Equal(t, "policy", ask())
	require.True(t, g.Out())
	known.Store(true)
	require.Eventually(t, func() bool { return ask() == "server" && !g.Out() }, 10*time.Second, time.Millisecond)
	assert.Equal(t, []string{`"" away: true`, `"" away: false`}, changed)
}
