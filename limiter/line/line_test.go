// The callers in line: their order, how long they wait, and what happens to the callers behind one that leaves.
package line

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/gcra"
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

// enter puts a caller that has reserved into a line, as the host does: the line is known by the number of its first
// caller.
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

// Until Own, a line has the name that it was opened with, and from then on the host's: what becomes of the first does
// not matter.
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

// What a client can have the package keep are as many callers and lines as there ever were at the same time. Names of
// keys are the host's.
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
