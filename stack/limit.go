// Package stack decides up to eight limits at one instant, all or nothing: rates
// (package gcra), sliding windows (window) and calendar windows (fixed), side by
// side in one key. Exact integers, free of clock, I/O and allocation.
package stack

import (
	"errors"
	"math"
	"math/bits"
	"time"

	"redis-throttle/fixed"
	"redis-throttle/gcra"
	"redis-throttle/window"
)

// MaxLimits is how many limits one stack holds.
const MaxLimits = 8

// Kind is the algorithm of a limit. The numbers are part of the encoding.
type Kind uint8

const (
	Rate   Kind = 1
	Window Kind = 2
	Fixed  Kind = 3
)

// What the constructors refuse, whatever the kind.
var (
	ErrCapacity  = errors.New("capacity must be at least 1")
	ErrCount     = errors.New("count must be at least 1")
	ErrPeriod    = errors.New("period must be positive and at most 292 years")
	ErrRate      = errors.New("more than 10^9 units per second")
	ErrTolerance = errors.New("a full bucket would take more than 292 years to refill")
)

// Limit is one limit of a stack.
type Limit struct {
	kind     Kind
	periodNs int64
	rate     gcra.Limit
	window   window.Limit
	fixed    fixed.Limit
}

// NewRate returns the limit of count units per n x unit, with bursts up to capacity.
func NewRate(count, n int64, unit time.Duration, capacity int64) (Limit, error) {
	periodNs, err := period(count, n, unit)
	if err != nil {
		return Limit{}, err
	}
	if capacity < 1 {
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

// RateOf returns a limit that is rate. The period is all that its state is known by beside
// others.
func RateOf(rate gcra.Limit, periodNs int64) Limit {
	return Limit{kind: Rate, periodNs: periodNs, rate: rate}
}

// NewWindow returns the limit of count units in any interval of n x unit.
func NewWindow(count, n int64, unit time.Duration) (Limit, error) {
	periodNs, err := period(count, n, unit)
	if err != nil {
		return Limit{}, err
	}
	w, err := window.New(count, n, unit)
	return Limit{kind: Window, periodNs: periodNs, window: w}, err
}

// NewFixed returns the limit of count units in each multiple of n x unit since the
// Unix epoch.
func NewFixed(count, n int64, unit time.Duration) (Limit, error) {
	periodNs, err := period(count, n, unit)
	if err != nil {
		return Limit{}, err
	}
	f, err := fixed.New(count, n, unit)
	return Limit{kind: Fixed, periodNs: periodNs, fixed: f}, err
}

// period checks what every kind asks for: the period tells limits apart, so it has
// to fit its place in the encoding.
func period(count, n int64, unit time.Duration) (ns int64, err error) {
	if count < 1 {
		return 0, ErrCount
	}
	if n < 1 || unit < 1 {
		return 0, ErrPeriod
	}
	hi, lo := bits.Mul64(uint64(n), uint64(unit))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, ErrPeriod
	}
	return int64(lo), nil
}

// state is what is kept of one limit; the field of the limit's kind is in use.
type state struct {
	rate   gcra.State
	window window.State
	fixed  fixed.State
}

func (l *Limit) capacity() int64 {
	switch l.kind {
	case Rate:
		return l.rate.Capacity()
	case Window:
		return l.window.Count()
	default:
		return l.fixed.Count()
	}
}

func (l *Limit) settle(s *state, nowNs int64) (corrected bool) {
	switch l.kind {
	case Rate:
		return l.rate.Settle(&s.rate, nowNs)
	case Window:
		return l.window.Settle(&s.window, nowNs)
	default:
		return l.fixed.Settle(&s.fixed, nowNs)
	}
}

func (l *Limit) available(s *state, nowNs int64) int64 {
	switch l.kind {
	case Rate:
		return l.rate.Available(&s.rate, nowNs)
	case Window:
		return l.window.Available(&s.window, nowNs)
	default:
		return l.fixed.Available(&s.fixed, nowNs)
	}
}

func (l *Limit) retryAfter(s *state, nowNs, quantity int64) int64 {
	switch l.kind {
	case Rate:
		return l.rate.RetryAfter(&s.rate, nowNs, quantity)
	case Window:
		return l.window.RetryAfter(&s.window, nowNs, quantity)
	default:
		return l.fixed.RetryAfter(&s.fixed, nowNs, quantity)
	}
}

func (l *Limit) nextAfter(s *state, nowNs int64) int64 {
	switch l.kind {
	case Rate:
		return l.rate.NextAfter(&s.rate, nowNs)
	case Window:
		return l.window.NextAfter(&s.window, nowNs)
	default:
		return l.fixed.NextAfter(&s.fixed, nowNs)
	}
}

func (l *Limit) resetAfter(s *state, nowNs int64) int64 {
	switch l.kind {
	case Rate:
		return l.rate.ResetAfter(&s.rate, nowNs)
	case Window:
		return l.window.ResetAfter(&s.window, nowNs)
	default:
		return l.fixed.ResetAfter(&s.fixed, nowNs)
	}
}

func (l *Limit) expireAt(s *state) uint64 {
	switch l.kind {
	case Rate:
		return l.rate.ExpireAt(&s.rate)
	case Window:
		return uint64(l.window.ExpireAt(&s.window))
	default:
		return uint64(l.fixed.ExpireAt(&s.fixed))
	}
}

func (l *Limit) charge(s *state, nowNs, quantity, waitNs int64) {
	switch l.kind {
	case Rate:
		l.rate.Charge(&s.rate, nowNs, quantity, waitNs)
	case Window:
		l.window.Charge(&s.window, nowNs, quantity)
	default:
		l.fixed.Charge(&s.fixed, nowNs, quantity)
	}
}

func (l *Limit) chargeDenied(s *state, nowNs, quantity int64) (changed bool) {
	switch l.kind {
	case Rate:
		return l.rate.ChargeDenied(&s.rate, nowNs, quantity)
	case Window:
		return l.window.ChargeDenied(&s.window, nowNs, quantity) > 0
	default:
		return l.fixed.Charge(&s.fixed, nowNs, quantity) > 0 // as many as are left
	}
}

func (l *Limit) refund(s *state, nowNs, quantity int64) int64 {
	switch l.kind {
	case Rate:
		return l.rate.Refund(&s.rate, nowNs, quantity)
	case Window:
		return l.window.Refund(&s.window, nowNs, quantity)
	default:
		return l.fixed.Refund(&s.fixed, nowNs, quantity)
	}
}
