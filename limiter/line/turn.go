package line

import (
	"container/heap"
	"math"
)

// queue is which lines the host is to look at: those that were woken, in that order, and the others by when their time
// comes.
type queue struct {
	soon     list[line, *line]
	sleepers sleepers
	inHand   *line // the one that the host asks about, nil for none
	room     int   // what is left of the turn
}

func (l *line) linksOf() *links[line] { return &l.links }

// lookCost, and deciding a caller or giving slots back in comparison, are parts of a turn.
const (
	lookCost   = 1
	decideCost = 4
)

// TurnOf returns the room of a turn that decides at most decisions callers.
func TurnOf(decisions int) (room int) { return decisions * decideCost }

// Begin begins a turn of the host's event loop. It has room for so much.
func (q *Lines) Begin(room int) { q.room = room }

// NextOfAll returns what to do next for any line. The host asks until it is told to sleep, which then stands for all
// lines. A line with more to do than the turn has room for goes on behind all others that have something to do.
func (q *Lines) NextOfAll(now Clock) Step {
	for q.room > 0 {
		l := q.inHand
		if l == nil {
			if l = q.pick(now.MonoNs); l == nil {
				return Step{Kind: Sleep, Ns: q.untilNext(now.MonoNs)}
			}
			q.room -= lookCost
		}
		q.inHand = nil // if a panic ends Next, the host goes on with the others
		step := q.Next(l.id, now, math.MaxInt)
		switch step.Kind {
		case Sleep:
			continue
		case Close:
			return step
		case Decide, TimeOut, GiveBack:
			q.room -= decideCost
		default:
			q.room -= lookCost
		}
		q.inHand = l
		return step
	}
	if l := q.inHand; l != nil {
		q.inHand, l.awake = nil, false
		q.lookSoon(l)
	}
	return Step{Kind: Sleep, Ns: q.untilNext(now.MonoNs)}
}

// pick takes the line to look at next, or returns nil.
func (q *Lines) pick(nowNs int64) *line {
	if l := q.soon.first; l != nil {
		q.putInHand(l)
		return l
	}
	if len(q.sleepers) > 0 && q.sleepers[0].wakesNs <= nowNs {
		l := q.sleepers[0]
		q.putInHand(l)
		return l
	}
	return nil
}

// putInHand has the host ask about a line from now on.
func (q *Lines) putInHand(l *line) {
	q.forget(l)
	l.awake = true
}

// untilNext is for how long no line has to be looked at.
func (q *Lines) untilNext(nowNs int64) int64 {
	switch {
	case q.soon.first != nil:
		return 0
	case len(q.sleepers) > 0:
		return max(q.sleepers[0].wakesNs-nowNs, 0)
	}
	return math.MaxInt64
}

// lookSoon puts a line behind those that are to be looked at.
func (q *Lines) lookSoon(l *line) {
	if l.soon {
		return
	}
	q.forget(l)
	l.soon, l.wakesNs = true, math.MinInt64
	q.soon.append(l)
}

// sleepUntil has the host look at a line at an instant of the monotonic clock.
func (q *Lines) sleepUntil(l *line, wakesNs int64) {
	if l.soon {
		return
	}
	l.wakesNs = wakesNs
	if l.sleeper == 0 {
		heap.Push(&q.sleepers, l)
	} else {
		heap.Fix(&q.sleepers, l.sleeper-1)
	}
}

// forget takes a line out of the queue, if it is in it.
func (q *Lines) forget(l *line) {
	if l.soon {
		l.soon = false
		q.soon.remove(l)
	}
	if l.sleeper > 0 {
		heap.Remove(&q.sleepers, l.sleeper-1)
	}
}

// sleepers is a heap of the lines that the host looks at later.
type sleepers []*line

func (s sleepers) Len() int           { return len(s) }
func (s sleepers) Less(i, j int) bool { return s[i].wakesNs < s[j].wakesNs }

func (s sleepers) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].sleeper, s[j].sleeper = i+1, j+1
}

func (s *sleepers) Push(l any) {
	*s = append(*s, l.(*line))
	l.(*line).sleeper = len(*s)
}

func (s *sleepers) Pop() any {
	last := len(*s) - 1
	l := (*s)[last]
	(*s)[last], l.sleeper = nil, 0
	*s = (*s)[:last]
	return l
}
