// Callers in turn, and callers with reservations beside them, compared with a naive list.
package line

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/gcra"
	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/stack"
)

// pool is a resource of which each caller takes one, such as leases. It gets one more at an instant of the wall clock.
type pool struct {
	free   int
	moreNs int64 // 0 for never
}

func (p *pool) refill(nowNs int64) {
	if p.moreNs != 0 && p.moreNs <= nowNs {
		p.free++
		p.moreNs = 0
	}
}

// naiveTurn is a caller in line.
type naiveTurn struct {
	caller     uintptr
	priority   int64
	group      string
	weight     int64
	enteredNs  int64
	deadlineNs int64 // on the monotonic clock, 0 for none
	slotNs     int64 // of a caller that has reserved
	promisedNs int64 // the same on the monotonic clock
	left       bool  // and whose slot is not given back yet
}

type turnTally struct {
	steps, came, letIn, timedOut, left, sentAway, answered, heldUp, nested, stepped int
	// Callers that came before others in line, were let in before others that were there, and lost the first place to
	// one that came.
	passed, overtook, displaced int
}

// turns is one line and its naive copy.
type turns struct {
	t        require.TestingT
	pick     chance.Draw
	lines    Lines
	id       ID
	now      Clock
	pool     pool
	inTurn   naiveTurns
	reserved []naiveTurn
	caller   uintptr
	refuses  bool // nothing can be written
	isHeld   bool // and the line knows
	seen     *turnTally
	s        stack.Stack
	meddles  int   // how often other code may do something in the middle of a step
	others   int64 // and how often it does nothing, for each thing that it may do
	isFair   bool  // callers name groups, priorities and weights
}

const lineHost = 1 << 20

func newTurns(t require.TestingT, pick chance.Draw, seen *turnTally) *turns {
	w := &turns{t: t, pick: pick, now: Clock{WallNs: start, MonoNs: 1}, seen: seen, meddles: math.MaxInt, others: 5}
	w.s.Load([]stack.Limit{rate(t, 1, ms, 1)})
	return w
}

// noteNew does what a host does when a caller has entered a line.
func (w *turns) noteNew(step Step) {
	if step.LineHost == 0 {
		require.GreaterOrEqual(w.t, step.Ns, int64(0), "a new line has no timer yet")
		w.lines.Own(step.Line, lineHost, []byte("key"))
	}
	w.id = step.Line
}

func (w *turns) come(timeoutNs int64) {
	w.caller++
	w.pool.refill(w.now.WallNs)
	x := naiveTurn{caller: w.caller, enteredNs: w.now.MonoNs}
	if w.isFair {
		x.priority, x.group = w.pick("PRIORITY", -1, 1), []string{"", "a", "b", "c"}[w.pick("GROUP", 0, 3)]
		x.weight = []int64{0, 1, 2, 3, 4, 1000}[w.pick("WEIGHT", 0, 5)]
	}
	if w.isBefore(x) {
		w.pool.free--
		return
	}
	before := w.inTurn.first()
	turn := Turn{Place: x.place(), LookNs: w.lookNs(), TimeoutNs: timeoutNs}
	w.noteNew(w.lines.EnterTurn(0, []byte("key"), w.caller, w.caller, turn, w.now))
	if timeoutNs > 0 {
		x.deadlineNs = w.now.MonoNs + timeoutNs
	}
	w.inTurn.join(x)
	w.seen.came++
	if before != 0 && w.inTurn.first() == x.caller {
		w.seen.displaced++
	}
}

// isBefore reports whether a call is let in at once: before those that come after it, but not before all that would be
// let in before it.
func (w *turns) isBefore(x naiveTurn) bool {
	view, waiting, _ := w.lines.Look(0, []byte("key"))
	require.EqualValues(w.t, len(w.inTurn.all), waiting)
	ahead := w.inTurn.order.Ahead(x.turn())
	for most := range int64(len(w.inTurn.all)) + 2 {
		require.Equal(w.t, min(ahead, most), view.Ahead(x.place(), most), "%+v before %+v", w.inTurn, x)
	}
	if ahead >= int64(w.pool.free) {
		return false
	}
	if waiting > ahead {
		w.seen.passed++
	}
	return true
}

func (x naiveTurn) place() Place { return Place{x.priority, []byte(x.group), x.weight} }

