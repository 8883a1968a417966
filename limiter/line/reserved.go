package line

import (
	"math"
	"slices"

	"redis-throttle/gcra"
	"redis-throttle/limiter/stack"
)

// Reservation is what the decision to reserve a slot says.
type Reservation struct {
	Stack         *stack.Stack // with the reservation; all its limits are rates
	Before        []gcra.State // Stack.Rates before it was made
	Cost          int64        // in units
	NowNs, WaitNs int64        // it was made at NowNs, for WaitNs later
}

// slot is what the line knows of a caller that has reserved one.
type slot struct {
	// comesNs is the instant that was reserved, slotNs when the caller is to be answered: not
	// before those ahead.
	comesNs, slotNs int64
	// promisedNs is slotNs on the monotonic clock. A step of the wall clock makes nobody wait longer than that. waitNs
	// is how long the decision told the caller to wait: the clock may step back before the caller is in line.
	promisedNs, waitNs int64
	left               bool
	severed            bool // the key was changed by something else after the reservation
	cost               int64
	limits             []stack.Limit
	// before and after are the states of the limits before and after the reservation, as of
	// seenNs, in ns since the epoch: what was over by then is full. Neither this reservation nor
	// one behind it is for an earlier instant.
	before, after []gcra.State
	seenNs        int64
}

// Reserve puts a caller at the end of those that have reserved a slot of a key. name has to stay valid as in EnterTurn.
// The caller is known from EnterReserved on.
func (q *Lines) Reserve(db int, name []byte, r Reservation) ID {
	l := q.open(db, name)
	e := q.newEntry(l)
	e.isReserved, e.left, e.severed, e.cost, e.seenNs = true, false, false, r.Cost, r.NowNs
	e.limits = r.Stack.Limits(e.limits[:0])
	e.before = append(e.before[:0], r.Before...)
	e.after = r.Stack.Rates(e.after[:0], r.NowNs)
	e.comesNs, e.waitNs = r.NowNs+r.WaitNs, r.WaitNs
	e.slotNs = e.comesNs
	if last := l.reserved.last; last != nil {
		last.severed = last.severed || !slices.EqualFunc(last.limits, e.limits, stack.Limit.SameAs) || !same(last.after, e.before, r.NowNs)
		// A caller with other limits may reserve an earlier instant, but came later.
		e.slotNs = max(e.slotNs, last.slotNs)
	}
	l.reserved.append(e)
	return e.id
}

// EnterReserved has the host know a caller that has reserved. The step is that of EnterTurn.
func (q *Lines) EnterReserved(id ID, caller, host uintptr, now Clock) Step {
	e := q.entry(id)
	e.slotNs = e.comesNs
	if toldNs := later(now.WallNs, e.waitNs); e.slotNs > toldNs+apartNs {
		e.slotNs, e.severed = toldNs, true
	}
	if e.previous != nil { // a step of the clock may have moved it
		e.slotNs = max(e.slotNs, e.previous.slotNs)
	}
	e.promisedNs = now.MonoNs + e.slotNs - now.WallNs
	return q.stand(e, caller, host, now)
}

// apartNs is by how much two clocks that were read one after the other may differ without a step.
const apartNs = 10e6

// step keeps the promises of a line's callers after the wall clock was set back. Slots that move no longer agree with
// the key, so nobody moves up to them. An entry that the host does not know yet was reserved by the new clock.
func (l *line) step(now Clock) {
	for e := l.reserved.first; e != nil; e = e.next {
		promisedNs := now.WallNs + e.promisedNs - now.MonoNs
		if e.caller != 0 && e.slotNs > promisedNs+apartNs {
			e.slotNs = promisedNs
			e.severed = true
		}
	}
}

// leaveReserved notes that a caller has gone. Its slot stays taken until it is given back.
func (q *Lines) leaveReserved(e *entry) {
	delete(q.byCaller, e.caller)
	e.left = true
	e.line.left++
	e.line.someLeft = true
}

// due takes the first caller out of line whose slot has come, or returns nil.
func (q *Lines) due(l *line, nowNs int64) *entry {
	for e := l.reserved.first; e != nil && e.slotNs <= nowNs; e = l.reserved.first {
		l.reserved.remove(e)
		if !e.left {
			return e
		}
		l.left--
		q.free(e)
	}
	return nil
}

