// Who waits, in which order, until when, and what becomes of those behind when one leaves.
package queue

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/gcra"
	"redis-throttle/internal/size"
	"redis-throttle/stack"
)

const (
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
	start  = int64(1_700_000_000) * second
)

func rate(t require.TestingT, count, periodNs, capacity int64) stack.Limit {
	limit, err := stack.NewRate(count, periodNs, time.Nanosecond, capacity)
	require.NoError(t, err)
	return limit
}

// database is keys and the commands on them, as the module runs them.
type database struct {
	t     require.TestingT
	lines Lines
	keys  map[string][]byte
	s     stack.Stack
}

func newDatabase(t require.TestingT) *database { return &database{t: t, keys: make(map[string][]byte)} }

// open reads a key into db.s.
func (db *database) open(key string, limits []stack.Limit) {
	db.s.Load(limits)
	if value := db.keys[key]; len(value) > 0 {
		if err := db.s.Decode(value); err != nil {
			require.NoError(db.t, err)
		}
	}
}

// store writes db.s to a key.
func (db *database) store(key string, nowNs int64) {
	if db.s.ExpireAt() > uint64(nowNs) {
		db.keys[key] = db.s.Append(db.keys[key][:0])
	} else {
		delete(db.keys, key)
	}
}

// limit is CL.LIMIT.
func (db *database) limit(key string, limits []stack.Limit, r stack.Request, nowNs int64) stack.Result {
	db.open(key, limits)
	result := db.s.Take(r, nowNs)
	if result.Changed {
		db.store(key, nowNs)
	}
	return result
}

// wait is CL.WAIT. The caller is in line when the result says that it has to wait.
func (db *database) wait(key string, caller uintptr, limits []stack.Limit, cost, nowNs int64) stack.Result {
	db.open(key, limits)
	before := db.s.Rates(nil, nowNs)
	result := db.s.Take(stack.Request{Cost: cost, MaxWaitNs: 1 << 60}, nowNs)
	if result.Changed {
		db.store(key, nowNs)
	}
	if result.WaitNs > 0 {
		db.lines.Enter(0, []byte(key), caller, &db.s, cost, before, nowNs, result.WaitNs)
	}
	return result
}

// wake is what the timer of a line does: give back, answer who is due.
func (db *database) wake(line *Line, nowNs int64) (answered []uintptr) {
	if line.SomebodyLeft() {
		key := string(line.Name)
		if db.lines.GiveBack(line, db.keys[key], &db.s, nowNs) {
			db.store(key, nowNs)
		}
	}
	for {
		caller, _, ok := db.lines.Due(line, nowNs)
		if !ok {
			db.lines.NextNs(line)
			return answered
		}
		answered = append(answered, caller)
	}
}

// slots are the callers in a line and when each is to be answered, in ms after start.
func slots(line *Line) string {
	var out []string
	for _, w := range line.waiting() {
		if !w.left {
			out = append(out, fmt.Sprintf("%d@%d", w.caller, (w.slotNs-start)/ms))
		}
	}
	return strings.Join(out, " ")
}

// fiveWait has one unit taken and callers 1 to 5 wait, 100 ms apart.
func fiveWait(t require.TestingT) (*database, *Line, []stack.Limit) {
	db, limits := newDatabase(t), []stack.Limit{rate(t, 10, second, 1)}
	for caller := range uintptr(6) {
		require.Equal(t, int64(caller)*100*ms, db.wait("k", caller, limits, 1, start).WaitNs)
	}
	return db, db.lines.At(0), limits
}

func TestCallersAreAnsweredInOrderWhenTheirSlotComes(t *testing.T) {
	db, line, _ := fiveWait(t)
	assert.Equal(t, "1@100 2@200 3@300 4@400 5@500", slots(line))
	assert.Equal(t, 5, db.lines.Waiting())

	_, _, ok := db.lines.Due(line, start+100*ms-1)
	assert.False(t, ok)
	caller, waitedNs, ok := db.lines.Due(line, start+100*ms)
	assert.True(t, ok)
	assert.Equal(t, uintptr(1), caller)
	assert.Equal(t, 100*ms, waitedNs)
	_, _, ok = db.lines.Due(line, start+100*ms)
	assert.False(t, ok)
	nextNs, ok := db.lines.NextNs(line)
	assert.True(t, ok)
	assert.Equal(t, start+200*ms, nextNs)

	assert.Equal(t, []uintptr{2, 3, 4, 5}, db.wake(line, start+3600*second), "late, but in order")
	assert.Zero(t, db.lines.Waiting())
}

