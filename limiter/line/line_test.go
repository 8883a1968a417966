// The callers in line: their order, how long they wait, and what happens to the callers behind one that leaves.
package line

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
	"redis-throttle/limiter/stack"
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
	if db.s.ExpireAt(nowNs) > uint64(nowNs) {
		db.keys[key] = db.s.Append(nil)
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
		enter(&db.lines, 0, []byte(key), caller, &db.s, cost, before, nowNs, result.WaitNs)
	}
	return result
}

// enter puts a caller that has reserved into a line, as the host does: the line is known by the number of its first caller.
func enter(q *Lines, db int, name []byte, caller uintptr, s *stack.Stack, cost int64, before []gcra.State, nowNs, waitNs int64) *line {
	id := q.Reserve(db, name, Reservation{s, before, cost, nowNs, waitNs})
	step := q.EnterReserved(id, caller, caller, at(nowNs))
	if step.LineHost == 0 {
		q.Own(step.Line, caller+1, name)
	}
	return q.line(step.Line)
}

// at is an instant at which both clocks say the same.
func at(nowNs int64) Clock { return Clock{nowNs, nowNs} }

// wake does what the timer of a line does: give back, and answer all who are due. The line may be gone then.
func (db *database) wake(l *line, nowNs int64) (answered []uintptr) {
	key := string([]byte(l.key.name))
	for id := l.id; ; {
		switch step := db.lines.Next(id, at(nowNs), 64); step.Kind {
		case GiveBack:
			if db.lines.GiveBack(id, []byte(db.keys[key]), &db.s, nowNs) {
				db.store(key, nowNs)
			}
		case Answer:
			answered = append(answered, step.Host)
		case Sleep, Close:
			return answered
		default:
			require.Fail(db.t, "a step that nobody with a reservation needs", "%+v", step)
		}
	}
}

func (l *line) waiting() (waiting []*entry) {
	for e := l.reserved.first; e != nil; e = e.next {
		waiting = append(waiting, e)
	}
	return waiting
}

func (q *Lines) waits() int { return len(q.byCaller) }

// slots are the callers in a line and when each is to be answered, in ms after start.
func slots(line *line) string {
	var out []string
	for _, w := range line.waiting() {
		if !w.left {
			out = append(out, fmt.Sprintf("%d@%d", w.caller, (w.slotNs-start)/ms))
		}
	}
	return strings.Join(out, " ")
}

// fiveWait has one unit taken and callers 1 to 5 wait, 100 ms apart.
func fiveWait(t require.TestingT) (*database, *line, []stack.Limit) {
	db, limits := newDatabase(t), []stack.Limit{rate(t, 10, second, 1)}
	for caller := range uintptr(6) {
		require.Equal(t, int64(caller)*100*ms, db.wait("k", caller, limits, 1, start).WaitNs)
	}
	return db, db.lines.lines[0], limits
}

func TestCallersAreAnsweredInOrderWhenTheirSlotComes(t *testing.T) {
	db, line, _ := fiveWait(t)
	assert.Equal(t, "1@100 2@200 3@300 4@400 5@500", slots(line))
	assert.Equal(t, 5, db.lines.waits())

	assert.Empty(t, db.wake(line, start+100*ms-1))
	step := db.lines.Next(line.id, at(start+100*ms), 0)
	assert.Equal(t, Step{Kind: Answer, Line: line.id, Entry: step.Entry, LineHost: line.host, Host: 1, Ns: 100 * ms}, step)
	assert.False(t, db.lines.Stands(step.Entry))
	assert.Equal(t, Step{Kind: Sleep, Line: line.id, LineHost: line.host, Ns: 100 * ms}, db.lines.Next(line.id, at(start+100*ms), 0))

	assert.Equal(t, []uintptr{2, 3, 4, 5}, db.wake(line, start+3600*second), "late, but in order")
	assert.Zero(t, db.lines.waits())
}

