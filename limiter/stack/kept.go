package stack

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// kept is a limit that the value holds and the call does not name: the state as it is encoded, which is
// copied as it is, and the instant from which it is full.
type kept struct {
	kind   Kind
	id     uint64
	state  []byte
	named  bool   // the call named it all the same, so it is not forgotten: its count of denials
	fullAt uint64 // 0 if it is full, and of a calendar's window, see endIsUnknown
}

// unknownPeriod is the id of a rate whose value was the number alone, which has no period.
const unknownPeriod = math.MaxInt64

// addKeptState adds a limit to those that are kept. It returns false if the state is none of its kind.
func (s *Stack) addKeptState(kind Kind, id uint64, state []byte) bool {
	limit := anyOf(kind, id)
	s.spare.set(&limit, &s.calendar)
	if s.spare.Decode(state) != nil {
		return false
	}
	k := kept{kind: kind, id: id, state: state}
	switch {
	case len(state) == 0 || k.endIsUnknown():
	case kind == Fixed:
		k.fullAt = endOfFixed(id, state)
	default:
		k.fullAt = s.spare.ExpireAt()
	}
	s.addKept(k)
	return true
}

// endOfFixed is when the window of a state ends that a period numbers, at most 2^63 - 1.
func endOfFixed(periodNs uint64, state []byte) uint64 {
	index, _ := binary.Uvarint(state)
	hi, end := bits.Mul64(index+1, periodNs)
	if hi > 0 {
		return math.MaxInt64
	}
	return min(end, math.MaxInt64)
}

// addKeptTAT adds a rate that was the whole value.
//
//go:noinline
func (s *Stack) addKeptTAT(tat uint64) {
	if tat == 0 {
		return // no state among others
	}
	binary.LittleEndian.PutUint64(s.plainTAT[:], tat)
	s.addKept(kept{kind: Rate, id: unknownPeriod, state: s.plainTAT[:], fullAt: tat})
}

func (s *Stack) addKept(k kept) {
	if cap(s.kept) == 0 { // nothing was kept before
		s.kept = s.keptRoom[:0]
	}
	s.kept = append(s.kept, k)
}

// adoptTAT gives the rate of unknown period to the first rate without a state.
func (s *Stack) adoptTAT(index int) {
	l := s.freeRate()
	if l == nil {
		return
	}
	l.stored = true
	_ = l.Decode(s.kept[index].state) // addKeptState has read it
	s.kept = slices.Delete(s.kept, index, index+1)
}

// endIsUnknown reports whether this is a window of the calendar. The value holds only a hash of its period, so only a
// call that names the limit can tell what the window's number means.
func (k kept) endIsUnknown() bool { return k.id > math.MaxInt64 && len(k.state) > 0 }

func (k *kept) isFull(nowNs int64) bool { return !k.endIsUnknown() && k.fullAt <= uint64(nowNs) }

func (k *kept) isLike(other *kept) bool { return k.kind == other.kind && k.id == other.id }

// goesBefore reports whether k is the one to forget if there is no room for both: the one that is full
// sooner. A window of the calendar goes after all others, and before those with a lower number, which are
// longer.
func (k *kept) goesBefore(other *kept) bool {
	switch {
	case k.endIsUnknown() != other.endIsUnknown():
		return other.endIsUnknown()
	case k.endIsUnknown():
		index, _ := binary.Uvarint(k.state)
		otherIndex, _ := binary.Uvarint(other.state)
		return index > otherIndex
	}
	return k.fullAt < other.fullAt
}

func (k *kept) append(dst []byte) []byte {
	dst = append(dst, byte(k.kind))
	dst = binary.LittleEndian.AppendUint64(dst, k.id)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(k.state)))
	return append(dst, k.state...)
}

// KeepsCalendar reports whether a window of the calendar is kept, whose end the value does not tell. The
// key then must not expire earlier than it does, whatever ExpireAt says.
func (s *Stack) KeepsCalendar() bool {
	return len(s.kept) > 0 && slices.ContainsFunc(s.kept, kept.endIsUnknown)
}

// keptUntil is ExpireAt of the limits that are kept.
//
//go:noinline
func (s *Stack) keptUntil(nowNs int64) (latest uint64) {
	s.forget(nowNs)
	for i := range s.kept {
		latest = max(latest, s.kept[i].fullAt)
	}
	return latest
}

