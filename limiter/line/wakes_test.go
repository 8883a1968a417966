// What the host is told to wake, and when.
package line

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/gcra"
	"redis-throttle/limiter/stack"
)

// host is what the host of one line sees. Its line has the number 100.
type host struct {
	*testing.T
	lines Lines
	line  ID
	now   Clock
}

const hostOfLine = 100

var keyName = []byte("key")

func newHost(t *testing.T) *host { return &host{T: t, now: Clock{WallNs: start, MonoNs: 1}} }

// comes has a caller wait in turn. It returns for how long to sleep, or -1 if the timer is right as it is.
func (h *host) comes(caller uintptr, turn Turn) int64 {
	return h.own(h.lines.EnterTurn(0, keyName, caller, caller, turn, h.now))
}

func (h *host) own(step Step) int64 {
	if step.LineHost == 0 {
		h.line = step.Line
		h.lines.Own(step.Line, hostOfLine, keyName)
	}
	return step.Ns
}

// reserves has a caller wait for a slot that it has reserved.
func (h *host) reserves(caller uintptr, waitNs int64) int64 {
	var s stack.Stack
	s.Load([]stack.Limit{rate(h, 1, ms, 1)})
	id := h.lines.Reserve(0, keyName, Reservation{&s, make([]gcra.State, 1), 1, h.now.WallNs, waitNs})
	return h.own(h.lines.EnterReserved(id, caller, caller, h.now))
}

func (h *host) next(decisions int) Step { return h.lines.Next(h.line, h.now, decisions) }

// sleeps requires that there is nothing to do for so long.
func (h *host) sleeps(ns int64) {
	h.Helper()
	step := h.next(64)
	require.Equal(h, Sleep, step.Kind)
	require.Equal(h, ns, step.Ns)
}

// decides requires that a caller is decided, and has it wait on for lookNs.
func (h *host) decides(caller uintptr, lookNs int64) {
	h.Helper()
	step := h.next(64)
	require.Equal(h, Decide, step.Kind)
	require.Equal(h, caller, step.Host)
	h.lines.WaitsOn(step.Entry, lookNs, h.now)
}

func (h *host) passes(ns int64) {
	h.now.WallNs += ns
	h.now.MonoNs += ns
}

func (h *host) changed() uintptr { return h.lines.Changed(0, keyName) }

func TestATimerIsSetAnewOnlyForAnEarlierInstant(t *testing.T) {
	h := newHost(t)
	assert.EqualValues(t, 10, h.comes(1, Turn{LookNs: 10}), "a new line has no timer")
	assert.EqualValues(t, -1, h.comes(2, Turn{LookNs: 3}), "only the first is looked at")
	assert.EqualValues(t, -1, h.comes(3, Turn{LookNs: 3, TimeoutNs: 12}))
	assert.EqualValues(t, 5, h.comes(4, Turn{LookNs: 3, TimeoutNs: 5}))
	assert.EqualValues(t, -1, h.comes(5, Turn{LookNs: 3, TimeoutNs: 5}), "the same instant")
	assert.EqualValues(t, -1, h.reserves(6, 7))
	assert.EqualValues(t, -1, h.reserves(7, 2), "not before those ahead")
	h.passes(5)
	require.Equal(t, Decide, h.next(64).Kind, "before anybody's time is over")
	assert.EqualValues(t, -1, h.comes(8, Turn{LookNs: 3, TimeoutNs: 1}), "the host asks for steps")
}

func TestALineIsWokenOnceUntilItsHostAsks(t *testing.T) {
	h := newHost(t)
	h.comes(1, Turn{LookNs: 10})
	h.sleeps(10)
	assert.EqualValues(t, hostOfLine, h.changed())
	assert.Zero(t, h.changed(), "it is about to ask")
	step := h.next(64)
	require.Equal(t, Decide, step.Kind)
	assert.Zero(t, h.changed(), "it asks")
	h.lines.WaitsOn(step.Entry, 10, h.now)
	h.decides(1, 10)
	h.sleeps(10)
	assert.EqualValues(t, hostOfLine, h.changed())
	assert.Zero(t, h.lines.Changed(1, keyName), "another database")
	assert.Zero(t, h.lines.Changed(0, []byte("another")))
}

func TestALineThatItsHostDoesNotKnowIsNotWoken(t *testing.T) {
	h := newHost(t)
	step := h.lines.EnterTurn(0, keyName, 1, 1, Turn{LookNs: 10}, h.now)
	assert.Zero(t, h.changed())
	h.lines.AllChanged(AllDBs, func(host uintptr) { assert.Fail(t, "woken", "%d", host) })
	h.lines.Own(step.Line, hostOfLine, keyName)
	assert.EqualValues(t, hostOfLine, h.changed())
}

