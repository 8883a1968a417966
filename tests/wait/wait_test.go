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
	for _, limit := range []string{"RATE 1/h BURST 1", "WINDOW 1/h"} {
		w := kit.StartWatched(t)
		kit.Ask(t, w.Conn, "CL.LIMIT key %s", limit)
		before := w.Traces(t, "key")
		call := strings.Fields("CL.WAIT key " + limit + " TIMEOUT 0")
		script := "return redis.call('CL.WAIT', KEYS[1], unpack(ARGV))"
		replies, err := w.Conn.Pipeline([]string{"MULTI"}, call, []string{"EXEC"}, append([]string{"EVAL", script, "1"}, call[1:]...))
		require.NoError(t, err)
		for _, v := range []resp.Value{replies[2].Elems[0], replies[3]} {
			a, err := kit.StandingIn(v)
			require.NoError(t, err)
			assert.Equal(t, []int64{1, 0}, []int64{a.Limited, a.Granted})
		}
		assert.Equal(t, before, w.Traces(t, "key"))
		a, err := kit.StandingIn(w.Call(t, append([]string{"EVAL", script, "1", "fresh"}, call[2:]...)...))
		require.NoError(t, err)
		assert.EqualValues(t, 0, a.Limited, "where nobody has to wait it takes as usual")
		assert.Equal(t, "0", w.Info("throttle")["throttle_waited"])
	}
}