// forget drops what does not have to be kept of the limits that the call does not name: those that are
// full at nowNs, and those for which there is no room.
func (s *Stack) forget(nowNs int64) {
	full := kept{}
	for i := len(s.kept) - 1; i >= 0; i-- {
		k := &s.kept[i]
		switch {
		case !k.isFull(nowNs):
		case s.countsOn(i):
			k.state, k.fullAt = nil, 0
		default:
			if k.kind == Rate {
				full = kept{kind: Rate, id: k.id}
			}
			s.kept = slices.Delete(s.kept, i, i+1)
		}
	}
	if full.kind == Rate && s.loneRate() != nil {
		s.kept = append(s.kept, full)
	}
	for s.storedLimits() > MaxLimits {
		s.forgetOne()
	}
}

// countsOn reports whether a limit of the same kind and id is kept behind that with the index. Which is
// which, only their order tells.
func (s *Stack) countsOn(index int) bool {
	return slices.ContainsFunc(s.kept[index+1:], func(k kept) bool { return k.isLike(&s.kept[index]) })
}

// forgetOne drops the limit that is full soonest; of several, the one that was not named for longest. There is more
// than what the call named.
func (s *Stack) forgetOne() {
	soonest := len(s.kept) - 1
	for i := soonest - 1; i >= 0; i-- {
		if !s.kept[i].named && !s.countsOn(i) && s.kept[i].goesBefore(&s.kept[soonest]) {
			soonest = i
		}
	}
	s.kept = slices.Delete(s.kept, soonest, soonest+1)
}

// stores reports whether the value is to hold a limit that the call names.
func (s *Stack) stores(l *layer) bool { return (!s.addsNone || l.stored) && l.kind < stateless }

// addCharged adds to the value those limits of the call that were charged, and no others. In front of one it also adds
// those that a later call would take its state for: limits of its kind and id, and all rates, because the state of a
// lone rate has no period.
func (s *Stack) addCharged() {
	s.addsNone = true
	for i, l := range s.in {
		if l.stored || l.charged <= 0 {
			continue
		}
		for _, before := range s.in[:i+1] {
			if before.kind == l.kind && (l.kind == Rate || before.id == l.id) {
				before.stored = true
			}
		}
	}
}

// storedLimits is the number of limits that the value is to hold.
func (s *Stack) storedLimits() int {
	n := len(s.kept)
	if !s.addsNone {
		return n + len(s.in) - s.zeros
	}
	for _, l := range s.in {
		if s.stores(l) {
			n++
		}
	}
	return n
}

// loneRate is the only limit that the value is to hold, if that is a rate; otherwise nil. Its value has a
// form of its own, which has neither a period nor lifts. That is why forget leaves a rate that is full beside a
// rate: the number alone would belong to whichever of the two a call names first.
func (s *Stack) loneRate() *layer {
	first := &s.layers[0]
	switch {
	case len(s.kept) > 0:
	case len(s.in) == 1 && first.kind == Rate:
		return first
	case len(s.in) > 1 && (s.addsNone || s.zeros > 0):
		return s.loneRateOfStored()
	}
	return nil
}

// loneRateOfStored is loneRate where some limits of the call are not stored. Beside a rate that is left alone it adds
// one of the call that stands in front of it and is not stored: a later call would take the number for its state. That
// may be a rate of 0, whose count is raised later. A refund and a settlement add no such rate: they make no value
// longer.
//
//go:noinline
func (s *Stack) loneRateOfStored() (rate *layer) {
	var before *layer
	for _, l := range s.in {
		switch {
		case !s.stores(l):
			if l.kind == Rate && rate == nil {
				before = l
			}
		case rate != nil || l.kind != Rate:
			return nil
		default:
			rate = l
		}
	}
	switch {
	case rate == nil:
	case before != nil:
		before.stored = true
		return nil
	case !s.addsNone && s.keepZeroBefore(rate):
		return nil
	}
	return rate
}

// keepZeroBefore adds a rate of 0 that the call names in front of another rate, if there is one of another period.
func (s *Stack) keepZeroBefore(rate *layer) (added bool) {
	for _, l := range s.in {
		switch {
		case l == rate:
			return false
		case l.kind == Rate|stateless && l.id != rate.id:
			s.addKept(kept{kind: Rate, id: l.id})
			return true
		}
	}
	return false
}