// Giving back may have to be put off, while the clients are paused.
func TestWhoLeftIsNotAnswered(t *testing.T) {
	db, line, _ := fiveWait(t)
	db.lines.Leave(1)
	db.lines.Leave(3)
	db.lines.HoldUp(line.id)
	step := db.lines.Next(line.id, at(start+200*ms), 0)
	assert.Equal(t, Answer, step.Kind)
	assert.Equal(t, uintptr(2), step.Host)
	assert.True(t, line.someLeft)
	assert.Equal(t, Step{Kind: Sleep, Line: line.id, LineHost: line.host, Ns: 100 * ms}, db.lines.Next(line.id, at(start+300*ms), 0))
	assert.Zero(t, line.left, "its slot has gone by")
	assert.Equal(t, "4@400 5@500", slots(line))
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
		line := db.lines.lines[0]
		for _, caller := range tt.leave {
			db.lines.Leave(caller)
		}
		db.wake(line, start)
		assert.Equal(t, tt.slots, slots(line), "%v left", tt.leave)
		assert.Equal(t, want.keys["k"], db.keys["k"], "%v left", tt.leave)

		// Callers that were told to come later do not.
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

// A limit that the callers do not name changes nothing for them, and moving up does not forget it.
func TestMovingUpKeepsTheLimitsOfOthers(t *testing.T) {
	db, line, limits := fiveWait(t)
	window, err := stack.NewWindow(1, 1, time.Hour)
	require.NoError(t, err)
	quota := []stack.Limit{window}
	require.False(t, db.limit("k", quota, stack.Request{Cost: 1}, start).Limited)
	for _, caller := range []uintptr{2, 4} {
		db.lines.Leave(caller)
		db.wake(line, start+10*ms)
		assert.True(t, db.limit("k", quota, stack.Request{Cost: 1}, start).Limited)
	}
	assert.Equal(t, "1@100 3@200 5@300", slots(line))
	for _, caller := range []uintptr{5, 3, 1} {
		db.lines.Leave(caller)
	}
	db.wake(line, start+10*ms)
	assert.True(t, db.limit("k", quota, stack.Request{Cost: 1}, start).Limited)
	assert.Equal(t, 100*ms, db.limit("k", limits, stack.Request{Cost: 1}, start).RetryAfterNs, "nobody has reserved")
}

func TestALineKeepsTheOrderOfArrivalWhateverTheLimits(t *testing.T) {
	db := newDatabase(t)
	// Two each: the state of a lone rate would go to any other.
	slow := []stack.Limit{rate(t, 1, second, 1), rate(t, 1, ms, 1)}
	quick := []stack.Limit{rate(t, 100, 60*second, 1), rate(t, 2, 2*ms, 1)}
	for caller := range uintptr(3) {
		db.wait("k", caller, slow, 1, start)
	}
	line := db.lines.lines[0]
	require.Equal(t, "1@1000 2@2000", slots(line))
	require.Zero(t, db.wait("k", 3, quick, 1, start).WaitNs, "its own limit is untouched")
	require.Equal(t, 600*ms, db.wait("k", 4, quick, 1, start).WaitNs)
	require.Equal(t, 1200*ms, db.wait("k", 5, quick, 1, start).WaitNs)
	require.Equal(t, 1800*ms, db.wait("k", 6, quick, 1, start).WaitNs)
	assert.Equal(t, "1@1000 2@2000 4@2000 5@2000 6@2000", slots(line))

	// A caller that moves up does not pass callers ahead with other limits.
	db.lines.Leave(4)
	assert.Empty(t, db.wake(line, start+10*ms))
	assert.Equal(t, "1@1000 2@2000 5@2000 6@2000", slots(line))
	assert.Equal(t, []uintptr{1}, db.wake(line, start+1500*ms))
	assert.Equal(t, []uintptr{2, 5, 6}, db.wake(line, start+2000*ms))
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
	come := func(db int, name string, caller uintptr) *line {
		return enter(&q, db, []byte(name), caller, &s, 1, make([]gcra.State, 1), start, second)
	}
	lines := []*line{come(0, "a", 1), come(0, "b", 2), come(1, "a", 3), come(0, "", 4)}
	assert.Same(t, lines[0], come(0, "a", 5))
	for i, l := range lines {
		assert.Same(t, l, q.lines[i])
	}
	assert.Equal(t, []any{1, "a", 0, ""}, []any{lines[2].key.db, lines[2].key.name, lines[3].key.db, lines[3].key.name})
	_, _, ok := q.Leave(99)
	assert.False(t, ok)

	for caller := uintptr(1); caller <= 5; caller++ {
		q.Leave(caller)
	}
	assert.Zero(t, q.waits())
	for _, l := range lines {
		id := l.id
		assert.Equal(t, GiveBack, q.Next(id, at(start), 1).Kind)
		q.GiveBack(id, nil, &s, start)
		assert.Equal(t, Close, q.Next(id, at(start), 1).Kind)
		assert.Equal(t, Step{Kind: Close}, q.Next(id, at(start), 1), "it is gone")
	}
	assert.Empty(t, q.byName)
}

func TestAnEmptyLineMakesPlaceForAnother(t *testing.T) {
	db, line, limits := fiveWait(t)
	id := line.id
	db.wake(line, start+3600*second)
	assert.Empty(t, db.lines.byName)
	for _, key := range []string{"first", "second"} {
		db.wait(key, 10, limits, 1, start)
		db.wait(key, 11, limits, 1, start)
	}
	assert.Len(t, db.lines.lines, 2)
	assert.Equal(t, "first", line.key.name)
	assert.NotEqual(t, id, line.id)
	assert.Equal(t, "11@100", slots(line))
}

// The line that was looked up last is remembered. One that is closed is not found again, whatever the name: its place may be another's by then.
func TestALineThatIsClosedIsNotFound(t *testing.T) {
	for _, name := range []string{"", "a"} {
		var q Lines
		l := q.open(0, []byte(name))
		require.Same(t, l, q.find(0, []byte(name)))
		require.Nil(t, q.find(1, []byte(name)), "in another database")
		require.Same(t, l, q.find(0, []byte(name)))
		q.close(l)
		require.Nil(t, q.find(0, []byte(name)))
		require.Same(t, l, q.open(0, []byte("other")), "its place is used again")
		require.NotSame(t, l, q.open(0, []byte(name)))
	}
}

// Until Own, a line has the name that it was opened with, and from then on the host's: what becomes of the first does not matter.
func TestALineHasItsNameFromTheHost(t *testing.T) {
	var q Lines
	for round := range 3 {
		given, own := []byte("a"), []byte("a")
		l := q.open(1, given)
		other := q.open(0, given)
		require.NotSame(t, l, other, "in another database")
		q.Own(l.id, 1, own)
		q.Own(other.id, 2, own)
		given[0] = 'x'
		require.Same(t, l, q.find(1, []byte("a")))
		require.Same(t, other, q.find(0, []byte("a")))
		require.Nil(t, q.find(1, given))
		q.close(l)
		require.Nil(t, q.find(1, own))
		q.close(other)
		require.Empty(t, q.byName, round)
		own[0] = 'y'
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
		if len(db.wake(db.lines.lines[0], now)) != 1 {
			require.Equal(t, 1, db.lines.waits())
		}
	})
	assert.Equal(t, 1, db.lines.waits())
	assert.LessOrEqual(t, len(db.lines.entries), 16)
}