// Giving back may have to be put off, while the clients are paused.
func TestWhoLeftIsNotAnswered(t *testing.T) {
	db, line, _ := fiveWait(t)
	db.lines.Leave(1)
	db.lines.Leave(3)
	caller, _, ok := db.lines.Due(line, start+200*ms)
	assert.True(t, ok)
	assert.Equal(t, uintptr(2), caller)
	assert.True(t, line.SomebodyLeft())
	_, _, ok = db.lines.Due(line, start+300*ms)
	assert.False(t, ok)
	assert.False(t, line.SomebodyLeft(), "its slot has gone by")
	assert.Equal(t, "4@400 5@500", slots(line))
}

func TestThoseBehindMoveUpWhenOneLeaves(t *testing.T) {
	for _, tt := range []struct {
		leave []uintptr
		want  string
		reset int64 // when the bucket is full, ms
	}{
		{[]uintptr{1}, "2@100 3@200 4@300 5@400", 500},
		{[]uintptr{3}, "1@100 2@200 4@300 5@400", 500},
		{[]uintptr{5}, "1@100 2@200 3@300 4@400", 500},
		{[]uintptr{2, 4}, "1@100 3@200 5@300", 400},
		{[]uintptr{4, 2}, "1@100 3@200 5@300", 400},
		{[]uintptr{1, 2, 3}, "4@100 5@200", 300},
		{[]uintptr{5, 4, 3, 2, 1}, "", 100},
	} {
		db, line, limits := fiveWait(t)
		for _, caller := range tt.leave {
			assert.Same(t, line, db.lines.Leave(caller))
			assert.Nil(t, db.lines.Leave(caller), "it is gone")
		}
		assert.True(t, line.SomebodyLeft())
		db.wake(line, start+10*ms)
		assert.False(t, line.SomebodyLeft())
		assert.Equal(t, tt.want, slots(line), "%v left", tt.leave)
		assert.Equal(t, 5-len(tt.leave), db.lines.Waiting())

		db.open("k", limits)
		assert.Equal(t, tt.reset*ms-10*ms, db.s.Peek(0, start+10*ms).ResetAfterNs, "%v left: what is stored", tt.leave)
	}
}

// Of a stack, one rate makes the callers wait and lifts the other.
func TestGivingBackRestoresWhatAReservationLifted(t *testing.T) {
	limits := []stack.Limit{rate(t, 1, second, 1), rate(t, 10, second, 20)}
	reserve := stack.Request{Cost: 1, MaxWaitNs: 10 * second}
	for _, tt := range []struct {
		leave []uintptr
		want  string // the key as if only these had come
		slots string
	}{
		{[]uintptr{3}, "12", "1@3000 2@4000"},
		{[]uintptr{3, 2}, "1", "1@3000"},
		{[]uintptr{2}, "13", "1@3000 3@4000"},
		{[]uintptr{1}, "23", "2@3000 3@4000"},
		{[]uintptr{1, 2, 3}, "", ""},
	} {
		db, want := newDatabase(t), newDatabase(t)
		for range 3 { // the first is served, two are told to come later
			db.limit("k", limits, reserve, start)
			want.limit("k", limits, reserve, start)
		}
		for caller := uintptr(1); caller <= 3; caller++ {
			require.Equal(t, int64(caller+2)*second, db.wait("k", caller, limits, 1, start).WaitNs)
		}
		for range tt.want {
			want.limit("k", limits, reserve, start)
		}
		line := db.lines.At(0)
		for _, caller := range tt.leave {
			db.lines.Leave(caller)
		}
		db.wake(line, start)
		assert.Equal(t, tt.slots, slots(line), "%v left", tt.leave)
		assert.Equal(t, want.keys["k"], db.keys["k"], "%v left", tt.leave)

		// Those who were told to come later do not.
		for range len(tt.want) + 2 {
			for _, db := range []*database{db, want} {
				db.open("k", limits)
				db.s.Refund(1, start)
				db.store("k", start)
			}
		}
		assert.Equal(t, want.keys["k"], db.keys["k"], "%v left, and the others refunded", tt.leave)
		db.open("k", limits)
		assert.Equal(t, second, db.s.Peek(0, start).ResetAfterNs, "the first alone is left")
	}
}

