package gcra

import "encoding/binary"

// maxLifts is how many lifts a state remembers one by one.
const maxLifts = 4

// A reservation that another limit makes wait is charged as of its slot. A bucket that
// would be full by then is lifted: the time until the slot passes without a unit coming
// back. A refund of all that was charged from the slot on has to undo that too, so the
// state remembers it. Seen from the TAT backwards there are the units charged since the last
// lift, the lift, the units charged before it, and so on:
//
//	now ... [idleNs][chargedNs] [idleNs][chargedNs] TAT
//
// Together they reach back no further than the epoch.
type lift struct {
	idleNs    uint64 // from when the bucket would have been full to the slot, at least 1
	chargedNs uint64 // what was charged since, at least 1
}

func (f lift) sum() uint64 { return f.idleNs + f.chargedNs }

// noteCharge remembers that the TAT is going to move on by idleNs and then by chargedNs.
func (b *Bucket) noteCharge(nowNs, idleNs, chargedNs int64) {
	b.dropPastLifts(nowNs)
	switch {
	case idleNs > 0 && chargedNs > 0:
		if b.lifted == maxLifts {
			// The two oldest become one, which is undone when both are refunded.
			b.lifts[1].idleNs += b.lifts[0].idleNs
			b.lifts[1].chargedNs += b.lifts[0].chargedNs
			b.dropOldest()
		}
		b.lifts[b.lifted] = lift{uint64(idleNs), uint64(chargedNs)}
		b.lifted++
	case b.lifted > 0:
		b.lifts[b.lifted-1].chargedNs += uint64(idleNs) + uint64(chargedNs)
	}
}

func (s *State) dropOldest() {
	s.lifted--
	copy(s.lifts[:], s.lifts[1:s.lifted+1])
	s.lifts[s.lifted] = lift{}
}

func (s *State) dropLast() {
	s.lifted--
	s.lifts[s.lifted] = lift{}
}

// DropLifts drops the lifts of reservations, so that a refund takes off only its units.
func (s *State) DropLifts() {
	if s.lifted > 0 {
		s.lifts, s.lifted = [maxLifts]lift{}, 0
	}
}

// dropPastLifts forgets the lifts that no longer count at nowNs: all when the TAT is out of
// reach, otherwise those whose slot has come.
func (b *Bucket) dropPastLifts(nowNs int64) {
	if b.lifted == 0 {
		return
	}
	if _, corrected := backlogUpTo(b.ceiling(), b.TAT, nowNs); corrected {
		b.DropLifts()
		return
	}
	fromNs := b.TAT // where the oldest lift begins
	for _, f := range b.lifts[:b.lifted] {
		fromNs -= f.sum()
	}
	for b.lifted > 0 && fromNs+b.lifts[0].idleNs <= uint64(nowNs) {
		fromNs += b.lifts[0].sum()
		b.dropOldest()
	}
}

// idle is how much of a backlog no unit was charged for. dropPastLifts comes first.
func (s *State) idle(backlog int64) (ns int64) {
	left := uint64(backlog)
	for i := int(s.lifted) - 1; i >= 0; i-- {
		left -= s.lifts[i].chargedNs
		idleNs := min(s.lifts[i].idleNs, left) // that of the oldest may have begun before now
		left -= idleNs
		ns += int64(idleNs)
	}
	return ns
}

// refundFrom takes refundNs off a backlog, what was charged last first, and returns what is left of it: a lift goes
// with the last that was charged since. dropPastLifts comes first, and refundNs is no more than
// was charged for.
func (s *State) refundFrom(backlog, refundNs int64) int64 {
	for s.lifted > 0 {
		last := &s.lifts[s.lifted-1]
		if uint64(refundNs) < last.chargedNs {
			last.chargedNs -= uint64(refundNs)
			break
		}
		refundNs -= int64(last.chargedNs)
		backlog -= int64(last.chargedNs)
		backlog -= int64(min(last.idleNs, uint64(backlog)))
		s.dropLast()
	}
	return backlog - refundNs
}

// appendLifts appends two numbers for each lift, the oldest first.
func (s *State) appendLifts(dst []byte) []byte {
	for _, f := range s.lifts[:s.lifted] {
		dst = binary.LittleEndian.AppendUint64(dst, f.idleNs)
		dst = binary.LittleEndian.AppendUint64(dst, f.chargedNs)
	}
	return dst
}

// decodeLifts reads what appendLifts wrote for a state with this TAT. For numbers that no
// charge leaves it returns false, and s has no lifts.
func (s *State) decodeLifts(encoded []byte, tat uint64) bool {
	for ; len(encoded) > 0; encoded = encoded[liftLen:] {
		f := lift{binary.LittleEndian.Uint64(encoded), binary.LittleEndian.Uint64(encoded[8:])}
		if f.idleNs == 0 || f.chargedNs == 0 || f.idleNs > tat || f.chargedNs > tat-f.idleNs {
			s.DropLifts()
			return false
		}
		tat -= f.sum()
		s.lifts[s.lifted] = f
		s.lifted++
	}
	return true
}
