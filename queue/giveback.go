package queue

import (
	"math"
	"slices"

	"redis-throttle/gcra"
	"redis-throttle/stack"
)

// GiveBack takes the callers that have left out of line. value is the key's value at nowNs. If
// GiveBack returns true, the state that is then in s has to replace it.
//
// Everybody behind moves up, as if those that left had never come: their reservations are made
// again, from the state before the first of those. That is possible if nobody but the line has
// changed the key since. Otherwise (a CL.LIMIT with MAXWAIT reserved in between, somebody deleted
// the key) the slots that were given up lapse: everybody keeps the instant that was promised, and
// no unit is given out twice.
func (q *Lines) GiveBack(line *Line, value []byte, s *stack.Stack, nowNs int64) (changed bool) {
	waiters := line.waiting()
	first := firstToMove(waiters, value, s, nowNs)
	if first < len(waiters) {
		moveUp(waiters, first, s, nowNs)
		changed = true
	}
	stay := line.waiters[:0]
	for i, w := range waiters {
		switch {
		case !w.left:
			stay = append(stay, w)
			continue
		case i < first && len(stay) > 0:
			stay[len(stay)-1].severed = true
		}
		q.spare = append(q.spare, w)
	}
	line.waiters, line.first, line.left = stay, 0, 0
	return changed
}

// firstToMove is the index of the first waiter that has left and since whose reservation nobody
// but the line has changed the key. It is len(waiters) if there is none.
func firstToMove(waiters []*waiter, value []byte, s *stack.Stack, nowNs int64) (first int) {
	first = len(waiters)
	if first == 0 || !waiters[first-1].leads(value, s, nowNs) {
		return first
	}
	for i := len(waiters) - 1; i >= 0 && !waiters[i].severed; i-- {
		if waiters[i].left {
			first = i
		}
	}
	return first
}

// leads reports whether value is what the key holds after the reservation of w, and nothing else
// has changed it. Once that is false it stays false.
func (w *waiter) leads(value []byte, s *stack.Stack, nowNs int64) bool {
	s.Load(w.limits)
	unreadable := len(value) > 0 && s.Decode(value) != nil
	w.severed = w.severed || unreadable || !s.FullWith(w.after, nowNs)
	return !w.severed
}

// moveUp makes the reservations behind waiters[first], which has left, again, for those that stay.
// Each is made at nowNs; but if its instant has come already, and its caller only waits for those
// ahead, it keeps that instant. Otherwise those behind could come later than before. moveUp leaves
// in s the state after the last reservation that stays, as of the instant at which that was made.
//
// So a reservation may be made at an earlier instant than the one ahead of it. All states are
// therefore seen from the instant of the first one, and nothing that is over by then is dropped on
// the way.
func moveUp(waiters []*waiter, first int, s *stack.Stack, nowNs int64) {
	earliestNs := int64(math.MinInt64)
	for _, ahead := range waiters[:first] {
		if !ahead.left {
			earliestNs = ahead.slotNs
		}
	}
	state, seenNs := waiters[first].before, waiters[first].seenNs
	if first > 0 && !waiters[first-1].severed {
		state, seenNs = waiters[first-1].after, waiters[first-1].seenNs
	}
	madeNs := seenNs
	s.Load(waiters[first].limits) // if nobody stays
	for _, w := range waiters[first:] {
		if w.left {
			continue
		}
		s.Load(w.limits) // the same ones, under its own terms
		s.SetRates(state, seenNs)
		w.seenNs = seenNs
		w.before = s.Rates(w.before[:0], seenNs)
		madeNs = max(min(nowNs, w.comesNs), seenNs)
		r := s.Take(stack.Request{Cost: w.cost, MaxWaitNs: math.MaxInt64}, madeNs)
		w.after = s.Rates(w.after[:0], madeNs)
		keep(w.after, w.before)
		w.comesNs = madeNs + r.WaitNs
		w.slotNs = max(w.comesNs, earliestNs)
		earliestNs = w.slotNs // a caller that asks for less comes later all the same
		state = w.after
	}
	s.SetRates(state, madeNs)
}

// keep restores the states that a reservation dropped as being over, of limits of which it took
// nothing.
func keep(after, before []gcra.State) {
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
