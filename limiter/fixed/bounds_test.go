// What package stack uses of a limit and its state, and bounds where one more or one less would show.
package fixed_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/civil"
	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/fixed"
)

func newWindow(t *testing.T, count, periodNs int64) *fixed.Window {
	w := windowOf(newLimit(t, count, periodNs))
	return &w
}

func TestADeniedChargeLeavesTheSpareUnits(t *testing.T) {
	for _, tt := range []struct{ used, quantity, spare, after int64 }{
		{0, 2, 0, 2}, {0, 9, 0, 5}, {0, 9, 2, 3}, {0, 3, 2, 3}, {2, 2, 2, 3}, {3, 1, 2, 3}, {4, 1, 2, 4}, {0, 1, 5, 0}, {0, 1, 6, 0}, {0, 0, 0, 0},
	} {
		w, f := newWindow(t, 5, minute), newFirst(t, 5, minute)
		w.Charge(start, tt.used, 0)
		f.Charge(start, tt.used, 0)
		assert.Equal(t, tt.after-tt.used, w.ChargeDenied(start, tt.quantity, tt.spare), "%+v", tt)
		assert.Equal(t, tt.after-tt.used, f.ChargeDenied(start, tt.quantity, tt.spare), "%+v", tt)
		assert.Equal(t, 5-tt.after, w.Available(start), "%+v", tt)
		assert.Equal(t, 5-tt.after, f.Available(start), "%+v", tt)
	}
}

func TestForceFillsUpTo63Bits(t *testing.T) {
	w, f := newWindow(t, 5, minute), newFirst(t, 5, minute)
	for _, force := range []func(int64, int64) int64{w.Force, f.Force} {
		assert.Zero(t, force(start, 0))
		assert.Equal(t, int64(7), force(start, 7))
		assert.Equal(t, int64(math.MaxInt64-8), force(start, math.MaxInt64-8))
		assert.Equal(t, int64(1), force(start, 2))
		assert.Zero(t, force(start, 1))
	}
	assert.Zero(t, w.Available(start))
	assert.Equal(t, int64(math.MaxInt64), w.Refund(start, math.MaxInt64))
	assert.Empty(t, w.Append(nil))
}

func TestTheLastWindowOfTheLongestPeriod(t *testing.T) {
	limit, err := fixed.New(5, math.MaxInt64, 1)
	require.NoError(t, err)
	s := windowOf(limit)
	encode := func(index uint64) []byte { return binary.AppendUvarint(binary.AppendUvarint(nil, index), 1) }
	assert.NoError(t, s.Decode(encode(1)))
	assert.ErrorIs(t, s.Decode(encode(2)), fixed.ErrEncoding)
}

func TestTheLastWindowOfTimeIsWaitedForToItsEnd(t *testing.T) {
	w := in(t, spec(t, &civil.Windows{N: 1, Unit: "y", Zone: "Europe/Berlin"}), 5, &calendar.Cache{})
	w.Charge(math.MaxInt64-5, 5, 0)
	assert.Equal(t, int64(5), w.RetryAfter(math.MaxInt64-5, 1))
	assert.Equal(t, int64(1), w.RetryAfter(math.MaxInt64, 1), "at least 1 ns")
	assert.Equal(t, int64(-1), fixed.Never)
}
