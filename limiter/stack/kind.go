package stack

import (
	"errors"
	"math"
	"time"

	"redis-throttle/gcra"
	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/fixed"
	"redis-throttle/limiter/window"
)

// Kind is the algorithm of a limit. The numbers are part of the encoding.
type Kind uint8

const (
	Rate   Kind = 1
	Window Kind = 2
	Fixed  Kind = 3
	First  Kind = 4 // FIXED ... FIRST
	Denied Kind = 5 // how many calls were denied, see CountDenial. No limit of a call is of this kind
)

// limiter is what a kind is: a limit together with what is kept of it. Each has a package of its
// own. A kind that is new joins the types and functions of this file and gets a constructor;
// nothing else in this package asks what kind a limit is, except for what only rates have: a state
// that is a lone number, and reservations.
//
// Instants are ns since the Unix epoch, durations ns; neither they nor quantities are negative.
type limiter interface {
	// BringTo brings the state to nowNs. It returns true when that has to be stored even if
	// the request is denied.
	BringTo(nowNs int64) (corrected bool)
	// Available is the number of units that could be charged.
	Available(nowNs int64) int64
	// RetryAfter is the time until quantity units are available, 0 when they are, or Never.
	RetryAfter(nowNs, quantity int64) int64
	// Standing is the number of units of an untouched limit, of those available, and the times
	// until all are and until more are.
	Standing(nowNs int64) (capacity, available, resetNs, nextNs int64)
	// LongestWait is the longest time that a request may wait for its units.
	LongestWait() int64
	// ExpireAt is the instant from which the state equals none, 0 when it does.
	ExpireAt() uint64
	// Charge takes units that come waitNs from now.
	Charge(nowNs, quantity, waitNs int64)
	// Force takes units whether they are available or not, and returns how many: fewer only
	// where the state has no room for all.
	Force(nowNs, quantity int64) int64
	// ChargeDenied takes units of a request that was turned away, as far as it can without
	// taking the last spare ones. It returns how many; a fraction counts as one.
	ChargeDenied(nowNs, quantity, spare int64) int64
	// Refund gives units back, as many as there are to give, and returns how many.
	Refund(nowNs, quantity int64) int64
	// Append appends the state, no bytes of an untouched limit, and Decode reads it.
	Append(dst []byte) []byte
	Decode(encoded []byte) error
	Clear()
}

// Limit is one limit of a stack; fields that do not belong to its kind are zero. Limits of a kind
// share a state if they have the same id: the period in ns, below 2^63; or for windows of the
// calendar a number above that (fixed.Limit.ID).
type Limit struct {
	kind     Kind
	hasTerms bool
	id       uint64
	Terms
	rate   gcra.Limit
	window window.Limit
	fixed  fixed.Limit // of First, too
}

// NewRate returns the limit of count units per n x unit, with bursts up to capacity. Of 0 units, the capacity is not
// looked at.
func NewRate(count, n int64, unit time.Duration, capacity int64) (Limit, error) {
	periodNs, err := period(count, n, unit)
	switch {
	case err != nil:
		return Limit{}, err
	case count == 0:
		return zeroOf(Rate, uint64(periodNs)), nil
	case capacity < 1:
		return Limit{}, ErrCapacity
	}
	rate, err := gcra.New(capacity, count, n, unit)
	switch {
	case errors.Is(err, gcra.ErrRate):
		return Limit{}, ErrRate
	case err != nil:
		return Limit{}, ErrTolerance
	}
	return RateOf(rate, periodNs), nil
}

// RateOf returns rate as a limit of a stack. Among other limits, its state is found by the period.
func RateOf(rate gcra.Limit, periodNs int64) Limit {
	return Limit{kind: Rate, id: uint64(periodNs), rate: rate}
}

// PlainRate is a rate without terms, or nil.
func (l *Limit) PlainRate() *gcra.Limit {
	if l.kind != Rate || l.hasTerms {
		return nil
	}
	return &l.rate
}

