// Package fixed is the fixed window limiter: at most count units in each calendar window,
// where windows are the multiples of the period since the Unix epoch. A period of 24 hours
// is a day in UTC, from midnight to midnight. Exact integers, free of clock, I/O and
// allocation.
//
// A unit granted at any instant of a window counts until that window ends. So two windows'
// worth of units can be granted back to back around a boundary; package window never
// does that.
//
// # A clock that was set back
//
// A state of a later window than now's was not written on this clock. It is read as
// the current window's, with as many units used: nobody waits longer than to the end of
// the current window. Only storing makes that last, since the next reading happens at
// another now: Charge and Refund rewrite such a state before anything else, and whoever
// denies a request calls Settle and stores the state if that returns true.
//
// # Encoding
//
// A state in which nothing is used is no bytes at all. Any other is two numbers, each an
// unsigned LEB128 varint (seven bits a byte, least significant first, the high bit set in
// all bytes but the last):
//
//	the window's index: its start / period, where window 0 begins at the Unix epoch
//	the units used in it, 1 to 2^63 - 1
//
// There is one encoding of every state, and Decode refuses all others: varints have no
// needless last byte, the window starts before 2^63 ns, and nothing follows.
//
// The count is not part of it: raising or lowering a limit's count keeps the state.
//
// All instants are nanoseconds since the Unix epoch, all durations nanoseconds. Instants
// must not be negative.
package fixed

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"time"
)

// Never is the RetryAfter of a quantity that no amount of waiting makes possible.
const Never = int64(-1)

// What New refuses. The texts speak of no argument in particular, so that a caller can
// put the name of its own in front.
var (
	ErrCount    = errors.New("must be at least 1")
	ErrPeriod   = errors.New("must be positive")
	ErrTooLong  = errors.New("longer than 292 years")
	ErrEncoding = errors.New("not the state of this window")
)

// MaxEncodedLen is the largest number of bytes Append appends: 63 bits take 9 bytes.
const MaxEncodedLen = 9 + 9

// Limit is at most count units in each window of the period's length. The zero Limit is
// not usable; call New.
type Limit struct {
	count  int64
	period int64
}

// New returns the limit of count units in each window of n times unit.
//
// Ranges: count (ErrCount), n and unit (ErrPeriod) are at least 1; the period is below
// 2^63 ns, 292 years (ErrTooLong).
func New(count, n int64, unit time.Duration) (Limit, error) {
	switch {
	case count < 1:
		return Limit{}, ErrCount
	case n < 1 || unit < 1:
		return Limit{}, ErrPeriod
	}
	hi, period := bits.Mul64(uint64(n), uint64(unit))
	if hi != 0 || period > math.MaxInt64 {
		return Limit{}, ErrTooLong
	}
	return Limit{count: count, period: int64(period)}, nil
}

// Count is the number of units that one window holds.
func (l Limit) Count() int64 { return l.count }

// Period is the length of a window, in nanoseconds.
func (l Limit) Period() int64 { return l.period }

// State is what a limiter remembers of the units it granted: a window, and how many
// were used in it. The zero State remembers none.
type State struct {
	index int64 // start of the window / period; 0 when nothing is used
	used  int64
}

// Available is the number of units that could be charged at nowNs, 0 to count.
func (l Limit) Available(s *State, nowNs int64) int64 {
	return max(l.count-l.used(s, nowNs), 0)
}

// RetryAfter is the time in ns until quantity units are available if nobody else asks:
// 0 when they are now, Never when quantity is more than count.
func (l Limit) RetryAfter(s *State, nowNs, quantity int64) int64 {
	switch {
	case quantity > l.count:
		return Never
	case quantity <= l.Available(s, nowNs):
		return 0
	default:
		return l.untilNextWindow(nowNs)
	}
}

// NextAfter is the time in ns until more is available than now, 0 when the limit is
// untouched.
func (l Limit) NextAfter(s *State, nowNs int64) int64 { return l.ResetAfter(s, nowNs) }