func TestNobodyMovesUpIntoThePast(t *testing.T) {
	db, line, _ := fiveWait(t)
	assert.Equal(t, []uintptr{1}, db.wake(line, start+150*ms))
	db.lines.Leave(2)
	db.lines.Leave(3)
	assert.Equal(t, []uintptr{}, append([]uintptr{}, db.wake(line, start+160*ms)...))
	assert.Equal(t, "4@200 5@300", slots(line))

	db, line, _ = fiveWait(t)
	db.wait("k", 6, []stack.Limit{rate(t, 10, second, 1)}, 1, start)
	for caller := uintptr(1); caller < 5; caller++ {
		db.lines.Leave(caller)
	}
	assert.Equal(t, []uintptr{5}, db.wake(line, start+150*ms), "5 could have been answered 50 ms ago")
	assert.Equal(t, "6@250", slots(line))
}

// The server was busy: slots have come that nobody was answered at yet.
func TestWhoIsDueKeepsTheSlotWhenOneLeaves(t *testing.T) {
	db, line, limits := fiveWait(t)
	db.lines.Leave(1)
	assert.Equal(t, []uintptr{2}, db.wake(line, start+230*ms))
	assert.Equal(t, "3@300 4@400 5@500", slots(line), "nobody comes later for it")
	db.open("k", limits)
	assert.Equal(t, 370*ms, db.s.Peek(0, start+230*ms).ResetAfterNs)
}

func TestSlotsLapseWhenSomebodyElseChangedTheKey(t *testing.T) {
	reserve := stack.Request{Cost: 1, MaxWaitNs: 10 * second}
	for _, tt := range []struct {
		what   string
		change func(db *database, limits []stack.Limit)
		slots  string
	}{
		{"CL.LIMIT with MAXWAIT reserved", func(db *database, limits []stack.Limit) {
			require.Equal(t, 600*ms, db.limit("k", limits, reserve, start).WaitNs)
		}, "1@100 3@300 4@400 5@500"},
		{"CL.REFUND gave back", func(db *database, limits []stack.Limit) {
			db.open("k", limits)
			db.s.Refund(1, start)
			db.store("k", start)
		}, "1@100 3@300 4@400 5@500"},
		{"DEL", func(db *database, _ []stack.Limit) { delete(db.keys, "k") }, "1@100 3@300 4@400 5@500"},
		{"SET to a TAT", func(db *database, _ []stack.Limit) { db.keys["k"] = []byte("5") }, "1@100 3@300 4@400 5@500"},
		{"SET to anything", func(db *database, _ []stack.Limit) { db.keys["k"] = []byte("bar") }, "1@100 3@300 4@400 5@500"},
		{"a call with another limit", func(db *database, _ []stack.Limit) {
			db.limit("k", []stack.Limit{rate(t, 1, 60*second, 5)}, reserve, start)
		}, "1@100 3@300 4@400 5@500"},
		{"a call that was limited changes nothing", func(db *database, limits []stack.Limit) {
			require.True(t, db.limit("k", limits, stack.Request{Cost: 1}, start).Limited)
		}, "1@100 3@200 4@300 5@400"},
	} {
		db, line, limits := fiveWait(t)
		tt.change(db, limits)
		value := bytes.Clone(db.keys["k"])
		db.lines.Leave(2)
		db.wake(line, start+10*ms)
		assert.Equal(t, tt.slots, slots(line), tt.what)
		if strings.Contains(tt.slots, "5@500") {
			assert.Equal(t, value, db.keys["k"], "%s: nothing is written", tt.what)
		}
	}
}

