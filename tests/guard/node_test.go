package guard_test

import (
	"context"
	"errors"
	"fmt"
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
