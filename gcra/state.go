package gcra

import (
	"encoding/binary"
	"errors"
	"math"
)

// State is a bucket that also takes reservations: requests that are granted now for a later
// instant. They move the TAT beyond the burst tolerance, by the time that the last of them
// has to wait. So do units that were charged by force. The zero State is a full bucket.
//
// Its encoding is no bytes at all for a full bucket, else 8 bytes for each number,
// little-endian: the TAT; the queue, only when it is not 0 or more follows; and two for
// each lift.
type State struct {
	TAT uint64
	// queue is how far beyond the burst tolerance the TAT was when it was last
	// written, in ns: a TAT up to that far is no error to be corrected.
	queue int64
	// What the last reservations lifted the bucket by, the oldest first. Unused ones are zero.
	lifts  [maxLifts]lift
	lifted uint8
}

const (
	tatLen = 8
	// QueuedLen is the number of bytes Append appends for a state with a queue and
	// without lifts.
	QueuedLen = tatLen + 8
	liftLen   = 16
	// MaxEncodedLen is the largest number of bytes Append appends.
	MaxEncodedLen = QueuedLen + maxLifts*liftLen
)

// ErrEncoding is the error of Decode for bytes that Append did not write.
var ErrEncoding = errors.New("not the state of a bucket")

// Plain reports whether the TAT alone is the state, except for what a refund needs.
func (s *State) Plain() bool { return s.queue == 0 }

// Available is the number of units that could be charged at nowNs, 0 to capacity.
func (l Limit) Available(s *State, nowNs int64) int64 {
	return l.units(max(l.tolerance-l.backlog(s, nowNs), 0))
}

// RetryAfter is the time in ns until quantity units are available if nobody else
// asks: 0 when they are now, Never when quantity is more than the capacity.
func (l Limit) RetryAfter(s *State, nowNs, quantity int64) int64 {
	increment, ok := l.Increment(quantity)
	switch {
	case !ok:
		return Never
	case quantity == 0:
		return 0
	}
	return max(l.backlog(s, nowNs)-(l.tolerance-increment), 0)
}

// NextAfter is the time in ns until more units are available than now, 0 when the bucket
// is full.
func (l Limit) NextAfter(s *State, nowNs int64) int64 {
	backlog := l.backlog(s, nowNs)
	if backlog == 0 {
		return 0
	}
	available := l.units(max(l.tolerance-backlog, 0))
	return backlog - (l.tolerance - (available+1)*l.emission)
}

// ResetAfter is the time in ns until the bucket is full.
func (l Limit) ResetAfter(s *State, nowNs int64) int64 { return l.backlog(s, nowNs) }

// ExpireAt is the instant from which the state equals no state at all.
func (l Limit) ExpireAt(s *State) uint64 { return s.TAT }

// Charge takes quantity units that are available waitNs from now. waitNs is RetryAfter (0 for units
// that are available now), or longer if another limit makes the request wait. The
// bucket counts the units as of then, so they are not granted a second time before.
//
// quantity must not exceed the capacity, waitNs must not be below RetryAfter, and
// waitNs + the burst tolerance must be below 2^63.
func (l Limit) Charge(s *State, nowNs, quantity, waitNs int64) {
	backlog := l.backlog(s, nowNs)
	idle, increment := max(waitNs-backlog, 0), quantity*l.emission
	if idle > 0 || s.lifted > 0 {
		l.noteCharge(s, nowNs, idle, increment)
	}
	l.setBacklog(s, nowNs, backlog+idle+increment)
}

// Force takes quantity units, even if the bucket does not have them. Missing units are a debt, which
// is paid before a unit is available again. It returns how many units it took: fewer than quantity only
// if the bucket would be full 2^63 ns from now or later.
func (l Limit) Force(s *State, nowNs, quantity int64) int64 {
	backlog := l.backlog(s, nowNs)
	increment := math.MaxInt64 - backlog
	if quantity <= increment/l.emission {
		increment = quantity * l.emission
	} else {
		quantity = increment / l.emission
		if increment%l.emission > 0 {
			quantity++
		}
	}
	if s.lifted > 0 && increment > 0 {
		l.noteCharge(s, nowNs, 0, increment)
	}
	l.setBacklog(s, nowNs, backlog+increment)
	return quantity
}

// ChargeDenied takes up to quantity units for a request that was denied, as many as the bucket
// has, including a fraction of a unit. Retries keep the bucket empty, but cause no debt. It
// reports whether it took anything.
func (l Limit) ChargeDenied(s *State, nowNs, quantity int64) bool {
	return l.chargeDenied(s, nowNs, quantity, 0) > 0
}