func TestThoseBehindTheChangeStillMoveUp(t *testing.T) {
	db, line, limits := fiveWait(t)
	require.Equal(t, 600*ms, db.limit("k", limits, stack.Request{Cost: 1, MaxWaitNs: second}, start).WaitNs)
	for caller := uintptr(7); caller < 10; caller++ {
		require.Equal(t, int64(caller)*100*ms, db.wait("k", caller, limits, 1, start).WaitNs)
	}
	db.lines.Leave(2)
	db.lines.Leave(8)
	db.wake(line, start+10*ms)
	assert.Equal(t, "1@100 3@300 4@400 5@500 7@700 9@800", slots(line))
	db.lines.Leave(1)
	db.wake(line, start+10*ms)
	assert.Equal(t, "3@300 4@400 5@500 7@700 9@800", slots(line))
	db.lines.Leave(7)
	db.wake(line, start+10*ms)
	assert.Equal(t, "3@300 4@400 5@500 9@700", slots(line))
}

func TestALineKeepsTheOrderOfArrivalWhateverTheLimits(t *testing.T) {
	db := newDatabase(t)
	// Two each: the state of a lone rate would go to any other.
	slow := []stack.Limit{rate(t, 1, second, 1), rate(t, 1, ms, 1)}
	quick := []stack.Limit{rate(t, 100, 60*second, 1), rate(t, 2, 2*ms, 1)}
	for caller := range uintptr(3) {
		db.wait("k", caller, slow, 1, start)
	}
	line := db.lines.At(0)
	require.Equal(t, "1@1000 2@2000", slots(line))
	require.Zero(t, db.wait("k", 3, quick, 1, start).WaitNs, "its own limit is untouched")
	require.Equal(t, 600*ms, db.wait("k", 4, quick, 1, start).WaitNs)
	require.Equal(t, 1200*ms, db.wait("k", 5, quick, 1, start).WaitNs)
	require.Equal(t, 1800*ms, db.wait("k", 6, quick, 1, start).WaitNs)
	assert.Equal(t, "1@1000 2@2000 4@2000 5@2000 6@2000", slots(line))

	// Who moves up does not pass those ahead with other limits.
	db.lines.Leave(4)
	assert.Empty(t, db.wake(line, start+10*ms))
	assert.Equal(t, "1@1000 2@2000 5@2000 6@2000", slots(line))
	assert.Equal(t, []uintptr{1}, db.wake(line, start+1500*ms))
	assert.Equal(t, []uintptr{2, 5, 6}, db.wake(line, start+2000*ms))
}

// Caller 5, whose units have come, moves up behind 4, whose have not. What 2 took of the second limit still counts for
// 5, although it is over at the instant as of which 4 is moved.
func TestWhoMovesUpLosesNothingThatWasTaken(t *testing.T) {
	db := newDatabase(t)
	a, b := rate(t, 1, ms, 1), rate(t, 1, ms, 3)
	both, first, second := []stack.Limit{a, b}, []stack.Limit{a, b.With(stack.Terms{HasTake: true})}, []stack.Limit{a.With(stack.Terms{HasTake: true}), b}
	require.Zero(t, db.wait("k", 1, first, 1, start).WaitNs)
	require.Equal(t, ms, db.wait("k", 2, both, 1, start).WaitNs)
	require.Equal(t, 2*ms, db.wait("k", 3, first, 1, start).WaitNs)
	require.Equal(t, 3*ms, db.wait("k", 4, first, 1, start).WaitNs)
	require.Equal(t, ms, db.wait("k", 5, second, 2, start).WaitNs)
	line := db.lines.At(0)
	require.Equal(t, "2@1 3@2 4@3 5@3", slots(line))
	db.lines.Leave(3)
	now := start + 5*ms/2
	assert.Equal(t, []uintptr{2, 4, 5}, db.wake(line, now))
	db.open("k", both)
	assert.Equal(t, 3*ms/2, db.s.Rates(nil, now)[1].FullIn(now), "two units from 2 ms on, when that of 2 is back")
}

