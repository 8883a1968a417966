// Rules that the model does not state, and bounds where one more or one less would show.
package fixed_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/civil"
	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/fixed"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	start  = int64(1_700_000_040) * second // a multiple of a minute
)

func newLimit(t require.TestingT, count, periodNs int64) fixed.Limit {
	limit, err := fixed.New(count, periodNs, time.Nanosecond)
	require.NoError(t, err)
	return limit
}

func newWindow(t require.TestingT, count, periodNs int64) *fixed.Window {
	limit, w := newLimit(t, count, periodNs), &fixed.Window{}
	w.Set(&limit, &calendar.Cache{})
	return w
}

func newFirst(t require.TestingT, count, periodNs int64) *fixed.First {
	return &fixed.First{Limit: newLimit(t, count, periodNs)}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	const longest = math.MaxInt64
	for _, tt := range []struct {
		count, n int64
		unit     time.Duration
		want     error
	}{
		{1, 1, 1, nil}, {longest, 1, 1, nil}, {1, longest, 1, nil},
		{1, 1 << 62, 2, fixed.ErrTooLong}, {1, 0, time.Second, fixed.ErrPeriod}, {1, 1, 0, fixed.ErrPeriod},
		{0, 1, time.Second, fixed.ErrCount}, {-1, 1, time.Second, fixed.ErrCount},
	} {
		limit, err := fixed.New(tt.count, tt.n, tt.unit)
		assert.Equal(t, tt.want, err, "%+v", tt)
		if tt.want == nil {
			assert.Equal(t, tt.n*int64(tt.unit), limit.Period(), "%+v", tt)
		}
	}
	_, err := fixed.NewIn(calendar.Spec{}, 0)
	assert.Equal(t, fixed.ErrCount, err)
	days, err := fixed.NewIn(spec(t, &civil.Windows{N: 1, Unit: "d", Zone: "Europe/Berlin"}), 5)
	require.NoError(t, err)
	assert.Zero(t, days.Period(), "the days of Berlin have no one length")
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
}