// NewWindow returns the limit of count units in any interval of n x unit.
func NewWindow(count, n int64, unit time.Duration) (Limit, error) {
	periodNs, err := period(count, n, unit)
	switch {
	case err != nil:
		return Limit{}, err
	case count == 0:
		return zeroOf(Window, uint64(periodNs)), nil
	}
	w, err := window.New(count, n, unit)
	return Limit{kind: Window, id: uint64(periodNs), window: w}, err
}

// NewFixedIn returns the limit of count units in each of windows.
func NewFixedIn(windows calendar.Spec, count int64) (Limit, error) {
	if count == 0 {
		return zeroOf(Fixed, windows.ID()), nil
	}
	f, err := fixed.NewIn(windows, count)
	if err != nil {
		return Limit{}, ErrCount
	}
	return Limit{kind: Fixed, id: f.ID(), fixed: f}, nil
}

// NewFirst returns the limit of count units in each window of n x unit that begins with the first
// unit taken in it.
func NewFirst(count, n int64, unit time.Duration) (Limit, error) {
	periodNs, err := period(count, n, unit)
	switch {
	case err != nil:
		return Limit{}, err
	case count == 0:
		return zeroOf(First, uint64(periodNs)), nil
	}
	f, err := fixed.New(count, n, unit)
	return Limit{kind: First, id: uint64(periodNs), fixed: f}, err
}

// layer is one limit of a stack and its state: memory for each kind, and the limiter, which is the
// memory in use. So no limiter is ever allocated.
type layer struct {
	limiter
	kind     Kind
	hasTerms bool // terms are not to be looked at otherwise
	stored   bool // the value holds a state of it, or is to
	id       uint64
	rate     gcra.Bucket
	fixed    fixed.Window
	first    fixed.First
	terms    Terms
	charged  int64 // the units that the call in hand charged, of a shadow or by force
	zero     zero
	window   window.Window
}

// set makes the layer that of a limit that was never used. cache is for windows of the calendar.
func (l *layer) set(limit *Limit, cache *calendar.Cache) {
	l.kind, l.id, l.stored = limit.kind, limit.id, false
	if l.hasTerms = limit.hasTerms; l.hasTerms {
		l.terms = limit.Terms
	}
	switch limit.kind {
	case Rate:
		l.rate.Limit, l.limiter = limit.rate, &l.rate
	case Window:
		l.window.Limit, l.limiter = limit.window, &l.window
	case First, Denied:
		l.first.Limit, l.limiter = limit.fixed, &l.first
	case Fixed:
		l.fixed.Set(&limit.fixed, cache)
		l.limiter = &l.fixed
	default:
		l.rate.Clear() // see Rates
		l.limiter = &l.zero
	}
	l.Clear()
}

// limit is the limit that the layer was set to.
func (l *layer) limit() Limit {
	limit := Limit{kind: l.kind, id: l.id}
	if l.hasTerms {
		limit = limit.With(l.terms)
	}
	switch l.kind {
	case Rate:
		limit.rate = l.rate.Limit
	case Window:
		limit.window = l.window.Limit
	case First:
		limit.fixed = l.first.Limit
	case Fixed:
		limit.fixed = l.fixed.Limit()
	}
	return limit
}

// hasID reports whether there are limits of a kind with an id.
func (k Kind) hasID(id uint64) bool {
	switch k {
	case Rate, Window, First, Denied:
		return id > 0 && id <= math.MaxInt64
	case Fixed:
		return id > 0
	default:
		return false
	}
}

// anyOf is some limit of a kind and an id that it has, for a state that the call names no limit for.
func anyOf(kind Kind, id uint64) (limit Limit) {
	limit = Limit{kind: kind, id: id}
	switch kind {
	case Window:
		limit.window, _ = window.New(1, int64(id), time.Nanosecond)
	case Fixed, First, Denied:
		limit.fixed = fixed.OfID(id)
	default: // the state does not depend on the limit
	}
	return limit
}