// Caller 4 waits behind 3 for units that have come already. 5, who needs what 4 has taken, was promised a slot
// that goes by that.
func TestNobodyMovesBackWhenSomebodyLeaves(t *testing.T) {
	db := newDatabase(t)
	a, b, c := rate(t, 1, 10*ms, 1), rate(t, 1, ms, 1), rate(t, 1, 20*ms, 1)
	of := func(units ...int64) []stack.Limit {
		limits := []stack.Limit{a, b, c}
		for i, n := range units {
			limits[i] = limits[i].With(stack.Terms{HasTake: true, Take: n})
		}
		return limits
	}
	require.Zero(t, db.wait("k", 1, of(1, 1, 0), 1, start).WaitNs)
	require.Equal(t, 10*ms, db.wait("k", 2, of(1, 0, 0), 1, start).WaitNs)
	require.Equal(t, 20*ms, db.wait("k", 3, of(1, 0, 0), 1, start).WaitNs)
	require.Equal(t, ms, db.wait("k", 4, of(0, 1, 1), 1, start).WaitNs)
	require.Equal(t, 21*ms, db.wait("k", 5, of(0, 0, 1), 1, start).WaitNs)
	line := db.lines.At(0)
	require.Equal(t, "2@10 3@20 4@20 5@21", slots(line))
	db.lines.Leave(2)
	assert.Empty(t, db.wake(line, start+5*ms))
	assert.Equal(t, "3@10 4@10 5@21", slots(line))
	db.lines.Leave(3)
	assert.Equal(t, []uintptr{4}, db.wake(line, start+7*ms))
	assert.Equal(t, "5@21", slots(line))
}

func TestSlotsLapseWhenThoseBehindHaveOtherLimits(t *testing.T) {
	db, line, _ := fiveWait(t)
	slow := []stack.Limit{rate(t, 5, second, 1)}
	require.Equal(t, 600*ms, db.wait("k", 6, slow, 1, start).WaitNs, "the same state, another count")
	require.Equal(t, 800*ms, db.wait("k", 7, slow, 1, start).WaitNs)
	db.lines.Leave(2)
	db.wake(line, start+10*ms)
	assert.Equal(t, "1@100 3@300 4@400 5@500 6@600 7@800", slots(line))
	db.lines.Leave(6)
	db.wake(line, start+10*ms)
	assert.Equal(t, "1@100 3@300 4@400 5@500 7@600", slots(line))
}

func TestEachKeyOfEachDatabaseHasItsOwnLine(t *testing.T) {
	var q Lines
	var s stack.Stack
	s.Load([]stack.Limit{rate(t, 1, second, 1)})
	enter := func(db int, name string, caller uintptr) *Line {
		return q.Enter(db, []byte(name), caller, &s, 1, make([]gcra.State, 1), start, second)
	}
	a, b, c, d := enter(0, "a", 1), enter(0, "b", 2), enter(1, "a", 3), enter(0, "", 4)
	assert.Same(t, a, enter(0, "a", 5))
	for i, line := range []*Line{a, b, c, d} {
		assert.Equal(t, i, line.Index)
		assert.Same(t, line, q.At(i))
	}
	assert.Equal(t, []any{1, "a", 0, ""}, []any{c.DB, string(c.Name), d.DB, string(d.Name)})
	assert.Nil(t, q.Leave(99))

	for caller := uintptr(1); caller <= 5; caller++ {
		q.Leave(caller)
	}
	assert.Zero(t, q.Waiting())
	for _, line := range []*Line{a, b, c, d} {
		assert.True(t, line.SomebodyLeft())
		q.GiveBack(line, nil, &s, start)
		_, ok := q.NextNs(line)
		assert.False(t, ok)
	}
	assert.Empty(t, q.byKey)
}

func TestAnEmptyLineMakesPlaceForAnother(t *testing.T) {
	db, line, limits := fiveWait(t)
	line.Owner = 42
	db.wake(line, start+3600*second)
	assert.Empty(t, db.lines.byKey)
	for _, key := range []string{"first", "second"} {
		db.wait(key, 10, limits, 1, start)
		db.wait(key, 11, limits, 1, start)
	}
	assert.Len(t, db.lines.lines, 2)
	assert.Same(t, line, db.lines.At(0))
	assert.Equal(t, "first", string(line.Name))
	assert.Zero(t, line.Owner)
	assert.Equal(t, "11@100", slots(line))
}