func (w *turns) lookNs() int64 {
	if w.pool.moreNs == 0 {
		return 1 << 60
	}
	return w.pool.moreNs - w.now.WallNs
}

func (w *turns) reserve(waitNs int64) {
	w.caller++
	id := w.lines.Reserve(0, []byte("key"), Reservation{&w.s, make([]gcra.State, 1), 1, w.now.WallNs, waitNs})
	w.noteNew(w.lines.EnterReserved(id, w.caller, w.caller, w.now))
	slotNs := w.now.WallNs + waitNs
	if n := len(w.reserved); n > 0 {
		slotNs = max(slotNs, w.reserved[n-1].slotNs)
	}
	w.reserved = append(w.reserved, naiveTurn{caller: w.caller, enteredNs: w.now.MonoNs, slotNs: slotNs, promisedNs: w.now.MonoNs + slotNs - w.now.WallNs})
}

func (w *turns) all() []naiveTurn { return slices.Concat(w.inTurn.all, w.reserved) }

// waiting are those that have not left.
func (w *turns) waiting() []naiveTurn {
	return slices.DeleteFunc(w.all(), func(x naiveTurn) bool { return x.left })
}

func (w *turns) drop(caller uintptr) {
	is := func(x naiveTurn) bool { return x.caller == caller }
	w.inTurn.drop(caller)
	w.reserved = slices.DeleteFunc(w.reserved, is)
}

// goes has a caller leave: a reserved slot stays until it is given back, or is over.
func (w *turns) goes(caller uintptr) {
	for i := range w.reserved {
		if w.reserved[i].caller == caller {
			w.reserved[i].left = true
			return
		}
	}
	w.drop(caller)
}

// skip drops the reserved slots at the front that nobody waits for any more and that are over.
func (w *turns) skip() {
	for len(w.reserved) > 0 && w.reserved[0].left && w.reserved[0].slotNs <= w.now.WallNs {
		w.reserved = w.reserved[1:]
	}
}

func (w *turns) leave() {
	waiting := w.waiting()
	if len(waiting) == 0 {
		_, _, ok := w.lines.Leave(w.caller)
		require.False(w.t, ok)
		return
	}
	x := waiting[w.pick("who leaves", 0, int64(len(waiting))-1)]
	host, _, ok := w.lines.Leave(x.caller)
	require.True(w.t, ok)
	require.Equal(w.t, x.caller, host)
	w.goes(x.caller)
	w.seen.left++
}

// release gives one back to the pool.
func (w *turns) release() {
	w.pool.free++
	w.lines.Changed(0, []byte("key"))
}

// nested is what other code may do in the middle of a step.
func (w *turns) nested() {
	if w.meddles == 0 {
		return
	}
	w.meddles--
	switch w.pick("nested", 0, w.others) {
	case 0:
		w.release()
		w.seen.nested++
	case 1:
		if len(w.inTurn.all) > 0 {
			w.leave()
			w.seen.nested++
		}
	case 2:
		if w.isFair {
			w.come(0)
			w.seen.nested++
		}
	}
}

// wake does what the host does, and requires each step to be what the naive list says.
func (w *turns) wake() {
	decisions := 64
	for {
		step := w.lines.Next(w.id, w.now, decisions)
		switch step.Kind {
		case Answer:
			w.skip()
			require.NotEmpty(w.t, w.reserved)
			x := w.reserved[0]
			require.Equal(w.t, x.caller, step.Host, "in order of arrival")
			require.LessOrEqual(w.t, x.slotNs, w.now.WallNs)
			require.Equal(w.t, w.now.MonoNs-x.enteredNs, step.Ns)
			w.drop(x.caller)
			w.seen.answered++
		case SendAway, Moved:
			w.goes(step.Host)
			w.seen.sentAway++
		case GiveBack:
			if w.refuses {
				w.hold(step.Line)
				continue
			}
			require.False(w.t, w.lines.GiveBack(step.Line, []byte("another's"), &w.s, w.now.WallNs))
			w.reserved = slices.DeleteFunc(w.reserved, func(x naiveTurn) bool { return x.left })
		case Decide:
			decisions--
			require.False(w.t, w.isHeld, "nobody is decided while nothing can be written")
			if w.refuses {
				w.hold(step.Line)
				continue
			}
			w.decide(step)
		case TimeOut:
			decisions--
			w.timeOut(step)
		case Close:
			w.skip()
			require.Empty(w.t, w.all())
			w.isHeld = false // the next line does not know
			return
		case Sleep:
			w.requireSleep(step)
			return
		}
	}
}

