package stack

import (
	"slices"
	"time"

	"redis-throttle/limiter/fixed"
)

// How many calls on a key were denied, for bans that begin after some. Such a count is a FIXED ... FIRST that no call
// asks for units. The stack handles it as a limit that a call does not name: the decision does not see it, and it is
// copied and forgotten like those.

// Denials is how many calls have to be denied in a window that begins with the first of them. Counts with other periods
// are others.
type Denials struct{ Count, PeriodNs int64 }

// CountDenial counts a call that was denied. If it is the last of d, the count starts anew: it is gone. changed reports
// whether the state has to be stored. It is so unless the call is the last, and the first. The stack has at most
// MaxLimits - 1 limits.
func (s *Stack) CountDenial(d Denials, nowNs int64) (last, changed bool) {
	var counted fixed.First
	counted.Limit, _ = fixed.New(d.Count, d.PeriodNs, time.Nanosecond)
	at := s.keptDenials(uint64(d.PeriodNs))
	if at >= 0 {
		_ = counted.Decode(s.kept[at].state) // keep has read it
	}
	counted.Force(nowNs, 1)
	last = counted.Available(nowNs) == 0
	if at >= 0 {
		s.kept = slices.Delete(s.kept, at, at+1)
	}
	if last {
		return true, at >= 0
	}
	s.addKept(kept{})
	copy(s.kept[1:], s.kept)
	s.kept[0] = kept{kind: Denied, id: uint64(d.PeriodNs), state: counted.Append(s.denials[:0]), named: true, fullAt: counted.ExpireAt()}
	return false, true
}

// keptDenials is the index of the count with a period, -1 if there is none.
func (s *Stack) keptDenials(id uint64) int {
	for i := range s.kept {
		if s.kept[i].kind == Denied && s.kept[i].id == id {
			return i
		}
	}
	return -1
}
