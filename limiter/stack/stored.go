package stack

import (
	"math"
	"time"

	"redis-throttle/limiter/fixed"
	"redis-throttle/limiter/window"
)

// What a value tells of its limits to somebody who does not know them.

// Stored is what a value holds of one limit, as of an instant. Instants are ns since the Unix epoch.
type Stored struct {
	Kind     Kind
	PeriodNs int64 // Unknown of a rate that was a plain TAT, and of windows of the calendar
	// Used is how many units count, or calls that were denied; Unknown of a rate that is not full. The units of a
	// window of the calendar are those of the latest window that the state knows.
	Used    int64
	Entries int // of a WINDOW
	// NextAt is when the first of the used units come back, and ResetAt when all have; 0 if none is used. The value
	// does not tell NextAt of a rate, and neither of a window of the calendar: KnowsNext, KnowsReset.
	NextAt, ResetAt       uint64
	KnowsNext, KnowsReset bool
	QueueNs               int64 // of a rate: how far beyond the burst tolerance its TAT was when it was written
}

// Unknown stands for what a value does not tell.
const Unknown = -1

// Kept is how many limits the value holds that the stack does not have.
func (s *Stack) Kept() int { return len(s.kept) }

// Stored is what the value holds of limit i of Kept, as of nowNs.
func (s *Stack) Stored(i int, nowNs int64) Stored {
	k := &s.kept[i]
	st := Stored{Kind: k.kind, PeriodNs: int64(k.id), KnowsNext: true, KnowsReset: true}
	switch {
	case k.kind == Rate:
		s.storedRate(&st, k, uint64(nowNs))
	case k.id > math.MaxInt64:
		st.PeriodNs = Unknown
		if len(k.state) > 0 {
			_, st.Used = fixed.Encoded(k.state)
			st.KnowsNext, st.KnowsReset = false, false
		}
	default:
		s.storedCount(&st, k, nowNs)
	}
	return st
}

func (s *Stack) storedRate(st *Stored, k *kept, now uint64) {
	if k.id == unknownPeriod {
		st.PeriodNs = Unknown
	}
	s.spare.rate.Clear()
	_ = s.spare.rate.Decode(k.state) // addKeptState has read it
	if tat := s.spare.rate.TAT; tat > now {
		st.Used, st.ResetAt, st.KnowsNext = Unknown, tat, false
		st.QueueNs = s.spare.rate.Queue()
	}
}

// storedCount reads the state of a limit that counts units, as one of so many units that none can be beyond them.
func (s *Stack) storedCount(st *Stored, k *kept, nowNs int64) {
	limit := Limit{kind: k.kind, id: k.id}
	if k.kind == Window {
		limit.window, _ = window.New(math.MaxInt64, int64(k.id), time.Nanosecond)
	} else {
		limit.fixed, _ = fixed.New(math.MaxInt64, int64(k.id), time.Nanosecond)
	}
	l := &s.spare
	l.set(&limit, &s.calendar)
	_ = l.Decode(k.state) // addKeptState has read it
	l.BringTo(nowNs)
	count, available, resetNs, nextNs := l.Standing(nowNs)
	st.Used = count - available
	if st.Used > 0 {
		st.NextAt, st.ResetAt = instantIn(nowNs, nextNs), instantIn(nowNs, resetNs)
	}
	if k.kind == Window {
		st.Entries = l.window.Entries()
	}
}

// instantIn is the instant that ns after another one, at most the last that there is.
func instantIn(nowNs, ns int64) uint64 { return min(uint64(nowNs)+uint64(ns), math.MaxInt64) }
