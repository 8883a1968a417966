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
)

// MaxLimits is how many limits one stack holds.
const MaxLimits = 8

// What the constructors refuse, whatever the kind.
var (
	ErrCapacity  = errors.New("capacity must be at least 1")
	ErrCount     = errors.New("count must not be negative")
	ErrPeriod    = errors.New("period must be positive and at most 292 years")
	ErrRate      = errors.New("more than 10^9 units per second")
	ErrTolerance = errors.New("a full bucket would take more than 292 years to refill")
)

// period checks what every kind asks for: the period tells limits apart, so it has
// to fit its place in the encoding.
func period(count, n int64, unit time.Duration) (ns int64, err error) {
	if count < 0 {
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