// ResetAfter is the time in ns until all of count is available, 0 when it is.
func (l Limit) ResetAfter(s *State, nowNs int64) int64 {
	if l.used(s, nowNs) == 0 {
		return 0
	}
	return l.untilNextWindow(nowNs)
}

// ExpireAt is the instant from which the state equals no state at all, 0 when it already
// does. It is 2^63 - 1 when it lies beyond that.
func (l Limit) ExpireAt(s *State) int64 {
	if s.used == 0 {
		return 0
	}
	start := s.index * l.period
	if start > math.MaxInt64-l.period {
		return math.MaxInt64
	}
	return start + l.period
}

// Charge takes quantity units at nowNs, or as many as are available if those are fewer,
// and returns how many it took. When it returns 0 the state is as it was.
func (l Limit) Charge(s *State, nowNs, quantity int64) int64 {
	quantity = min(quantity, l.Available(s, nowNs))
	if quantity <= 0 {
		return 0
	}
	l.Settle(s, nowNs)
	s.index = nowNs / l.period
	s.used += quantity
	return quantity
}

// Force takes quantity units at nowNs, also those that are not available, and returns how many
// it took, which are fewer only where more than 2^63 - 1 would be used.
func (l Limit) Force(s *State, nowNs, quantity int64) int64 {
	l.Settle(s, nowNs)
	quantity = min(quantity, math.MaxInt64-s.used)
	if quantity <= 0 {
		return 0
	}
	s.index = nowNs / l.period
	s.used += quantity
	return quantity
}

// Refund gives quantity units back, or as many as are used in the window of nowNs if
// those are fewer, and returns how many it gave back. When it returns 0 the state is the
// same in effect.
//
// A refund of what was just charged restores the state byte for byte, as far as the
// state concerned nowNs: what was used in an earlier window stays away.
func (l Limit) Refund(s *State, nowNs, quantity int64) int64 {
	if quantity <= 0 {
		return 0
	}
	l.Settle(s, nowNs)
	quantity = min(quantity, s.used)
	s.used -= quantity
	if s.used == 0 {
		s.index = 0
	}
	return quantity
}

// Settle brings the state to nowNs: it forgets an earlier window, and rewrites a
// later one, of a clock that was set back since, as the current. It returns true when
// it did the latter: then the state has to be stored, also when the request that found it
// is denied, or it would block for as long as the clock was set back.
func (l Limit) Settle(s *State, nowNs int64) (corrected bool) {
	current := nowNs / l.period
	corrected = s.used > 0 && s.index > current
	switch {
	case corrected:
		s.index = current
	case s.index < current:
		*s = State{}
	}
	return corrected
}

// used is the number of units that count in the window of nowNs.
func (l Limit) used(s *State, nowNs int64) int64 {
	if s.index < nowNs/l.period {
		return 0
	}
	return s.used
}

func (l Limit) untilNextWindow(nowNs int64) int64 { return l.period - nowNs%l.period }

// Append appends the state's encoding to dst, up to MaxEncodedLen bytes and none for a
// state in which nothing is used. It allocates only when dst has no room for them.
func (s *State) Append(dst []byte) []byte {
	if s.used == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(s.index))
	return binary.AppendUvarint(dst, uint64(s.used))
}

// Decode reads what Append wrote for a limit of this period, whatever its count.
// Anything else is refused with ErrEncoding, and nothing is then used in s.
func (l Limit) Decode(encoded []byte, s *State) error {
	*s = State{}
	if len(encoded) == 0 {
		return nil
	}
	index, n := uvarint(encoded)
	if n == 0 || index > math.MaxInt64/uint64(l.period) {
		return ErrEncoding
	}
	used, m := uvarint(encoded[n:])
	if m == 0 || used < 1 || used > math.MaxInt64 || n+m != len(encoded) {
		return ErrEncoding
	}
	*s = State{index: int64(index), used: int64(used)}
	return nil
}

// uvarint reads a varint of the shortest form; n is its length, 0 when there is none.
func uvarint(encoded []byte) (v uint64, n int) {
	v, n = binary.Uvarint(encoded)
	if n <= 0 || (n > 1 && encoded[n-1] == 0) {
		return 0, 0
	}
	return v, n
}
