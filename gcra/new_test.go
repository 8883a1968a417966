// What New accepts and what it refuses, on both sides of every boundary.
package gcra_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/gcra"
)

func TestNew(t *testing.T) {
	const (
		max = math.MaxInt64
		ns  = time.Nanosecond
		s   = time.Second
		// 2^63-1 = 7 x by7, 2^64-1 = 3 x by3 and 2^65-1 = 31 x by31.
		by7  = max / 7
		by3  = math.MaxUint64 / 3
		by31 = (1<<65 - 1) / 31
	)
	for _, tt := range []struct {
		boundary           string
		capacity, count, n int64
		unit               time.Duration
		emission           int64
		err                error
	}{
		{"smallest of everything", 1, 1, 1, ns, 1, nil},
		{"capacity of zero", 0, 1, 1, s, 0, gcra.ErrCapacity},
		{"negative capacity", math.MinInt64, 1, 1, s, 0, gcra.ErrCapacity},
		{"count of zero", 1, 0, 1, s, 0, gcra.ErrCount},
		{"negative count", 1, math.MinInt64, 1, s, 0, gcra.ErrCount},
		{"period of zero", 1, 1, 0, s, 0, gcra.ErrPeriod},
		{"negative period", 1, 1, math.MinInt64, s, 0, gcra.ErrPeriod},
		{"unit of zero", 1, 1, 1, 0, 0, gcra.ErrPeriod},
		{"negative unit", 1, 1, 1, math.MinInt64, 0, gcra.ErrPeriod},
		{"two negatives are no positive", 1, 1, -1, -s, 0, gcra.ErrPeriod},

		{"a divisor of the period needs no rounding", 1, 1000, 1, s, 1e6, nil},
		{"any remainder rounds up", 1, 999999999, 1, s, 2, nil},
		{"one unit per nanosecond", 1, 1e9, 1, s, 1, nil},
		{"one unit more than that", 1, 1e9 + 1, 1, s, 0, gcra.ErrRate},
		{"highest rate of the longest 63 bit period", 1, max, max, ns, 1, nil},
		{"highest count in the shortest period", 1, max, 1, ns, 0, gcra.ErrRate},

		{"tolerance of 2^63-1 by capacity", max, 1, 1, ns, 1, nil},
		{"tolerance of 2^63-1 by period", 1, 1, max, ns, max, nil},
		{"tolerance of 2^63-1 by both", 7, 1, by7, ns, by7, nil},
		{"tolerance of 2^63+6", 7, 1, by7 + 1, ns, 0, gcra.ErrTolerance},
		{"tolerance of 2^63 by capacity", 1 << 62, 1, 2, ns, 0, gcra.ErrTolerance},
		{"tolerance of 2^63 by period", 1, 1, 1 << 62, 2 * ns, 0, gcra.ErrTolerance},
		{"tolerance of 2^64, which would wrap to 0", 1 << 62, 1, 4, ns, 0, gcra.ErrTolerance},
		{"one unit in 2^64 ns, which would wrap to 0", 1, 1, 1 << 62, 4 * ns, 0, gcra.ErrTolerance},
		{"one unit in 2^64-1/2 ns, which rounded up would wrap to 0", 1, 2, by31, 31 * ns, 0, gcra.ErrTolerance},
		{"largest product of all", max, 1, max, max, 0, gcra.ErrTolerance},

		{"emission of 2^63-1 out of a 64 bit period", 1, 2, max, 2 * ns, max, nil},
		{"emission of 2^63-1/2, rounded up", 1, 2, by3, 3 * ns, 0, gcra.ErrTolerance},
		{"period beyond 64 bits, modest rate", 100, max, max, s, 1e9, nil},
		{"longest period, highest count", 1, max, max, max, max, nil},
		{"one century in days", 1, 1, 36525, 24 * time.Hour, 36525 * 86400e9, nil},
	} {
		t.Run(tt.boundary, func(t *testing.T) {
			limit, err := gcra.New(tt.capacity, tt.count, tt.n, tt.unit)
			require.ErrorIs(t, err, tt.err)
			if tt.err != nil {
				assert.Zero(t, limit)
				return
			}
			assert.Equal(t, tt.capacity, limit.Capacity())
			assert.Equal(t, tt.emission, emission(limit))
			assert.Equal(t, tt.capacity*tt.emission, tolerance(limit))
		})
	}
}

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

func TestNewIsExactOrRefuses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Products just above and below 2^63 and 2^64 are as likely as small numbers.
		number := rapid.OneOf(
			rapid.Int64(),
			rapid.Int64Range(-1, 3),
			rapid.Custom(func(t *rapid.T) int64 {
				return int64(uint64(1)<<rapid.IntRange(0, 63).Draw(t, "bit") - rapid.Uint64Range(0, 1).Draw(t, "minus"))
			}),
		)
		_, _ = checkNew(t, number.Draw(t, "capacity"), number.Draw(t, "count"), number.Draw(t, "n"), number.Draw(t, "unit"))
	})
}