func TestWhoLeavesWakesThoseBehindOrNobody(t *testing.T) {
	h := newHost(t)
	for caller := range uintptr(3) {
		h.comes(1+caller, Turn{LookNs: 10})
	}
	h.sleeps(10)
	leave := func(caller uintptr) uintptr {
		host, wake, ok := h.lines.Leave(caller)
		assert.True(t, ok)
		assert.Equal(t, caller, host)
		return wake
	}
	assert.Zero(t, leave(2), "the first still waits for the same")
	h.sleeps(10)
	assert.EqualValues(t, hostOfLine, leave(1), "the next may need less")
	h.decides(3, 10)
	h.sleeps(10)
	assert.EqualValues(t, hostOfLine, leave(3), "the line is to be closed")
	assert.Equal(t, Close, h.next(64).Kind)
	_, _, ok := h.lines.Leave(3)
	assert.False(t, ok)
}

func TestACallerIsFoundByItsHandle(t *testing.T) {
	h := newHost(t)
	h.comes(7, Turn{LookNs: 10, Slots: 4})
	h.passes(3)
	step, ok := h.lines.Find(7, h.now)
	assert.True(t, ok)
	assert.Equal(t, Step{Kind: TimeOut, Line: h.line, LineHost: hostOfLine, Entry: step.Entry, Host: 7, Ns: 3, Slots: 4}, step)
	assert.True(t, h.lines.IsFirst(step.Entry))
	_, ok = h.lines.Find(8, h.now)
	assert.False(t, ok)
}

func TestAllLinesAreWokenInWhichSomebodyIsInTurn(t *testing.T) {
	var q Lines
	now := Clock{WallNs: start, MonoNs: 1}
	for host, name := range []string{"a", "b", "c"} {
		q.Own(q.EnterTurn(0, []byte(name), uintptr(10+host), 1, Turn{LookNs: 5}, now).Line, uintptr(1+host), []byte(name))
	}
	var s stack.Stack
	s.Load([]stack.Limit{rate(t, 1, ms, 1)})
	reserved := q.EnterReserved(q.Reserve(0, []byte("d"), Reservation{&s, make([]gcra.State, 1), 1, start, ms}), 20, 1, now)
	q.Own(reserved.Line, 4, []byte("d"))
	woken := func(tell func(wake func(uintptr))) (hosts []uintptr) {
		tell(func(host uintptr) { hosts = append(hosts, host) })
		return hosts
	}
	changed := func(db int) []uintptr { return woken(func(wake func(uintptr)) { q.AllChanged(db, wake) }) }
	elsewhere := q.EnterTurn(7, []byte("a"), 30, 1, Turn{LookNs: 5}, now)
	q.Own(elsewhere.Line, 5, []byte("a"))
	assert.Empty(t, changed(1), "nobody waits in this database")
	assert.ElementsMatch(t, []uintptr{1, 2, 3}, changed(0))
	assert.Equal(t, []uintptr{5}, changed(AllDBs), "the others are about to ask")
	assert.ElementsMatch(t, []uintptr{1, 2, 3, 4, 5}, woken(q.SendAllAway), "also those that are about to ask")
	assert.ElementsMatch(t, []uintptr{1, 2, 3, 4, 5}, woken(func(wake func(uintptr)) { q.Stepped(now, wake) }))
}

func TestALineThatWasHeldUpGoesOnWhereItWas(t *testing.T) {
	h := newHost(t)
	h.comes(1, Turn{LookNs: 10, Changed: true})
	require.Equal(t, Decide, h.next(64).Kind)
	h.lines.HoldUp(h.line)
	h.lines.HoldUp(h.line)
	assert.EqualValues(t, hostOfLine, h.lines.Held())
	h.sleeps(math.MaxInt64)
	var woken []uintptr
	h.lines.Release(func(host uintptr) { woken = append(woken, host) })
	assert.Equal(t, []uintptr{hostOfLine}, woken)
	assert.Zero(t, h.lines.Held())
	h.decides(1, 10)
	h.sleeps(10)

	h.reserves(2, 20)
	h.reserves(3, 20)
	h.lines.Leave(3)
	require.Equal(t, GiveBack, h.next(64).Kind)
	h.lines.HoldUp(h.line)
	require.Equal(t, Sleep, h.next(64).Kind)
	h.changed()
	woken = nil
	h.lines.Release(func(host uintptr) { woken = append(woken, host) })
	assert.Empty(t, woken, "it is about to ask")
	require.Equal(t, GiveBack, h.next(64).Kind)
}

// A turn of the event loop decides a bounded number of callers, and the next one goes on.
func TestNobodyIsDecidedBeyondTheNumber(t *testing.T) {
	h := newHost(t)
	h.comes(1, Turn{LookNs: 10, TimeoutNs: 4})
	h.comes(2, Turn{LookNs: 10, TimeoutNs: 4})
	h.passes(4)
	step := h.next(0)
	assert.Equal(t, Sleep, step.Kind)
	assert.Zero(t, step.Ns)
	h.decides(1, 10)
	step = h.next(0)
	assert.Equal(t, Sleep, step.Kind, "also when a time is over")
	assert.Zero(t, step.Ns)
	assert.Equal(t, TimeOut, h.next(1).Kind)
}

