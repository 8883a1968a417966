// Package calendar divides time into windows: multiples of a fixed length, or days, weeks,
// months and years as the clocks of a time zone show them. It computes with exact integers, and
// has no clock and no I/O. Only the first use of a zone allocates (LookupZone).
//
// # Windows
//
// Windows of a fixed length are its multiples since the Unix epoch. Those of the calendar
// begin at midnight, on the first day of
//
//	n days     counted from 1970-01-01
//	n weeks    counted from Monday, 1969-12-29
//	n months   counted from January 1970
//	n years    counted from 1970
//
// An offset makes each of them begin that much later: two weeks from a Wednesday are two weeks
// and an offset of two days. In a time zone the offset is one on the clock: days with an offset
// of six hours begin when the clocks show 6:00, also on the day on which they are changed.
//
// # Clocks that are changed
//
// A window begins at the first instant at which the zone's clocks show its beginning or a
// later time. So where clocks are changed, days last 23 or 25 hours, and
//
//   - when clocks skip midnight, the day begins when they do;
//   - when clocks show midnight twice, the day begins at the first;
//   - when a zone skips a date (Samoa, 2011-12-30), there is no window for it, and the
//     windows before and after it meet.
//
// # Ranges
//
// All instants are nanoseconds since the Unix epoch, all durations nanoseconds. An instant that is
// passed in must not be negative; the start of the window that contains the epoch may be. Instants
// that 64 bits cannot hold (outside of the years 1677 to 2262) become the first or last one that
// they can.
package calendar

import (
	"errors"
	"math"
	"math/bits"
	"time"
)

// Unit is what windows of the calendar consist of.
type Unit uint8

const (
	Day Unit = iota + 1
	Week
	Month
	Year
)

// What the constructors refuse. The texts speak of no argument in particular, so that a
// caller can put the name of its own in front.
var (
	ErrPeriod  = errors.New("must be positive")
	ErrTooLong = errors.New("longer than 292 years")
	ErrOffset  = errors.New("must be at least 0 and shorter than the period")
)

// Spec describes how time is divided into windows. Specs that are made of the same arguments
// are equal. They hold no pointer. The zero Spec is not usable; call Every or Calendar.
type Spec struct {
	n        int64 // units; of a fixed length, nanoseconds
	offsetNs int64
	zone     Zone
	unit     Unit // 0: a fixed length
}

// Window is the time from Start to just before End. An End of 2^63 - 1 may be a later one.
//
// Index numbers the windows of one Spec, 0 or above, and tells them apart in what is
// stored. It stays when newer zone data moves the window.
type Window struct {
	Index      int64
	Start, End int64
}

// Every returns the windows of n times unit each. They take no zone: parts of a day would not
// fit into days of 23 hours. So hours, minutes and seconds cannot go with one.
//
// Ranges: n and unit are at least 1 (ErrPeriod), the period is below 2^63 ns, 292 years
// (ErrTooLong), offsetNs from 0 to less than the period (ErrOffset).
func Every(n int64, unit time.Duration, offsetNs int64) (Spec, error) {
	if n < 1 || unit < 1 {
		return Spec{}, ErrPeriod
	}
	hi, period := bits.Mul64(uint64(n), uint64(unit))
	if hi != 0 || period > math.MaxInt64 {
		return Spec{}, ErrTooLong
	}
	if offsetNs < 0 || offsetNs >= int64(period) {
		return Spec{}, ErrOffset
	}
	return Spec{n: int64(period), offsetNs: offsetNs}, nil
}

// Calendar returns the windows of n units each by the clocks of zone. Days in UTC are the
// same as Every(n, 24*time.Hour).
//
// Ranges: unit is one of the constants; n is at least 1 (ErrPeriod), and the period at most 292 years (ErrTooLong);
// offsetNs from 0 to less than the shortest period, which has months of 28 days and years of
// 365 (ErrOffset).
func Calendar(n int64, unit Unit, zone Zone, offsetNs int64) (Spec, error) {
	if unit == Day && zone == (Zone{}) {
		return Every(n, 24*time.Hour, offsetNs)
	}
	shortest := [...]time.Duration{Day: day, Week: 7 * day, Month: 28 * day, Year: 365 * day}[unit]
	longest := [...]int64{Day: math.MaxInt64 / int64(day), Week: math.MaxInt64 / int64(7*day), Month: 292 * 12, Year: 292}[unit]
	switch {
	case n < 1:
		return Spec{}, ErrPeriod
	case n > longest:
		return Spec{}, ErrTooLong
	case offsetNs < 0 || offsetNs >= n*int64(shortest):
		return Spec{}, ErrOffset
	}
	return Spec{n: n, offsetNs: offsetNs, zone: zone, unit: unit}, nil
}

