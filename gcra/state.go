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

// Queue is how far beyond the burst tolerance the TAT was when it was last written, in ns.
func (s *State) Queue() int64 { return s.queue }

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

// FullIn is the time in ns from nowNs until the TAT, 0 when the TAT is in the past.
func (s *State) FullIn(nowNs int64) int64 { return max(int64(s.TAT-uint64(nowNs)), 0) }