func (w *turns) hold(id ID) {
	w.lines.HoldUp(id)
	w.isHeld = true
	w.seen.heldUp++
	require.EqualValues(w.t, lineHost, w.lines.Held())
}

func (w *turns) decide(step Step) {
	require.Equal(w.t, w.inTurn.first(), step.Host, "the first is decided")
	w.nested()
	w.pool.refill(w.now.WallNs)
	if !w.lines.IsFirst(step.Entry) {
		require.True(w.t, w.inTurn.first() != step.Host)
		return
	}
	require.Equal(w.t, w.inTurn.first(), step.Host)
	if w.pool.free == 0 {
		w.lines.WaitsOn(step.Entry, w.lookNs(), w.now)
		w.nested()
		return
	}
	if w.inTurn.all[0].caller != step.Host {
		w.seen.overtook++
	}
	w.pool.free--
	w.lines.LetIn(step.Entry)
	w.inTurn.letIn()
	w.seen.letIn++
	w.nested()
}

func (w *turns) timeOut(step Step) {
	i := slices.IndexFunc(w.inTurn.all, func(x naiveTurn) bool { return x.caller == step.Host })
	require.GreaterOrEqual(w.t, i, 0)
	x := w.inTurn.all[i]
	require.NotZero(w.t, x.deadlineNs)
	require.LessOrEqual(w.t, x.deadlineNs, w.now.MonoNs)
	require.True(w.t, w.isHeld || w.inTurn.first() != x.caller || w.pool.free == 0, "it could have been let in")
	w.nested()
	w.lines.Dismiss(step.Entry)
	w.drop(step.Host)
	w.seen.timedOut++
}

// requireSleep fails if there is something to do before the line wakes, or if it wakes for nothing.
func (w *turns) requireSleep(step Step) {
	w.skip()
	require.NotEmpty(w.t, w.all())
	want := int64(1) << 62
	if len(w.reserved) > 0 {
		want = w.reserved[0].slotNs - w.now.WallNs
	}
	if len(w.inTurn.all) > 0 && !w.isHeld {
		require.Zero(w.t, w.pool.free, "the first could be let in")
		want = min(want, w.lookNs())
	}
	for _, x := range w.inTurn.all {
		if x.deadlineNs != 0 {
			require.Greater(w.t, x.deadlineNs, w.now.MonoNs)
			want = min(want, x.deadlineNs-w.now.MonoNs)
		}
	}
	if want > 1<<58 {
		require.Greater(w.t, step.Ns, int64(1)<<58)
	} else {
		require.Equal(w.t, want, step.Ns)
	}
}

func (w *turns) step() {
	w.seen.steps++
	ticks := func(what string, most int64) int64 { return w.pick(what, 0, most) * ms }
	switch w.pick("operation", 0, 9) {
	case 0, 1:
		w.come(ticks("TIMEOUT", 3))
	case 2:
		w.reserve(ticks("slot", 3) + ms)
	case 3:
		w.leave()
	case 4:
		w.release()
	case 5:
		if w.pool.moreNs == 0 {
			w.pool.moreNs = w.now.WallNs + ticks("more", 3) + ms
			w.lines.Changed(0, []byte("key"))
		}
	case 6:
		elapsed := ticks("elapsed", 3)
		w.now.WallNs += elapsed
		w.now.MonoNs += elapsed
	case 7:
		w.refuses = !w.refuses
		if !w.refuses && w.isHeld {
			w.isHeld = false
			woken := 0
			w.lines.Release(func(host uintptr) { woken++ })
			require.LessOrEqual(w.t, woken, 1)
		}
	case 8:
		w.stepClock(ticks("clock", 6) - 3*ms)
	case 9:
		if w.pick("all", 0, 1) == 1 {
			w.lines.SendAllAway(func(uintptr) {})
		} else {
			w.lines.HasMoved(w.id)
		}
	}
	if w.pick("wake", 0, 2) > 0 || len(w.all()) == 0 {
		w.wake()
	}
}

