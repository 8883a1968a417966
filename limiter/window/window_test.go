// The rules one by one, on traffic small enough to follow by hand.
package window_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/window"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	start  = int64(1_700_000_040) * second // a multiple of a minute
)

func newLimit(t require.TestingT, count, periodNs int64) window.Limit {
	limit, err := window.New(count, periodNs, time.Nanosecond)
	require.NoError(t, err)
	return limit
}

func count(limit window.Limit) int64 {
	n, _, _, _ := (&window.Window{Limit: limit}).Standing(0)
	return n
}

// period is when a unit that is charged at the epoch is over.
func period(limit window.Limit) int64 {
	w := window.Window{Limit: limit}
	w.Charge(0, 1, 0)
	return int64(w.ExpireAt())
}

// charge is Charge, and returns how many units it took.
func charge(w *window.Window, nowNs, quantity int64) int64 {
	before := w.Available(nowNs)
	w.Charge(nowNs, quantity, 0)
	return before - w.Available(nowNs)
}

func resetAfter(w *window.Window, nowNs int64) int64 {
	_, _, ns, _ := w.Standing(nowNs)
	return ns
}

func nextAfter(w *window.Window, nowNs int64) int64 {
	_, _, _, ns := w.Standing(nowNs)
	return ns
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	const longest = math.MaxInt64
	for _, tt := range []struct {
		count, n int64
		unit     time.Duration
		want     error
	}{
		{1, 1, 1, nil}, {longest, 1, 1, nil}, {1, longest, 1, nil},
		{1, 1 << 62, 2, window.ErrTooLong}, {1, longest, time.Hour, window.ErrTooLong},
		{0, 1, time.Second, window.ErrCount}, {-1, 1, time.Second, window.ErrCount},
		{1, 0, time.Second, window.ErrPeriod}, {1, -1, time.Second, window.ErrPeriod}, {1, 1, 0, window.ErrPeriod}, {1, -1, -time.Second, window.ErrPeriod},
	} {
		limit, err := window.New(tt.count, tt.n, tt.unit)
		assert.Equal(t, tt.want, err, "%+v", tt)
		if tt.want == nil {
			assert.Equal(t, tt.count, count(limit), "%+v", tt)
			assert.Equal(t, tt.n*int64(tt.unit), period(limit), "%+v", tt)
		}
	}
}

func TestForceFillsUpTo63Bits(t *testing.T) {
	s := window.Window{Limit: newLimit(t, 10, minute)}
	for _, none := range []int64{0, -1} {
		assert.Zero(t, s.Force(start, none))
		assert.Empty(t, s.Append(nil))
	}
	assert.Equal(t, int64(13), s.Force(start, 13))
	assert.Equal(t, int64(math.MaxInt64-13), s.Force(start+second, math.MaxInt64), "what can be counted")
	assert.Zero(t, s.Force(start+second, 1))
}

// Entries that have left the window do not count when what is left is read anew, so it stays exact.
func TestAClockSetBackAfterManyChargesIsReadExactly(t *testing.T) {
	s, _ := hot(t, 40, second/10)
	now := start + minute + 7*second/2 // all but the last five have left
	for i := range int64(5) {
		require.Equal(t, int64(1), charge(&s, now+i*2*second, 1))
	}
	assert.Equal(t, minute, resetAfter(&s, now+second))
}

// hot returns a limit with plenty left and the state after one charge of one unit every
// gap, the last of them at the instant returned.
func hot(t require.TestingT, charges int, gap int64) (window.Window, int64) {
	s, now := window.Window{Limit: newLimit(t, 1_000_000, minute)}, start
	for i := range charges {
		now = start + int64(i)*gap
		require.Equal(t, int64(1), charge(&s, now, 1))
	}
	return s, now
}
