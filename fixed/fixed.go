// Package fixed is the fixed window limiter: at most count units in each window of a
// calendar (package calendar), for example in each day by the clocks of Berlin; or in each
// window that begins with the first unit taken in it (First). Exact integers, free of clock,
// I/O and allocation, except for a zone at its first use.
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
// another now: Charge and Refund rewrite such a state before anything else, and code that
// denies a request calls Settle and stores the state if that returns true. Of a First, the
// current window is then one that begins now.
//
// # Encoding
//
// A state in which nothing is used is no bytes at all. Any other is two numbers, each an
// unsigned LEB128 varint (seven bits a byte, least significant first, the high bit set in
// all bytes but the last):
//
//	the window's index, 0 to 2^63 - 1. Of windows that are multiples of a period since the
//	Unix epoch it is start / period, and the window starts before 2^63 ns
//	the units used in it, 1 to 2^63 - 1
//
// The state of a First has the window's start, 8 bytes, little-endian, below 2^63, in place of
// the index.
//
// There is one encoding of every state, and Decode refuses all others: varints have no
// needless last byte, and nothing follows.
//
// Neither the count nor the windows are part of it. Raising or lowering a limit's count keeps
// the state; limits with other windows have another ID.
//
// All instants are nanoseconds since the Unix epoch, all durations nanoseconds. Instants
// must not be negative.
package fixed

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"redis-throttle/calendar"
)

// Never is the RetryAfter of a quantity that no amount of waiting makes possible.
const Never = int64(-1)

// What New refuses. The texts speak of no argument in particular, so that a caller can
// put the name of its own in front.
var (
	ErrCount    = errors.New("must be at least 1")
	ErrPeriod   = calendar.ErrPeriod
	ErrTooLong  = calendar.ErrTooLong
	ErrEncoding = errors.New("not the state of this window")
)

// MaxEncodedLen is the largest number of bytes Append appends: 63 bits take 9 bytes.
const MaxEncodedLen = 9 + 9

// Limit is at most count units in each of a calendar's windows. The zero Limit is not usable;
// call New or NewIn.
type Limit struct {
	count   int64
	windows calendar.Spec
	id      uint64 // of windows
}

// New returns the limit of count units in each multiple of n times unit since the Unix epoch.
//
// Ranges: count (ErrCount), n and unit (ErrPeriod) are at least 1; the period is below
// 2^63 ns, 292 years (ErrTooLong).
func New(count, n int64, unit time.Duration) (Limit, error) {
	if count < 1 {
		return Limit{}, ErrCount
	}
	windows, err := calendar.Every(n, unit, 0)
	if err != nil {
		return Limit{}, err
	}
	return NewIn(windows, count)
}

// NewIn returns the limit of count units in each of windows; ErrCount if count is below 1.
func NewIn(windows calendar.Spec, count int64) (Limit, error) {
	if count < 1 {
		return Limit{}, ErrCount
	}
	return Limit{count: count, windows: windows, id: windows.ID()}, nil
}

// OfID returns a limit that reads and writes states of the windows with an ID, and is good for
// nothing else.
func OfID(id uint64) Limit { return Limit{count: 1, id: id} }

// Count is the number of units that one window holds.
func (l Limit) Count() int64 { return l.count }

// ID tells the limits apart whose states are not each other's. Of windows that are multiples of
// a period it is the period in ns, below 2^63; of all others it is above.
func (l Limit) ID() uint64 { return l.id }

// Period is what New was given, in ns; 0 for any other windows.
func (l Limit) Period() int64 {
	if l.id > math.MaxInt64 {
		return 0
	}
	return int64(l.id)
}

// State is what a limiter remembers of the units it granted: a window, and how many
// were used in it. The zero State remembers none.
type State struct {
	index int64 // of the window; 0 when nothing is used
	used  int64
}

// Available is the number of units that could be charged at nowNs, 0 to count.
func (l Limit) Available(s *State, nowNs int64) int64 {
	return l.available(s, l.windows.At(nowNs).Index)
}

// RetryAfter is the time in ns until quantity units are available if nobody else asks:
// 0 when they are now, Never when quantity is more than count.
func (l Limit) RetryAfter(s *State, nowNs, quantity int64) int64 {
	current := l.windows.At(nowNs)
	return l.retryAfter(s, &current, nowNs, quantity)
}

// NextAfter is the time in ns until more is available than now, 0 when the limit is
// untouched.
func (l Limit) NextAfter(s *State, nowNs int64) int64 { return l.ResetAfter(s, nowNs) }

// ResetAfter is the time in ns until all of count is available, 0 when it is.
func (l Limit) ResetAfter(s *State, nowNs int64) int64 {
	current := l.windows.At(nowNs)
	return l.resetAfter(s, &current, nowNs)
}

// ExpireAt is the instant from which the state equals no state at all, 0 when it already
// does. It is 2^63 - 1 when it lies beyond that.
func (l Limit) ExpireAt(s *State) int64 {
	if s.used == 0 {
		return 0
	}
	window, ok := l.windows.Window(s.index)
	if !ok {
		return math.MaxInt64
	}
	return max(window.End, 1) // before the epoch: long ago
}