// chargeDenied leaves spare units behind. It returns how many units it took; a fraction counts as one.
func (l Limit) chargeDenied(s *State, nowNs, quantity, spare int64) int64 {
	if spare >= l.capacity {
		return 0
	}
	backlog := l.backlog(s, nowNs)
	increment, ok := l.Increment(quantity)
	if left := max(l.tolerance-backlog-spare*l.emission, 0); !ok || increment > left {
		increment = left
		if quantity = left / l.emission; left%l.emission > 0 {
			quantity++
		}
	}
	if increment == 0 {
		return 0
	}
	if s.lifted > 0 {
		l.noteCharge(s, nowNs, 0, increment)
	}
	l.setBacklog(s, nowNs, backlog+increment)
	return quantity
}

// Refund returns up to quantity units, as many as the bucket lacks, and reports how
// many it lacked: a fraction counts as one. Units charged last are returned first. With the
// last unit of a reservation, its lift is undone.
func (l Limit) Refund(s *State, nowNs, quantity int64) int64 {
	backlog := l.backlog(s, nowNs)
	l.settleLifts(s, nowNs)
	charged := backlog - s.idle(backlog)
	if lacks := charged / l.emission; quantity > lacks {
		quantity = lacks
		if charged%l.emission > 0 {
			quantity++
		}
		backlog = 0
	} else {
		backlog = s.takeOff(backlog, quantity*l.emission)
	}
	l.setBacklog(s, nowNs, backlog)
	return quantity
}

// Settle brings the state to nowNs: it drops a TAT in the past, and corrects
// one that is out of reach for this limit, as Take describes. If it corrected the TAT it
// returns true: the state then has to be stored, even if the request is denied.
func (l Limit) Settle(s *State, nowNs int64) (corrected bool) {
	backlog, corrected := backlogUpTo(l.ceiling(s), s.TAT, nowNs)
	if corrected || backlog == 0 {
		l.SetBacklog(s, nowNs, backlog)
	}
	return corrected
}

// Append appends the state's encoding to dst.
func (s *State) Append(dst []byte) []byte {
	if s.TAT == 0 {
		return dst
	}
	dst = binary.LittleEndian.AppendUint64(dst, s.TAT)
	if s.queue == 0 && s.lifted == 0 {
		return dst
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.queue))
	return s.appendLifts(dst)
}

// Decode reads what Append wrote. Anything else is refused with ErrEncoding, and s
// is then a full bucket.
func (s *State) Decode(encoded []byte) error {
	s.Clear()
	if len(encoded) == 0 {
		return nil
	}
	if len(encoded) != tatLen && (len(encoded)%liftLen != 0 || len(encoded) > MaxEncodedLen) {
		return ErrEncoding
	}
	tat, queue := binary.LittleEndian.Uint64(encoded), uint64(0)
	if tat == 0 {
		return ErrEncoding
	}
	if len(encoded) >= QueuedLen {
		queue = binary.LittleEndian.Uint64(encoded[tatLen:])
		if queue > math.MaxInt64 || queue == 0 && len(encoded) == QueuedLen || !s.decodeLifts(encoded[QueuedLen:], tat) {
			return ErrEncoding
		}
	}
	s.TAT, s.queue = tat, int64(queue)
	return nil
}

// Clear makes the bucket a full one.
func (s *State) Clear() {
	s.TAT, s.queue = 0, 0
	s.DropLifts()
}

func (l Limit) backlog(s *State, nowNs int64) int64 {
	backlog, _ := backlogUpTo(l.ceiling(s), s.TAT, nowNs)
	return backlog
}

// ceiling is the longest backlog that is no error, kept to 63 bits.
func (l Limit) ceiling(s *State) int64 {
	if s.queue > math.MaxInt64-l.tolerance {
		return math.MaxInt64
	}
	return l.tolerance + s.queue
}

// SetBacklog makes the bucket one that is full in backlog ns from nowNs.
func (l Limit) SetBacklog(s *State, nowNs, backlog int64) {
	s.DropLifts()
	l.setBacklog(s, nowNs, backlog)
}

func (l Limit) setBacklog(s *State, nowNs, backlog int64) {
	if backlog == 0 {
		s.Clear()
		return
	}
	s.TAT = uint64(nowNs) + uint64(backlog)
	s.queue = max(backlog-l.tolerance, 0)
}

// Restore makes the state equal to was, as if that had been written at nowNs.
func (l Limit) Restore(s *State, was State, nowNs int64) {
	*s = was
	l.setBacklog(s, nowNs, was.FullIn(nowNs))
}

// FullIn is the time in ns from nowNs until the TAT, 0 when the TAT is in the past.
func (s *State) FullIn(nowNs int64) int64 { return max(int64(s.TAT-uint64(nowNs)), 0) }