// At is the window that nowNs lies in.
func (s Spec) At(nowNs int64) Window {
	if s.unit == 0 {
		return s.fixedAt(nowNs)
	}
	sec, ns := nowNs/second, nowNs%second
	offset, _ := s.zone.interval(sec)
	wall := sec + offset - s.offsetNs/second
	if ns < s.offsetNs%second {
		wall--
	}
	i := s.indexOf(floorDiv(wall, daySec))
	w := Window{Index: i, Start: s.begin(i), End: s.begin(i + 1)}
	// Clocks that have been set back show an earlier window again. It is over.
	for w.End <= nowNs && w.End < math.MaxInt64 {
		w = Window{Index: w.Index + 1, Start: w.End, End: s.begin(w.Index + 2)}
	}
	return w
}

// Window returns the window with an index that At gave, possibly in an earlier version. ok is
// false if there is none: the index is negative, or the window begins at 2^63 - 1 or later
// (one of a fixed length: after 2^63 - 1). For a date that is skipped, Start and End are the
// same.
func (s Spec) Window(index int64) (w Window, ok bool) {
	if s.unit == 0 {
		return s.fixedWindow(index)
	}
	if index < 0 || index > maxIndex {
		return Window{}, false
	}
	w = Window{Index: index, Start: s.begin(index), End: s.begin(index + 1)}
	return w, w.Start < math.MaxInt64
}

// ID is a number that tells different windows apart. It stays the same in all versions, so
// that it can be stored. For windows of a fixed length without an offset it is the length in
// nanoseconds; for all others it is a hash, 2^63 or more.
func (s Spec) ID() uint64 {
	if s.unit == 0 && s.offsetNs == 0 {
		return uint64(s.n)
	}
	hash := s.zone.hash()
	for _, word := range [...]uint64{uint64(s.unit), uint64(s.n), uint64(s.offsetNs)} {
		for range 8 {
			hash = fnv1a(hash, byte(word))
			word >>= 8
		}
	}
	return hash | 1<<63
}

const (
	second = int64(time.Second)
	day    = 24 * time.Hour
	daySec = 24 * 60 * 60

	monday = -3 // 1969-12-29, days since 1970-01-01

	// The window of the calendar that is counted from has this index. The epoch can lie in one
	// before it: clocks in the west show 1969, or the offset is longer than what has passed. By
	// both it cannot be more than two.
	firstIndex = 2
	// More days than this have not begun before 2^63 ns.
	maxIndex = math.MaxInt64/int64(day) + 2 + firstIndex
)

// indexOf is the index of the window that a date lies in, days since 1970-01-01.
func (s Spec) indexOf(date int64) int64 {
	units := date
	switch s.unit {
	case Week:
		units = floorDiv(date-monday, 7)
	case Month, Year:
		year, month, _ := time.Unix(date*daySec, 0).UTC().Date()
		units = int64(year) - 1970
		if s.unit == Month {
			units = 12*units + int64(month-time.January)
		}
	}
	return floorDiv(units, s.n) + firstIndex
}

// begin is the instant at which a window begins.
func (s Spec) begin(index int64) int64 {
	units := (index - firstIndex) * s.n
	var wall int64 // seconds that the clocks show
	switch s.unit {
	case Day:
		wall = units * daySec
	case Week:
		wall = (monday + 7*units) * daySec
	case Month:
		wall = time.Date(1970, time.January+time.Month(units), 1, 0, 0, 0, 0, time.UTC).Unix()
	case Year:
		wall = time.Date(1970+int(units), time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	return s.zone.firstShowing(wall+s.offsetNs/second, s.offsetNs%second)
}

func (s Spec) fixedAt(nowNs int64) Window {
	if nowNs < s.offsetNs {
		return Window{Index: 0, Start: s.offsetNs - s.n, End: s.offsetNs}
	}
	i := (nowNs - s.offsetNs) / s.n
	start := s.offsetNs + i*s.n
	return Window{Index: i + s.before(), Start: start, End: saturatingAdd(start, s.n)}
}

func (s Spec) fixedWindow(index int64) (w Window, ok bool) {
	i := index - s.before()
	if index < 0 || i > (math.MaxInt64-s.offsetNs)/s.n {
		return Window{}, false
	}
	start := s.offsetNs + i*s.n
	return Window{Index: index, Start: start, End: saturatingAdd(start, s.n)}, true
}

// before is the number of windows of a fixed length before the one that begins at the offset.
func (s Spec) before() int64 {
	if s.offsetNs > 0 {
		return 1
	}
	return 0
}

func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// floorDiv rounds down, also below 0.
func floorDiv(a, b int64) int64 {
	if a < 0 {
		return (a+1)/b - 1
	}
	return a / b
}