// Charge takes quantity units at nowNs, or as many as are available if those are fewer,
// and returns how many it took. When it returns 0 the state is as it was.
func (l Limit) Charge(s *State, nowNs, quantity int64) int64 {
	return l.charge(s, l.windows.At(nowNs).Index, quantity)
}

// Force takes quantity units at nowNs, also those that are not available, and returns how many
// it took, which are fewer only where more than 2^63 - 1 would be used.
func (l Limit) Force(s *State, nowNs, quantity int64) int64 {
	return s.force(l.windows.At(nowNs).Index, quantity)
}

// Refund gives quantity units back, or as many as are used in the window of nowNs if
// those are fewer, and returns how many it gave back. When it returns 0 the state is the
// same in effect.
//
// A refund of what was just charged restores the state byte for byte, as far as the
// state concerned nowNs: what was used in an earlier window stays away.
func (l Limit) Refund(s *State, nowNs, quantity int64) int64 {
	return s.refund(l.windows.At(nowNs).Index, quantity)
}

// Settle brings the state to nowNs: it forgets an earlier window, and rewrites a
// later one, of a clock that was set back since, as the current. It returns true when
// it did the latter: then the state has to be stored, also when the request that found it
// is denied, or it would block for as long as the clock was set back.
func (l Limit) Settle(s *State, nowNs int64) (corrected bool) {
	return s.settle(l.windows.At(nowNs).Index)
}

// What follows is told the current window, or its index, by the caller that looked it up. A Limit is
// large enough for copies to show.

func (l *Limit) available(s *State, current int64) int64 {
	return max(l.count-s.usedIn(current), 0)
}

func (l *Limit) retryAfter(s *State, current *calendar.Window, nowNs, quantity int64) int64 {
	switch {
	case quantity > l.count:
		return Never
	case quantity <= l.available(s, current.Index):
		return 0
	default:
		return l.untilEnd(current, nowNs)
	}
}

func (l *Limit) resetAfter(s *State, current *calendar.Window, nowNs int64) int64 {
	if s.usedIn(current.Index) == 0 {
		return 0
	}
	return l.untilEnd(current, nowNs)
}

func (l *Limit) charge(s *State, current, quantity int64) int64 {
	quantity = min(quantity, l.available(s, current))
	if quantity <= 0 {
		return 0
	}
	s.settle(current)
	s.index = current
	s.used += quantity
	return quantity
}

func (s *State) force(current, quantity int64) int64 {
	s.settle(current)
	quantity = min(quantity, math.MaxInt64-s.used)
	if quantity <= 0 {
		return 0
	}
	s.index = current
	s.used += quantity
	return quantity
}

func (s *State) refund(current, quantity int64) int64 {
	if quantity <= 0 {
		return 0
	}
	s.settle(current)
	quantity = min(quantity, s.used)
	s.used -= quantity
	if s.used == 0 {
		s.index = 0
	}
	return quantity
}

func (s *State) settle(current int64) (corrected bool) {
	corrected = s.used > 0 && s.index > current
	switch {
	case corrected:
		s.index = current
	case s.index < current:
		*s = State{}
	}
	return corrected
}

// usedIn is the number of units that count in the current window.
func (s *State) usedIn(current int64) int64 {
	if s.index < current {
		return 0
	}
	return s.used
}

// untilEnd is the time until the current window ends, at least 1.
func (l *Limit) untilEnd(current *calendar.Window, nowNs int64) int64 {
	switch {
	case current.End < math.MaxInt64:
		return current.End - nowNs
	case l.id <= math.MaxInt64:
		return int64(l.id) - (nowNs - current.Start) // beyond 2^63, too
	default:
		return max(current.End-nowNs, 1)
	}
}

// Append appends the state's encoding to dst, up to MaxEncodedLen bytes and none for a
// state in which nothing is used. It allocates only when dst has no room for them.
func (s *State) Append(dst []byte) []byte {
	if s.used == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(s.index))
	return binary.AppendUvarint(dst, uint64(s.used))
}

// Decode reads what Append wrote for a limit with this ID, whatever its count.
// Anything else is refused with ErrEncoding, and nothing is then used in s.
func (l Limit) Decode(encoded []byte, s *State) error { return l.decode(encoded, s) }

func (l *Limit) decode(encoded []byte, s *State) error {
	*s = State{}
	if len(encoded) == 0 {
		return nil
	}
	index, n := uvarint(encoded)
	if n == 0 || index > math.MaxInt64 || (l.id <= math.MaxInt64 && index > math.MaxInt64/l.id) {
		return ErrEncoding
	}
	used, ok := decodeUsed(encoded[n:])
	if !ok {
		return ErrEncoding
	}
	*s = State{index: int64(index), used: used}
	return nil
}

// decodeUsed reads a number of units, after which nothing follows.
func decodeUsed(encoded []byte) (units int64, ok bool) {
	used, n := uvarint(encoded)
	if n == 0 || n != len(encoded) || used < 1 || used > math.MaxInt64 {
		return 0, false
	}
	return int64(used), true
}

// uvarint reads a varint of the shortest form; n is its length, 0 when there is none.
func uvarint(encoded []byte) (v uint64, n int) {
	v, n = binary.Uvarint(encoded)
	if n <= 0 || (n > 1 && encoded[n-1] == 0) {
		return 0, 0
	}
	return v, n
}