func TestComingAndLeavingDoesNotGrow(t *testing.T) {
	db, limits := newDatabase(t), []stack.Limit{rate(t, 10, second, 1)}
	names := []string{"a", "b", "c"}
	requireNoGrowth(t, func(i int64) {
		key := names[i%3]
		db.wait(key, uintptr(i), limits, 1, start)
		if _, _, ok := db.lines.Leave(uintptr(i)); ok {
			db.wake(db.lines.lines[0], start)
		}
	})
	assert.Zero(t, db.lines.waits())
	assert.Empty(t, db.lines.byName)
	assert.Len(t, db.lines.lines, 1)
}

// What a client can have the package keep are as many callers and lines as there ever were at the same time. Names of keys are the
// host's.
func TestNamesTakeNoMemory(t *testing.T) {
	var q Lines
	var s stack.Stack
	s.Load([]stack.Limit{rate(t, 1, second, 1)})
	names := make([][]byte, 20)
	for i := range names {
		names[i] = make([]byte, 1<<20)
		names[i][0] = byte(i)
	}
	before := heapBytes()
	for i, name := range names {
		enter(&q, 0, name, uintptr(i)+1, &s, 1, make([]gcra.State, 1), start, second)
	}
	assert.Less(t, heapBytes()-before, int64(1<<20))
	for _, l := range q.lines {
		assert.Equal(t, Answer, q.Next(l.id, at(start+second), 0).Kind)
		assert.Equal(t, Close, q.Next(l.id, at(start+second), 0).Kind)
		assert.Empty(t, l.key)
	}
	runtime.KeepAlive(names)
}

func TestWaitingDoesNotAllocate(t *testing.T) {
	db, limits := newDatabase(t), []stack.Limit{rate(t, 10, second, 1)}
	db.limit("k", limits, stack.Request{Cost: 1}, start)
	key, before := []byte("k"), db.s.Rates(nil, start)
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		for caller := range uintptr(5) {
			enter(&db.lines, 0, key, caller, &db.s, 1, before, start, int64(caller)*second)
			db.lines.EnterTurn(0, key, 10+caller, 0, Turn{LookNs: second, TimeoutNs: int64(caller) * second}, at(start))
		}
		for range 5 {
			require.Equal(t, Answer, db.lines.Next(db.lines.lines[0].id, at(start+9*second), 64).Kind)
		}
		for caller := range uintptr(5) {
			db.lines.Leave(10 + caller)
		}
		require.Equal(t, Close, db.lines.Next(db.lines.lines[0].id, at(start+9*second), 64).Kind)
	}))
}
