// What New accepts and what it refuses, on both sides of every boundary.
package gcra_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/gcra"
)

// wanted is New's contract in big integers: the emission interval and the burst
// tolerance in ns, and the first refusal that applies.
func wanted(capacity, count, n, unit int64) (emission, tolerance *big.Int, err error) {
	switch {
	case capacity < 1:
		return nil, nil, gcra.ErrCapacity
	case count < 1:
		return nil, nil, gcra.ErrCount
	case n < 1 || unit < 1:
		return nil, nil, gcra.ErrPeriod
	}
	period := new(big.Int).Mul(big.NewInt(n), big.NewInt(unit))
	if period.Cmp(big.NewInt(count)) < 0 {
		return nil, nil, gcra.ErrRate
	}
	// ceil(a / b) = -floor(-a / b), and Div by a positive number is floor.
	emission = new(big.Int).Neg(period)
	emission.Div(emission, big.NewInt(count)).Neg(emission)
	tolerance = new(big.Int).Mul(emission, big.NewInt(capacity))
	if !tolerance.IsInt64() {
		return nil, nil, gcra.ErrTolerance
	}
	return emission, tolerance, nil
}

// checkNew holds New against wanted; it is shared with the fuzz target.
func checkNew(t require.TestingT, capacity, count, n, unit int64) (gcra.Limit, error) {
	wantEmission, wantTolerance, want := wanted(capacity, count, n, unit)
	limit, err := gcra.New(capacity, count, n, time.Duration(unit))
	require.ErrorIs(t, err, want)
	if err != nil {
		require.Zero(t, limit)
		return limit, err
	}
	require.Equal(t, capacity, limit.Capacity())
	require.Equal(t, wantEmission.Int64(), emission(limit))
	require.Equal(t, wantTolerance.Int64(), tolerance(limit))
	return limit, nil
}

// On both sides of each bound: of 63 and 64 bits, and of one unit a nanosecond.
func TestNewIsExactAtItsBounds(t *testing.T) {
	const (
		most = math.MaxInt64
		// 2^63-1 = 7 x by7, 2^64-1 = 3 x by3 and 2^65-1 = 31 x by31.
		by7  = most / 7
		by3  = math.MaxUint64 / 3
		by31 = (1<<65 - 1) / 31
	)
	for _, tt := range []struct{ capacity, count, n, unit int64 }{
		{1, 1, 1, 1}, {0, 1, 1, 1e9}, {math.MinInt64, 1, 1, 1}, {1, 0, 1, 1}, {1, math.MinInt64, 1, 1}, {1, 1, 0, 1}, {1, 1, 1, 0}, {1, 1, -1, -1e9},
		{1, 1e9, 1, 1e9}, {1, 1e9 + 1, 1, 1e9}, {1, most, most, 1}, {1, most, 1, 1},
		{most, 1, 1, 1}, {1, 1, most, 1}, {7, 1, by7, 1}, {7, 1, by7 + 1, 1}, {1 << 62, 1, 2, 1}, {1, 1, 1 << 62, 2}, {1 << 62, 1, 4, 1}, {1, 1, 1 << 62, 4},
		{1, 2, by31, 31}, {most, 1, most, most}, {1, 2, most, 2}, {1, 2, by3, 3}, {100, most, most, 1e9}, {1, most, most, most},
	} {
		checkNew(t, tt.capacity, tt.count, tt.n, tt.unit)
	}
}