// What happened while nobody was in turn is no reason to decide somebody who comes later a second time.
func TestWhoComesIsNotDecidedAgainForAnOldChange(t *testing.T) {
	h := newHost(t)
	h.reserves(1, 100)
	h.lines.Stepped(h.now, func(uintptr) {})
	h.sleeps(100)
	h.comes(2, Turn{LookNs: 10})
	h.sleeps(10)
}

func TestNobodyIsInTurnAmongReservations(t *testing.T) {
	h := newHost(t)
	h.reserves(1, 100)
	view, waiting, slots := h.lines.Look(0, keyName)
	assert.Zero(t, view)
	assert.Zero(t, waiting)
	assert.Zero(t, slots)
}

func TestTheFirstIsLookedAtAgainAfterSoLong(t *testing.T) {
	h := newHost(t)
	h.lines.LookEachNs = 10
	h.comes(1, Turn{LookNs: 1000})
	h.sleeps(10)
	h.passes(9)
	h.sleeps(1)
	h.passes(1)
	h.decides(1, 1000)
	h.sleeps(10)
	h.passes(4)
	h.comes(2, Turn{LookNs: 1000})
	h.sleeps(6)
	h.now.WallNs += 500 // the wall clock does not count
	h.sleeps(6)
	h.lines.LookEachNs = 0
	h.sleeps(1000 - 4 - 500)
}

// A step of the wall clock back makes nobody wait longer than promised, also after those behind one that left have
// moved up.
func TestPromisesOutlastStepsOfTheClock(t *testing.T) {
	wake := func(uintptr) {}
	h := newHost(t)
	h.reserves(1, 5)
	h.now.WallNs -= second
	h.sleeps(5 + second)
	h.lines.Stepped(h.now, wake)
	h.sleeps(5)
	h.now.WallNs += 2 * second
	h.lines.Stepped(h.now, wake)
	require.Equal(t, Answer, h.next(64).Kind, "a step forward brings slots nearer")

	db, line, _ := fiveWait(t)
	db.lines.Leave(2)
	db.wake(line, start)
	require.Equal(t, "1@100 3@200 4@300 5@400", slots(line))
	back := Clock{WallNs: start - second, MonoNs: start}
	db.lines.Stepped(back, wake)
	assert.Equal(t, "1@-900 3@-800 4@-700 5@-600", slots(line))
}

// The clock may be read again between the decision and the line. By so much it may differ without having been set.
func TestASlotMayBeAsFarOffAsTwoReadingsOfTheClock(t *testing.T) {
	for apart, want := range map[int64]int64{apartNs: 5 + apartNs, apartNs + 1: 5} {
		h := newHost(t)
		var s stack.Stack
		s.Load([]stack.Limit{rate(t, 1, ms, 1)})
		id := h.lines.Reserve(0, keyName, Reservation{&s, make([]gcra.State, 1), 1, h.now.WallNs, 5})
		h.now.WallNs -= apart
		assert.Equal(t, want, h.own(h.lines.EnterReserved(id, 1, 1, h.now)))

		h = newHost(t)
		h.reserves(1, 5)
		h.now.WallNs -= apart
		h.lines.Stepped(h.now, func(uintptr) {})
		h.sleeps(want)
	}
}

func TestHandlesAreNeverUsedTwice(t *testing.T) {
	h := newHost(t)
	assert.False(t, h.lines.Stands(nextGeneration), "of nobody")
	assert.Zero(t, h.lines.Tell(nextGeneration, 1))
	lines, entries := map[ID]bool{0: true}, map[ID]bool{0: true}
	for caller := range uintptr(5) {
		step := h.lines.EnterTurn(0, keyName, 1+caller, 1, Turn{LookNs: 10}, h.now)
		h.own(step)
		assert.False(t, lines[step.Line] || entries[step.Entry], "%+v", step)
		assert.False(t, h.lines.Stands(step.Entry+1), "a place behind the last")
		lines[step.Line], entries[step.Entry] = true, true
		h.lines.Leave(1 + caller)
		assert.False(t, h.lines.Stands(step.Entry))
		require.Equal(t, Close, h.next(64).Kind)
		require.Equal(t, Step{Kind: Close}, h.next(64), "again")
	}
}

func TestThoseInLineAreSentAwayAndNobodyWhoComesLater(t *testing.T) {
	for _, all := range []bool{false, true} {
		h := newHost(t)
		h.comes(1, Turn{LookNs: 10})
		h.reserves(2, 10)
		h.comes(3, Turn{LookNs: 10})
		kind := Moved
		if all {
			kind = SendAway
			h.lines.SendAllAway(func(uintptr) {})
			h.reserves(4, 10)
		} else {
			h.lines.HasMoved(h.line)
		}
		h.comes(5, Turn{LookNs: 10})
		h.reserves(6, 10)
		var away []uintptr
		step := h.next(0)
		for ; step.Kind == kind; step = h.next(0) {
			away = append(away, step.Host)
		}
		if all {
			assert.ElementsMatch(t, []uintptr{1, 2, 3}, away)
		} else {
			assert.ElementsMatch(t, []uintptr{1, 3}, away)
		}
	}
}
