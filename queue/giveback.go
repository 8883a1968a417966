package queue

import (
	"math"
	"slices"

	"redis-throttle/stack"
)

// GiveBack takes the callers who have left out of line, and returns true when value,
// the key's as it is at nowNs, has to become what is then in s.
//
// Everybody behind moves up, as if those who left had never come: their reservations
// are made again from the state before the first of those. That is possible when
// nobody but the line has changed the key since. Otherwise (a CL.LIMIT with MAXWAIT
// reserved in between, somebody deleted the key) the slots lapse: who was promised
// an instant keeps it, and no unit is given out twice.
func (q *Lines) GiveBack(line *Line, value []byte, s *stack.Stack, nowNs int64) (changed bool) {
	if restart := unbroken(line.waiting(), value, s, nowNs); restart != nil {
		moveUp(restart, s, nowNs)
		changed = true
	}
	stay := line.waiters[:0]
	for _, w := range line.waiting() {
		if w.left {
			q.spare = append(q.spare, w)
		} else {
			stay = append(stay, w)
		}
	}
	line.waiters, line.first, line.left = stay, 0, 0
	return changed
}

// unbroken returns waiters from the first one on who left and from whom each
// reservation follows on the one before, up to the value that the key has now; nil
// when there is none.
func unbroken(waiters []*waiter, value []byte, s *stack.Stack, nowNs int64) []*waiter {
	if len(waiters) == 0 {
		return nil
	}
	last := waiters[len(waiters)-1]
	s.Load(last.limits)
	if len(value) > 0 && s.Decode(value) != nil {
		return nil
	}
	if !same(instants(s.Backlogs(nil, nowNs), nowNs), last.after, nowNs) {
		return nil
	}
	var restart []*waiter
	for i := len(waiters) - 1; i >= 0; i-- {
		if waiters[i].left {
			restart = waiters[i:]
		}
		if i > 0 && !(slices.Equal(waiters[i-1].limits, last.limits) && same(waiters[i-1].after, waiters[i].before, nowNs)) {
			break
		}
	}
	return restart
}

// moveUp makes the reservations again of those who stay. The first of waiters left.
func moveUp(waiters []*waiter, s *stack.Stack, nowNs int64) {
	s.Load(waiters[0].limits)
	s.SetBacklogs(backlogs(waiters[0].before, nowNs), nowNs)
	earliestNs := nowNs
	for _, w := range waiters {
		if w.left {
			continue
		}
		w.before = instants(s.Backlogs(w.before[:0], nowNs), nowNs)
		r := s.Take(stack.Request{Cost: w.cost, MaxWaitNs: math.MaxInt64}, nowNs)
		w.after = instants(s.Backlogs(w.after[:0], nowNs), nowNs)
		w.slotNs = max(nowNs+r.WaitNs, earliestNs)
		earliestNs = w.slotNs
	}
}

// same reports whether a and b are the same state seen from nowNs: what is over by
// then is full in both.
func same(a, b []int64, nowNs int64) bool {
	return slices.EqualFunc(a, b, func(a, b int64) bool { return max(a-nowNs, 0) == max(b-nowNs, 0) })
}

func backlogs(instants []int64, nowNs int64) []int64 {
	var b []int64
	for _, instant := range instants {
		b = append(b, max(instant-nowNs, 0))
	}
	return b
}
