// Package stack decides up to eight limits at one instant, all or nothing: rates (package gcra),
// sliding windows (window) and fixed windows (fixed), side by side in one key. It computes with
// exact integers. It has no clock and no I/O, and allocates only when a time zone is used for the
// first time.
package stack

import (
	"errors"
	"math"
	"math/bits"
	"time"

	"redis-throttle/calendar"
	"redis-throttle/fixed"
	"redis-throttle/gcra"
	"redis-throttle/window"
)

// MaxLimits is how many limits one stack holds.
const MaxLimits = 8

// What the constructors refuse, whatever the kind.
var (
	ErrCapacity  = errors.New("capacity must be at least 1")
	ErrCount     = errors.New("count must be at least 1")
	ErrPeriod    = errors.New("period must be positive and at most 292 years")
	ErrRate      = errors.New("more than 10^9 units per second")
	ErrTolerance = errors.New("a full bucket would take more than 292 years to refill")
)

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

// RateOf returns rate as a limit of a stack. Among other limits, its state is found by the period.
func RateOf(rate gcra.Limit, periodNs int64) Limit {
	return Limit{kind: Rate, id: uint64(periodNs), rate: rate}
}

// NewWindow returns the limit of count units in any interval of n x unit.
func NewWindow(count, n int64, unit time.Duration) (Limit, error) {
	periodNs, err := period(count, n, unit)
	if err != nil {
		return Limit{}, err
	}
	w, err := window.New(count, n, unit)
	return Limit{kind: Window, id: uint64(periodNs), window: w}, err
}

// NewFixedIn returns the limit of count units in each of windows.
func NewFixedIn(windows calendar.Spec, count int64) (Limit, error) {
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
	if err != nil {
		return Limit{}, err
	}
	f, err := fixed.New(count, n, unit)
	return Limit{kind: First, id: uint64(periodNs), fixed: f}, err
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
