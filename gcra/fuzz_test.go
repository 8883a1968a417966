// Arbitrary integers: never a panic, and every answer within its range.
package gcra_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzTake(f *testing.F) {
	const s = int64(1e9)
	for _, seed := range []struct {
		capacity, count, n, unit int64
		tat                      uint64
		nowNs, quantity          int64
	}{
		{16, 30, 60, s, 0, start, 1},
		{16, 30, 60, s, uint64(start + 32*s), start, 1},
		{16, 30, 60, s, uint64(start + 32*s + 1), start, 1},
		{16, 30, 60, s, uint64(start + 32*s + 1), start, 0},
		{16, 30, 60, s, uint64(start), start, 17},
		{16, 30, 60, s, 0, start, 0},
		{16, 30, 60, s, 0, start, -1},
		{16, 30, 60, s, 0, -1, 1},
		{1, 1000000000, 1, s, 0, start, 1},
		{1048576, 1048576, 1, s, uint64(start + s/2), start, 65536},
		{1, 1, math.MaxInt64, 1, 0, math.MaxInt64, 1},
		{1, 1, math.MaxInt64, 1, math.MaxUint64, 0, 1},
		{math.MaxInt64, 1, 1, 1, math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{1, math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxUint64, math.MaxInt64, 1},
		{math.MaxInt64, 1, math.MaxInt64, math.MaxInt64, 0, 0, 1},
		{0, 0, 0, 0, 0, 0, 0},
		{math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64, 0, math.MinInt64, math.MinInt64},
	} {
		f.Add(seed.capacity, seed.count, seed.n, seed.unit, seed.tat, seed.nowNs, seed.quantity)
	}
	f.Fuzz(func(t *testing.T, capacity, count, n, unit int64, tat uint64, nowNs, quantity int64) {
		limit, err := checkNew(t, capacity, count, n, unit)
		if err != nil {
			return
		}
		d := take(limit, tat, nowNs, quantity)
		if nowNs < 0 || quantity < 0 {
			return // not what Take is made for, but no panic either
		}

		// The limit in the simplest form: one unit per emission interval.
		same := params{capacity: capacity, count: 1, periodNs: emission(limit)}
		require.Equal(t, d, newPair(t, same, tat).take(t, nowNs, quantity))
	})
}
