package tests

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// line is callers of CL.WAIT on one key, one unit at a time, each on a connection of its
// own. Caller i has the slot at spacing x (ahead + i) after an instant from..to.
type line struct {
	t        *testing.T
	s        *server.Server
	admin    *resp.Conn
	conns    []*resp.Conn
	ids      []int64 // the server's, of the connections
	spacing  time.Duration
	ahead    int
	from, to int64 // ns since the epoch
}

// standInLine reserves the next slots of a key called "key", so that callers have time to
// arrive, and makes callers wait behind them in the order of their numbers. Each has
// "RPUSH order <its number>" behind its call, so that the list tells the order in which the
// server let them go on.
func standInLine(t *testing.T, s *server.Server, callers int, spacing time.Duration, ahead int) *line {
	t.Helper()
	l := &line{t: t, s: s, admin: s.Raw(), spacing: spacing, ahead: ahead}
	limit := l.limit()
	first, from, to := timed(t, l.admin, "CL.LIMIT key "+limit+" MAXWAIT 1d")
	l.from, l.to = from, to
	require.False(t, first[0].IsError(), "%v", first[0])
	for range ahead - 1 {
		require.EqualValues(t, 0, ask(t, l.admin, "CL.LIMIT key %s MAXWAIT 1d", limit).Limited)
	}
	for i := range callers {
		c := s.Raw()
		l.conns = append(l.conns, c)
		l.ids = append(l.ids, do(t, c, "CLIENT ID").Int)
		require.NoError(t, c.Send(strings.Fields("CL.WAIT key "+limit+" TIMEOUT 1d")...))
		require.NoError(t, c.Send("RPUSH", "order", fmt.Sprint(i)))
		require.NoError(t, c.Flush())
		l.awaitWaiting(i + 1)
	}
	require.Less(t, nowIn(t, l.admin), l.from+int64(l.slot(0)), "this machine took longer than all slots ahead to connect")
	return l
}

func (l *line) limit() string {
	return fmt.Sprintf("RATE 1/%dms BURST 1", l.spacing.Milliseconds())
}

// slot is caller i's, seen from the first call.
func (l *line) slot(i int) time.Duration { return time.Duration(l.ahead+i) * l.spacing }

// awaitWaiting returns when so many callers wait.
func (l *line) awaitWaiting(n int) {
	l.t.Helper()
	awaitWaiting(l.t, l.admin, n)
}

func awaitWaiting(t *testing.T, c *resp.Conn, n int) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; {
		waiting := server.ParseInfo(do(t, c, "INFO throttle").Text)["throttle_waiting"]
		if waiting == fmt.Sprint(n) {
			return
		}
		require.True(t, time.Now().Before(deadline), "%s wait instead of %d", waiting, n)
	}
}

// receive is caller i's answer, and when it was here by the clock that the server goes by.
func (l *line) receive(i int) (v resp.Value, atNs int64) {
	l.t.Helper()
	v, err := l.conns[i].Receive()
	require.NoError(l.t, err, "caller %d", i)
	return v, time.Now().UnixNano() + int64(clockSkew)
}

// requireServed receives caller i's answer, which must not come before place's slot.
func (l *line) requireServed(i, place int) (lateness time.Duration) {
	l.t.Helper()
	v, at := l.receive(i)
	a, err := standingIn(v)
	require.NoError(l.t, err, "caller %d", i)
	assert.Equal(l.t, []int64{0, 1, -1}, []int64{a.Limited, a.Granted, a.RetryAfterMs}, "caller %d", i)
	assert.GreaterOrEqual(l.t, at, l.from+int64(l.slot(place)), "caller %d came before its slot", i)
	return time.Duration(at - l.to - int64(l.slot(place)))
}

// order is who was let go on, in turn.
func (l *line) order(n int) (numbers []string) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return do(l.t, l.admin, "LLEN order").Int == int64(n) }, 60*time.Second, 5*time.Millisecond)
	for _, v := range do(l.t, l.admin, "LRANGE order 0 -1").Elems {
		numbers = append(numbers, v.Text)
	}
	return numbers
}