func (w *turns) stepClock(ns int64) {
	w.now.WallNs += ns
	for i := range w.reserved {
		x := &w.reserved[i]
		if promisedNs := w.now.WallNs + x.promisedNs - w.now.MonoNs; x.slotNs > promisedNs+apartNs {
			x.slotNs = promisedNs
		}
	}
	woken := 0
	w.lines.Stepped(w.now, func(host uintptr) { woken++ })
	require.LessOrEqual(w.t, woken, 1)
	w.seen.stepped++
}

// finish lets time pass until nobody is left.
func (w *turns) finish() {
	w.refuses = false
	if w.isHeld {
		w.isHeld = false
		w.lines.Release(func(uintptr) {})
	}
	for range 100 {
		w.wake()
		if len(w.all()) == 0 {
			break
		}
		if len(w.inTurn.all) > 0 {
			w.release()
		}
		w.now.WallNs += ms
		w.now.MonoNs += ms
	}
	w.wake()
	require.Empty(w.t, w.all(), "somebody waits for ever")
	require.Empty(w.t, w.lines.byName)
	require.Empty(w.t, w.lines.byCaller)
	require.Empty(w.t, w.lines.byGroup)
	require.Len(w.t, w.lines.spare, len(w.lines.entries))
	require.Len(w.t, w.lines.spareLines, len(w.lines.lines))
	require.Zero(w.t, w.lines.Held())
}

func runTurns(t require.TestingT, pick chance.Draw, steps int, seen *turnTally, isFair bool) {
	w := newTurns(t, pick, seen)
	w.isFair = isFair
	for range steps {
		w.step()
	}
	w.finish()
}

func TestBothKindsOfCallersEqualANaiveList(t *testing.T) {
	pick := chance.FromSeed(t)
	steps := size.Of(30_000, 300_000)
	for _, isFair := range []bool{false, true} {
		var seen turnTally
		for seen.steps < steps {
			runTurns(t, pick, 60, &seen, isFair)
		}
		t.Logf("with groups and priorities %v: %+v", isFair, seen)
		for _, n := range []int{seen.came, seen.letIn, seen.timedOut, seen.left, seen.sentAway, seen.answered, seen.heldUp, seen.nested, seen.stepped} {
			assert.Greater(t, n, steps/200)
		}
		for _, n := range []int{seen.passed, seen.overtook, seen.displaced} {
			if isFair {
				assert.Greater(t, n, steps/1000)
			} else {
				assert.Zero(t, n, "order of arrival")
			}
		}
	}
}

func TestBothKindsOfCallersEqualANaiveListShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runTurns(t, chance.FromRapid(t), 30, &turnTally{}, rapid.Bool().Draw(t, "groups and priorities"))
	})
}

// Every short history: callers come with and without a deadline, a slot becomes free at once or later, somebody leaves,
// time passes. In shorter ones, others reserve a slot in the same line.
func TestEverySequenceOfTurnsEqualsTheNaiveOne(t *testing.T) {
	everySequenceOfTurns(t, size.OfProof(4, 6, 8), 5)
}

func TestEverySequenceOfBothKindsEqualsTheNaiveOne(t *testing.T) {
	seen := everySequenceOfTurns(t, size.OfProof(4, 5, 6), 6)
	assert.NotZero(t, seen.answered)
}

func everySequenceOfTurns(t *testing.T, length int, operations int64) (seen turnTally) {
	n := every(func(pick chance.Draw) {
		w := newTurns(unaided{t}, pick, &seen)
		w.meddles, w.others = 2, 2
		w.come(0)
		w.pool.free = 0
		for range length {
			seen.steps++
			switch pick("operation", 0, operations) {
			case 0:
				w.come(0)
			case 1:
				w.come(ms)
			case 2:
				w.leave()
			case 3:
				w.release()
			case 4:
				w.pool.moreNs = w.now.WallNs + ms
				w.lines.Changed(0, []byte("key"))
			case 5:
				w.now.WallNs += ms
				w.now.MonoNs += ms
				w.wake()
			case 6:
				w.reserve(ms)
			}
		}
		w.meddles = 0
		w.finish()
	})
	t.Logf("%d sequences, %d moves: %+v", n, seen.steps, seen)
	for _, n := range []int{seen.came, seen.letIn, seen.timedOut, seen.left, seen.nested} {
		assert.NotZero(t, n)
	}
	return seen
}
