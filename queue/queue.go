// Package queue keeps the callers that wait for a slot they have reserved: one line
// for each key, in order of arrival. It knows when each is to be answered, and what
// becomes of the line when one leaves early. It has no clock, no I/O and no
// knowledge of the server: a caller is a number.
package queue

import (
	"bytes"
	"hash/maphash"
	"slices"

	"redis-throttle/gcra"
	"redis-throttle/stack"
)

// Lines are the lines of all keys. The zero value has none.
//
// The memory of callers and lines that are gone is used again, so Lines stops allocating once it
// has seen its largest crowd.
type Lines struct {
	lines   []*Line
	unused  []*Line
	byKey   map[uint64]*Line // chained by Line.sameHash
	waiting map[uintptr]*waiter
	spare   []*waiter
	seed    maphash.Seed
}

// Line is the callers that wait for one key. Index is its place in Lines.
type Line struct {
	Index int
	DB    int
	Name  []byte
	// Owner is for the code that runs the lines, which may keep something for this one. It is 0 in
	// a new line.
	Owner uintptr

	left     int       // how many of waiters are gone
	waiters  []*waiter // in order of arrival, from first on
	first    int
	hash     uint64
	sameHash *Line
}

// keptNameLen is the length of the longest name whose memory is used again.
const keptNameLen = 1 << 10

// waiter is a caller with a reservation. Its limits are rates.
type waiter struct {
	caller    uintptr
	line      *Line
	enteredNs int64
	// comesNs is the instant that was reserved, slotNs when the caller is to be answered: not
	// before those ahead.
	comesNs, slotNs int64
	left            bool
	severed         bool // somebody else has changed the key after the reservation
	cost            int64
	limits          []stack.Limit
	// before and after are the states of the limits before and after the reservation, as of
	// seenNs, in ns since the epoch: what was over by then is full. Neither this reservation nor
	// one behind it is for an earlier instant.
	before, after []gcra.State
	seenNs        int64
}

// Waiting is the number of callers that wait.
func (q *Lines) Waiting() int { return len(q.waiting) }

// Enter puts caller at the end of the line of key name in database db. Its reservation
// of cost units was made at nowNs, for waitNs later, and is in s; before is what
// s.Rates was before it was made.
func (q *Lines) Enter(db int, name []byte, caller uintptr, s *stack.Stack, cost int64, before []gcra.State, nowNs, waitNs int64) *Line {
	line := q.line(db, name)
	w := q.newWaiter()
	w.caller, w.line, w.left, w.severed, w.cost = caller, line, false, false, cost
	w.enteredNs, w.seenNs = nowNs, nowNs
	w.limits = s.Limits(w.limits[:0])
	w.before = append(w.before[:0], before...)
	w.after = s.Rates(w.after[:0], nowNs)
	w.comesNs = nowNs + waitNs
	w.slotNs = w.comesNs
	if ahead := line.waiting(); len(ahead) > 0 {
		last := ahead[len(ahead)-1]
		last.severed = last.severed || !slices.EqualFunc(last.limits, w.limits, stack.Limit.SameAs) || !same(last.after, w.before, nowNs)
		// A caller with other limits may reserve an earlier instant, but came later.
		w.slotNs = max(w.slotNs, last.slotNs)
	}
	line.waiters = append(line.waiters, w)
	q.waiting[caller] = w
	return line
}

// Rename changes the number of a caller that waits.
func (q *Lines) Rename(caller, now uintptr) {
	w := q.waiting[caller]
	delete(q.waiting, caller)
	w.caller = now
	q.waiting[now] = w
}

// Leave notes that caller has gone without an answer, and returns its line, or nil if it did not
// wait. Its slot stays taken until GiveBack is called for the line.
func (q *Lines) Leave(caller uintptr) *Line {
	w := q.waiting[caller]
	if w == nil {
		return nil
	}
	delete(q.waiting, caller)
	w.left = true
	w.line.left++
	return w.line
}

// SomebodyLeft reports whether GiveBack has something to do.
func (line *Line) SomebodyLeft() bool { return line.left > 0 }

// Due removes the first caller in line whose slot has come, and returns it and how long it has
// waited. ok is false if there is none.
func (q *Lines) Due(line *Line, nowNs int64) (caller uintptr, waitedNs int64, ok bool) {
	for len(line.waiting()) > 0 {
		w := line.waiting()[0]
		if w.slotNs > nowNs {
			break
		}
		q.removeFirst(line)
		if w.left {
			line.left--
		} else {
			delete(q.waiting, w.caller)
			return w.caller, nowNs - w.enteredNs, true
		}
	}
	return 0, 0, false
}

// NextNs is the instant at which Due will find the line's next caller. If nobody is left, ok is
// false, the line is gone, and its place may become another's.
func (q *Lines) NextNs(line *Line) (instantNs int64, ok bool) {
	waiting := line.waiting()
	if len(waiting) == 0 {
		q.forget(line)
		return 0, false
	}
	return waiting[0].slotNs, true
}

// At returns the line in place index.
func (q *Lines) At(index int) *Line { return q.lines[index] }

func (q *Lines) line(db int, name []byte) *Line {
	if q.byKey == nil {
		q.byKey = make(map[uint64]*Line)
		q.waiting = make(map[uintptr]*waiter)
		q.seed = maphash.MakeSeed()
	}
	hash := maphash.Bytes(q.seed, name) + uint64(db)
	for line := q.byKey[hash]; line != nil; line = line.sameHash {
		if line.DB == db && bytes.Equal(line.Name, name) {
			return line
		}
	}
	line := q.newLine()
	line.DB, line.Name, line.hash = db, append(line.Name[:0], name...), hash
	line.sameHash = q.byKey[hash]
	q.byKey[hash] = line
	return line
}

func (q *Lines) newLine() *Line {
	if n := len(q.unused); n > 0 {
		line := q.unused[n-1]
		q.unused = q.unused[:n-1]
		return line
	}
	line := &Line{Index: len(q.lines)}
	q.lines = append(q.lines, line)
	return line
}

func (q *Lines) forget(line *Line) {
	switch before := q.byKey[line.hash]; {
	case before != line:
		for before.sameHash != line {
			before = before.sameHash
		}
		before.sameHash = line.sameHash
	case line.sameHash == nil:
		delete(q.byKey, line.hash)
	default:
		q.byKey[line.hash] = line.sameHash
	}
	line.sameHash, line.Owner = nil, 0
	if cap(line.Name) > keptNameLen {
		line.Name = nil
	}
	q.unused = append(q.unused, line)
}

func (q *Lines) newWaiter() *waiter {
	if n := len(q.spare); n > 0 {
		w := q.spare[n-1]
		q.spare = q.spare[:n-1]
		return w
	}
	return &waiter{}
}

func (line *Line) waiting() []*waiter { return line.waiters[line.first:] }

func (q *Lines) removeFirst(line *Line) {
	q.spare = append(q.spare, line.waiters[line.first])
	line.first++
	if 2*line.first >= len(line.waiters) {
		// A line may never be empty. This moves no more waiters than have gone.
		line.waiters = line.waiters[:copy(line.waiters, line.waiting())]
		line.first = 0
	}
}