// Two keys of the same hash do not happen in a test by themselves.
func TestLinesOfTheSameHash(t *testing.T) {
	names := []string{"a", "a", "b"} // the second in another database
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		var q Lines
		real := q.line(0, []byte("a"))
		lines := []*Line{real}
		for _, name := range names[1:] {
			other := q.newLine()
			other.DB, other.Name = 1, []byte(name)
			other.hash, other.sameHash = real.hash, q.byKey[real.hash]
			q.byKey[real.hash] = other
			lines = append(lines, other)
		}
		require.Same(t, real, q.line(0, []byte("a")), "the last of the chain")
		for i, gone := range order {
			q.forget(lines[gone])
			for _, left := range order[i+1:] {
				found := q.byKey[real.hash]
				for found != nil && found != lines[left] {
					found = found.sameHash
				}
				assert.NotNil(t, found, "%v: %d after %d", order, left, gone)
			}
		}
		assert.Empty(t, q.byKey)
	}
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// requireNoGrowth runs a cycle a million times, and fails if memory is kept.
func requireNoGrowth(t *testing.T, cycle func(i int64)) {
	n := size.Of[int64](50_000, 1_000_000)
	for i := range n / 100 {
		cycle(i)
	}
	before := heapBytes()
	for i := n / 100; i < n; i++ {
		cycle(i)
	}
	assert.Less(t, heapBytes()-before, int64(64<<10))
}

func TestALineThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	db, limits := newDatabase(t), []stack.Limit{rate(t, 10, second, 1)}
	db.wait("k", 1<<40, limits, 1, start)
	db.wait("k", 1<<40, limits, 1, start)
	requireNoGrowth(t, func(i int64) {
		now := start + (i+1)*100*ms
		db.wait("k", uintptr(i), limits, 1, now)
		if len(db.wake(db.lines.At(0), now)) != 1 {
			require.Equal(t, 1, db.lines.Waiting())
		}
	})
	assert.Equal(t, 1, db.lines.Waiting())
	assert.LessOrEqual(t, cap(db.lines.At(0).waiters), 16)
	assert.LessOrEqual(t, len(db.lines.spare), 16)
}

func TestComingAndLeavingDoesNotGrow(t *testing.T) {
	db, limits := newDatabase(t), []stack.Limit{rate(t, 10, second, 1)}
	names := []string{"a", "b", "c"}
	requireNoGrowth(t, func(i int64) {
		key := names[i%3]
		db.wait(key, uintptr(i), limits, 1, start)
		if line := db.lines.Leave(uintptr(i)); line != nil {
			db.wake(line, start)
		}
	})
	assert.Zero(t, db.lines.Waiting())
	assert.Empty(t, db.lines.byKey)
	assert.Len(t, db.lines.lines, 1)
}

func TestTheNamesOfLargeKeysAreNotKept(t *testing.T) {
	var q Lines
	var s stack.Stack
	s.Load([]stack.Limit{rate(t, 1, second, 1)})
	before := heapBytes()
	name := make([]byte, 1<<20)
	var lines []*Line
	for i := range 20 {
		name[0] = byte(i)
		lines = append(lines, q.Enter(0, name, uintptr(i), &s, 1, make([]gcra.State, 1), start, second))
	}
	for _, line := range lines {
		q.Due(line, start+second)
		q.NextNs(line)
	}
	assert.Less(t, heapBytes()-before, int64(2<<20))
	runtime.KeepAlive(&q)
}

func TestWaitingDoesNotAllocate(t *testing.T) {
	db, limits := newDatabase(t), []stack.Limit{rate(t, 10, second, 1)}
	db.limit("k", limits, stack.Request{Cost: 1}, start)
	key, before := []byte("k"), db.s.Rates(nil, start)
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		for caller := range uintptr(5) {
			db.lines.Enter(0, key, caller, &db.s, 1, before, start, int64(caller)*second)
		}
		line := db.lines.At(0)
		for range 5 {
			db.lines.Due(line, start+9*second)
		}
		db.lines.NextNs(line)
	}))
}

func BenchmarkWait(b *testing.B) {
	db, limits := newDatabase(b), []stack.Limit{rate(b, 10, second, 1)}
	db.limit("k", limits, stack.Request{Cost: 1}, start)
	key, before := []byte("k"), db.s.Rates(nil, start)
	b.ReportAllocs()
	now := start
	for i := range 100 {
		db.lines.Enter(0, key, uintptr(i), &db.s, 1, before, now, 100*second)
		now += second
	}
	i := uintptr(100)
	for b.Loop() {
		db.lines.Enter(0, key, i, &db.s, 1, before, now, 100*second)
		now += second
		db.lines.Due(db.lines.At(0), now)
		i++
	}
}
