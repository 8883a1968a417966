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

// The answer says how long the caller was held, and the state after that.
func TestAnswerTellsTheWait(t *testing.T) {
	t.Parallel()
	c := kit.StartCheckBuild(t).Raw()
	replies, from, to := kit.Timed(t, c, "CL.LIMIT key RATE 1/200ms BURST 1", "CL.WAIT key RATE 1/200ms BURST 1 TIMEOUT 10s")
	a, err := kit.StandingIn(replies[1])
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 1}, []int64{a.Limited, a.Granted})
	assert.LessOrEqual(t, a.WaitMs, kit.CeilMs(to-from))
	assert.Positive(t, a.WaitMs)
	// It comes after its slot, and the next is 200 ms behind that.
	assert.LessOrEqual(t, a.ResetAfterMs, int64(200))
	assert.GreaterOrEqual(t, a.ResetAfterMs, 400-kit.CeilMs(to-from))
}

func TestWhoWouldWaitTooLongIsLimitedAtOnce(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	assert.EqualValues(t, 0, kit.Ask(t, w.Conn, "CL.WAIT key RATE 1/h BURST 1 TIMEOUT 1s").Limited)
	before := w.Traces(t, "key")
	a := kit.Ask(t, w.Conn, "CL.WAIT key RATE 1/h BURST 1 TIMEOUT 3500s")
	assert.Equal(t, []int64{1, 1, 0, 0}, []int64{a.Limited, a.Rule, a.Granted, a.WaitMs})
	// It can be asked again when the slot is that near.
	assert.Positive(t, a.RetryAfterMs)
	assert.LessOrEqual(t, a.RetryAfterMs, int64(100_000))
	a = kit.Ask(t, w.Conn, "CL.WAIT key RATE 1/h BURST 1 COST 2 TIMEOUT 0")
	assert.Equal(t, []int64{1, -1}, []int64{a.Limited, a.RetryAfterMs}, "never possible: nobody waits for that")
	assert.Equal(t, before, w.Traces(t, "key"))
}

func TestNobodyBlocksInMultiOrAScript(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	kit.Ask(t, w.Conn, "CL.LIMIT key RATE 1/h BURST 1")
	before := w.Traces(t, "key")
	replies, err := w.Conn.Pipeline([]string{"MULTI"}, strings.Fields("CL.WAIT key RATE 1/h BURST 1 TIMEOUT 0"), []string{"EXEC"},
		[]string{"EVAL", "return redis.call('CL.WAIT', KEYS[1], 'RATE', '1/h', 'BURST', '1', 'TIMEOUT', '0')", "1", "key"})
	require.NoError(t, err)
	for _, v := range []resp.Value{replies[2].Elems[0], replies[3]} {
		a, err := kit.StandingIn(v)
		require.NoError(t, err)
		assert.Equal(t, []int64{1, 0}, []int64{a.Limited, a.Granted})
	}
	assert.Equal(t, before, w.Traces(t, "key"))
	v := w.Call(t, "EVAL", "return redis.call('CL.WAIT', KEYS[1], 'RATE', '1/h', 'TIMEOUT', '0')", "1", "fresh")
	a, err := kit.StandingIn(v)
	require.NoError(t, err)
	assert.EqualValues(t, 0, a.Limited, "where nobody has to wait it takes as usual")
	assert.Equal(t, "0", w.Info("throttle")["throttle_waited"])
}
