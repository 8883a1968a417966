// Package gcra is the generic cell rate algorithm (ITU-T I.371; also RFC 2697's
// single-rate meter without colours): exact, integer, and free of clock, I/O and
// allocation.
//
// A bucket holds up to capacity units and is refilled with one unit every
// emission interval. Instead of a fill level and a timestamp, its whole state is
// one number: the theoretical arrival time (TAT), the instant at which the bucket
// will be full again. A TAT in the past is a full bucket; a TAT that lies the
// burst tolerance (capacity x emission interval) in the future is an empty one.
//
// For readers who think in leaky buckets: TAT - now is the backlog in the bucket,
// in nanoseconds of draining; the burst tolerance is the bucket's size.
//
// All instants are nanoseconds since the Unix epoch, all durations nanoseconds.
package gcra

import (
	"errors"
	"math"
	"math/bits"
	"time"
)

// Never is the RetryAfter of a request that can never succeed, and of one that needs
// no retry because it was allowed.
const Never = int64(-1)

// The errors of New. Their texts name no argument, so that a caller can put its own
// name in front.
var (
	ErrCapacity  = errors.New("must be at least 1")
	ErrCount     = errors.New("must be at least 1")
	ErrPeriod    = errors.New("must be positive")
	ErrRate      = errors.New("more than 10^9 units per second")
	ErrTolerance = errors.New("a full bucket would take more than 292 years to refill")
)

// Limit is a rate with a burst capacity: at most capacity units at once, and one
// more every emission interval. The zero Limit is not usable; call New.
type Limit struct {
	capacity  int64
	emission  int64
	tolerance int64 // capacity x emission
}

// New returns the limit of count units per period, with bursts up to capacity
// units. The period is n times unit: the two are apart because their product may
// exceed 63 bits while the limit does not.
//
// The emission interval, period / count, is rounded up to a whole nanosecond, so
// rounding never admits more than the rate asks for; it costs at most 1 ns per unit.
//
// Ranges: capacity, count, n and unit are at least 1; at most one unit per
// nanosecond (ErrRate); capacity x emission interval is below 2^63 ns, 292 years
// (ErrTolerance).
func New(capacity, count, n int64, unit time.Duration) (Limit, error) {
	switch {
	case capacity < 1:
		return Limit{}, ErrCapacity
	case count < 1:
		return Limit{}, ErrCount
	case n < 1 || unit < 1:
		return Limit{}, ErrPeriod
	}
	hi, lo := bits.Mul64(uint64(n), uint64(unit))
	if hi == 0 && lo < uint64(count) {
		return Limit{}, ErrRate
	}
	if hi >= uint64(count) {
		return Limit{}, ErrTolerance // one unit alone takes 2^64 ns or more
	}
	var emission, rest uint64
	if hi == 0 {
		emission, rest = lo/uint64(count), lo%uint64(count) // the quicker instruction
	} else {
		emission, rest = bits.Div64(hi, lo, uint64(count))
	}
	if emission > math.MaxInt64 {
		return Limit{}, ErrTolerance
	}
	if rest > 0 {
		emission++
	}
	hi, lo = bits.Mul64(uint64(capacity), emission)
	if hi != 0 || lo > math.MaxInt64 {
		return Limit{}, ErrTolerance
	}
	return Limit{capacity: capacity, emission: int64(emission), tolerance: int64(lo)}, nil
}

// Capacity is the number of units a full bucket holds.
func (l Limit) Capacity() int64 { return l.capacity }

// Decision is the answer to one request.
type Decision struct {
	// Allowed says whether the request was let through. It gets all of its units or none.
	Allowed bool
	// Changed says that TAT differs in effect from the one passed in and has to be
	// stored. A request that was not allowed, or that asked for nothing, changes
	// nothing, except for the case described at TakeTo.
	Changed bool
	// TAT is the bucket's state after the request, when Changed.
	TAT uint64
	// Remaining is the number of whole units left, 0 to capacity.
	Remaining int64
	// RetryAfter is the time in ns until the same request would be allowed if
	// nobody else asked, or Never.
	RetryAfter int64
	// ResetAfter is the time in ns until the bucket is full, 0 to the burst tolerance.
	ResetAfter int64
}

// TakeTo asks for quantity units at instant nowNs of a bucket whose state is the lone number tat
// (0 for one that was never used). It writes the decision to d: copying a struct that has just been
// written makes the processor stall. A quantity of 0 takes nothing and reports the current state.
// quantity and nowNs must not be negative.
//
// A tat later than nowNs + the burst tolerance does not come from this limit on
// this clock: the rate was raised since, or the clock was set back. It is read as
// an empty bucket. A request that is denied for this reason reports the corrected TAT
// as Changed, so that the bucket refills from now on instead of looking empty until
// that instant.
func (l *Limit) TakeTo(d *Decision, tat uint64, nowNs int64, quantity int64) {
	backlog, corrected := backlogUpTo(l.tolerance, tat, nowNs)
	d.Allowed, d.RetryAfter = true, Never
	increment, ok := l.increment(quantity)
	switch {
	case !ok:
		d.Allowed = false
	case increment > l.tolerance-backlog:
		d.Allowed = false
		d.RetryAfter = increment - (l.tolerance - backlog)
	default:
		backlog += increment
	}
	d.Changed = quantity > 0 && (d.Allowed || corrected)
	d.TAT = uint64(nowNs) + uint64(backlog)
	d.Remaining = l.units(l.tolerance - backlog)
	d.ResetAfter = backlog
}

// NextAfter is the time in ns until the bucket has a unit more than a decision left it, 0 when it is full.
func (l *Limit) NextAfter(d *Decision) int64 {
	if d.ResetAfter == 0 {
		return 0
	}
	return d.ResetAfter - (l.tolerance - (d.Remaining+1)*l.emission)
}

// backlogUpTo is the time in ns until a bucket with this tat is full, seen from nowNs: 0 (full) to
// ceiling. corrected says that tat was out of reach and was read as ceiling.
func backlogUpTo(ceiling int64, tat uint64, nowNs int64) (backlog int64, corrected bool) {
	if tat <= uint64(nowNs) {
		return 0, false
	}
	ahead := tat - uint64(nowNs)
	if ahead > uint64(ceiling) {
		return ceiling, true
	}
	return int64(ahead), false
}

// units returns how many whole units have come back in ns, which is not negative. Mostly there
// are none where a request is denied, and a division takes longer than all else of a decision.
func (l *Limit) units(ns int64) int64 {
	if ns < l.emission {
		return 0
	}
	return ns / l.emission
}

// increment is the time in ns that quantity units add to the backlog; ok is false
// when that is more than the bucket holds.
func (l *Limit) increment(quantity int64) (increment int64, ok bool) {
	if quantity > l.capacity {
		return 0, false
	}
	return quantity * l.emission, true
}