func TestCallersAreServedInOrderOfArrivalAtTheirTimes(t *testing.T) {
	t.Parallel()
	const callers = 100
	s := server.Start(t)
	l := standInLine(t, s, callers, 20*time.Millisecond, 100)
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
		wg.Go(func() { late[i] = l.requireServed(i, i) })
	}
	wg.Wait()
	close(stop)
	sleeper := slices.Sorted(slices.Values(<-own))
	slices.Sort(late)
	p99 := func(sorted []time.Duration) time.Duration { return sorted[len(sorted)*99/100] }
	t.Logf("answered late by: median %v, p99 %v; a sleeper of this machine: p99 %v, most %v",
		late[callers/2], p99(late), p99(sleeper), sleeper[len(sleeper)-1])
	assert.Less(t, late[callers/2], l.spacing+p99(sleeper))

	want := make([]string, callers)
	for i := range want {
		want[i] = fmt.Sprint(i)
	}
	assert.Equal(t, want, l.order(callers))
	info := s.Info("throttle")
	assert.Equal(t, []string{"0", "100", "0"}, []string{info["throttle_waiting"], info["throttle_waited"], info["throttle_wait_left"]})
}

// The answer says how long the caller was held, and the state after that.
func TestAnswerTellsTheWait(t *testing.T) {
	t.Parallel()
	c := startCheckBuild(t).Raw()
	replies, from, to := timed(t, c, "CL.LIMIT key RATE 1/200ms BURST 1", "CL.WAIT key RATE 1/200ms BURST 1 TIMEOUT 10s")
	a, err := standingIn(replies[1])
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 1}, []int64{a.Limited, a.Granted})
	assert.LessOrEqual(t, a.WaitMs, ceilMs(to-from))
	assert.Positive(t, a.WaitMs)
	// It comes after its slot, and the next is 200 ms behind that.
	assert.LessOrEqual(t, a.ResetAfterMs, int64(200))
	assert.GreaterOrEqual(t, a.ResetAfterMs, 400-ceilMs(to-from))
}

func TestWhoWouldWaitTooLongIsLimitedAtOnce(t *testing.T) {
	t.Parallel()
	w := startWatched(t)
	assert.EqualValues(t, 0, ask(t, w.conn, "CL.WAIT key RATE 1/h BURST 1 TIMEOUT 1s").Limited)
	before := w.traces(t, "key")
	a := ask(t, w.conn, "CL.WAIT key RATE 1/h BURST 1 TIMEOUT 3500s")
	assert.Equal(t, []int64{1, 1, 0, 0}, []int64{a.Limited, a.Rule, a.Granted, a.WaitMs})
	// It can be asked again when the slot is that near.
	assert.Positive(t, a.RetryAfterMs)
	assert.LessOrEqual(t, a.RetryAfterMs, int64(100_000))
	a = ask(t, w.conn, "CL.WAIT key RATE 1/h BURST 1 COST 2 TIMEOUT 0")
	assert.Equal(t, []int64{1, -1}, []int64{a.Limited, a.RetryAfterMs}, "never possible: nobody waits for that")
	assert.Equal(t, before, w.traces(t, "key"))
}

func TestNobodyBlocksInMultiOrAScript(t *testing.T) {
	t.Parallel()
	w := startWatched(t)
	ask(t, w.conn, "CL.LIMIT key RATE 1/h BURST 1")
	before := w.traces(t, "key")
	replies, err := w.conn.Pipeline([]string{"MULTI"}, strings.Fields("CL.WAIT key RATE 1/h BURST 1 TIMEOUT 0"), []string{"EXEC"},
		[]string{"EVAL", "return redis.call('CL.WAIT', KEYS[1], 'RATE', '1/h', 'BURST', '1', 'TIMEOUT', '0')", "1", "key"})
	require.NoError(t, err)
	for _, v := range []resp.Value{replies[2].Elems[0], replies[3]} {
		a, err := standingIn(v)
		require.NoError(t, err)
		assert.Equal(t, []int64{1, 0}, []int64{a.Limited, a.Granted})
	}
	assert.Equal(t, before, w.traces(t, "key"))
	v := w.do(t, "EVAL", "return redis.call('CL.WAIT', KEYS[1], 'RATE', '1/h', 'TIMEOUT', '0')", "1", "fresh")
	a, err := standingIn(v)
	require.NoError(t, err)
	assert.EqualValues(t, 0, a.Limited, "where nobody has to wait it takes as usual")
	assert.Equal(t, "0", w.Info("throttle")["throttle_waited"])
}
