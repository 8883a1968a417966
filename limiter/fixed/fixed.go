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
// denies a request calls BringTo and stores the state if that returns true. Of a First, the
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

	"redis-throttle/limiter/calendar"
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
// nothing else. A First also knows when its window ends.
func OfID(id uint64) Limit { return Limit{count: 1, id: id} }

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