// GiveBack takes the callers that have left out of a line. value is the key's value at nowNs. If
// GiveBack returns true, the state that is then in s has to replace it.
//
// Everybody behind moves up, as if those that left had never come: their reservations are made
// again, from the state before the first of those. That is possible if nobody but the line has
// changed the key since. Otherwise (a CL.LIMIT with MAXWAIT reserved in between, somebody deleted
// the key) the slots that were given up lapse: everybody keeps the instant that was promised, and
// no unit is given out twice.
func (q *Lines) GiveBack(id ID, value []byte, s *stack.Stack, nowNs int64) (changed bool) {
	l := q.line(id)
	if l == nil {
		return false
	}
	q.moving = q.moving[:0]
	for e := l.reserved.first; e != nil; e = e.next {
		q.moving = append(q.moving, e)
	}
	first := firstToMove(q.moving, value, s, nowNs)
	if first < len(q.moving) {
		moveUp(q.moving, first, s, nowNs)
		changed = true
	}
	for i, e := range q.moving {
		if !e.left {
			continue
		}
		if i < first && e.previous != nil {
			e.previous.severed = true
		}
		l.reserved.remove(e)
		q.free(e)
	}
	l.left, l.someLeft = 0, false
	return changed
}

// firstToMove is the index of the first waiter that has left and since whose reservation nobody
// but the line has changed the key. It is len(callers) if there is none.
func firstToMove(callers []*entry, value []byte, s *stack.Stack, nowNs int64) (first int) {
	first = len(callers)
	if first == 0 || !callers[first-1].leads(value, s, nowNs) {
		return first
	}
	for i := len(callers) - 1; i >= 0 && !callers[i].severed; i-- {
		if callers[i].left {
			first = i
		}
	}
	return first
}

// leads reports whether value is what the key holds after the reservation of w, and nothing else
// has changed it. Once that is false it stays false.
func (w *entry) leads(value []byte, s *stack.Stack, nowNs int64) bool {
	s.Load(w.limits)
	unreadable := len(value) > 0 && s.Decode(value) != nil
	w.severed = w.severed || unreadable || !s.FullWith(w.after, nowNs)
	return !w.severed
}

// moveUp makes the reservations behind callers[first], which has left, again, for those that stay.
// Each is made at nowNs; but if its instant has come already, and its caller only waits for those
// ahead, it keeps that instant. Otherwise those behind could come later than before. moveUp leaves
// in s the state after the last reservation that stays, as of the instant at which that was made.
//
// So a reservation may be made at an earlier instant than the one ahead of it. All states are
// therefore seen from the instant of the first one, and nothing that is over by then is dropped on
// the way.
func moveUp(callers []*entry, first int, s *stack.Stack, nowNs int64) {
	earliestNs := int64(math.MinInt64)
	for _, ahead := range callers[:first] {
		if !ahead.left {
			earliestNs = ahead.slotNs
		}
	}
	state, seenNs := callers[first].before, callers[first].seenNs
	if first > 0 && !callers[first-1].severed {
		state, seenNs = callers[first-1].after, callers[first-1].seenNs
	}
	madeNs := seenNs
	s.Reload(callers[first].limits) // if nobody stays
	for _, w := range callers[first:] {
		if w.left {
			continue
		}
		s.Reload(w.limits) // the same ones, under its own terms
		s.SetRates(state, seenNs)
		w.seenNs = seenNs
		w.before = s.Rates(w.before[:0], seenNs)
		madeNs = max(min(nowNs, w.comesNs), seenNs)
		r := s.Take(stack.Request{Cost: w.cost, MaxWaitNs: math.MaxInt64}, madeNs)
		w.after = s.Rates(w.after[:0], madeNs)
		restoreUntouched(w.after, w.before)
		w.comesNs = madeNs + r.WaitNs
		slotNs := max(w.comesNs, earliestNs)
		w.promisedNs += slotNs - w.slotNs
		w.slotNs = slotNs
		earliestNs = w.slotNs // a caller that asks for less comes later all the same
		state = w.after
	}
	s.SetRates(state, madeNs)
}

// restoreUntouched restores the states that a reservation dropped as being over, of limits of which it took
// nothing.
func restoreUntouched(after, before []gcra.State) {
	for i := range after {
		if after[i].TAT == 0 {
			after[i] = before[i]
		}
	}
}

// same reports whether a and b are the same state seen from atNs: what is over by then is
// full in both.
func same(a, b []gcra.State, atNs int64) bool {
	return slices.EqualFunc(a, b, func(a, b gcra.State) bool { return a.FullIn(atNs) == b.FullIn(atNs) })
}
