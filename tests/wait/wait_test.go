package wait_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

func TestCallersAreServedInOrderOfArrivalAtTheirTimes(t *testing.T) {
	server.NeedsServer(t, "one event loop for all connections")
	t.Parallel()
	const callers = 100
	s := server.Start(t)
	l := kit.StandInLine(t, s, callers, 20*time.Millisecond, 100)
	// How late this machine wakes anybody, in the same time.
	stop, own := make(chan struct{}), make(chan []time.Duration)
	go func() {
		var late []time.Duration
		for {
			select {
			case <-stop:
				own <- late
				return
			default:
				before := time.Now()
				time.Sleep(5 * time.Millisecond)
				late = append(late, time.Since(before)-5*time.Millisecond)
			}
		}
	}()
	late := make([]time.Duration, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { late[i] = l.RequireServed(i, i) })
	}
	wg.Wait()
	close(stop)
	sleeper := slices.Sorted(slices.Values(<-own))
	slices.Sort(late)
	p99 := func(sorted []time.Duration) time.Duration { return sorted[len(sorted)*99/100] }
	t.Logf("answered late by: median %v, p99 %v; a sleeper of this machine: p99 %v, most %v",
		late[callers/2], p99(late), p99(sleeper), sleeper[len(sleeper)-1])
	assert.Less(t, late[callers/2], l.Spacing+p99(sleeper))

	want := make([]string, callers)
	for i := range want {
		want[i] = fmt.Sprint(i)
	}
	assert.Equal(t, want, l.Order(callers))
	waited, left := l.Counted()
	assert.Equal(t, []int64{0, 100, 0}, []int64{s.InfoInt("throttle", "throttle_waiting"), waited, left})
}

func TestNobodyBlocksInMultiOrAScript(t *testing.T) {
	t.Parallel()
	for take, wait := range map[string]string{
		"CL.LIMIT key RATE 1/h BURST 1":    "CL.WAIT key RATE 1/h BURST 1 TIMEOUT 0",
		"CL.LIMIT key WINDOW 1/h":          "CL.WAIT key WINDOW 1/h TIMEOUT 0",
		"CL.LEASE key SLOTS 1 TTL 1h ID a": "CL.LEASE key SLOTS 1 TTL 1h ID b TIMEOUT 0",
	} {
		w := kit.StartWatched(t)
		kit.MustDoAll(t, w.Conn, take)
		before := w.Traces(t, "key")
		call := strings.Fields(wait)
		script := []string{"EVAL", "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))", "1"}
		inScript := func(key string) []string { return append(append(slices.Clone(script), key, call[0]), call[2:]...) }
		replies, err := w.Conn.Pipeline([]string{"MULTI"}, call, []string{"EXEC"}, inScript("key"))
		require.NoError(t, err)
		for _, v := range []resp.Value{replies[2].Elems[0], replies[3]} {
			assert.EqualValues(t, 1, kit.Pairs(v)["limited"].Int, "%s: %v", wait, v)
		}
		assert.Equal(t, before, w.Traces(t, "key"))
		assert.True(t, kit.IsLetThrough(w.Call(t, inScript("fresh")...)), "where nobody has to wait it takes as usual")
		assert.Equal(t, "0", w.Info("throttle")["throttle_waited"])
	}
}
