// Windows of the calendar, where they differ from multiples of a period.
package fixed_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/civil"
	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/fixed"
)

// spec is the calendar of the civil one.
func spec(t require.TestingT, c *civil.Windows) calendar.Spec {
	zone, err := calendar.LookupZone([]byte(c.Zone))
	require.NoError(t, err)
	unit := map[string]calendar.Unit{"d": calendar.Day, "w": calendar.Week, "mo": calendar.Month, "y": calendar.Year}[c.Unit]
	s, err := calendar.Calendar(c.N, unit, zone, int64(c.Offset))
	require.NoError(t, err)
	return s
}

// in is a limit that was never used.
func in(t require.TestingT, windows calendar.Spec, count int64) *fixed.Window {
	limit, err := fixed.NewIn(windows, count)
	require.NoError(t, err)
	w := &fixed.Window{}
	w.Set(&limit, &calendar.Cache{})
	return w
}

func instant(t require.TestingT, text string) int64 {
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at.UnixNano()
}

func TestTheEndOfTimeNeitherWrapsNorPanics(t *testing.T) {
	day, err := calendar.Every(1, 24*time.Hour, 1)
	require.NoError(t, err)
	for name, windows := range map[string]calendar.Spec{
		"years":                spec(t, &civil.Windows{N: 1, Unit: "y", Zone: "Europe/Berlin"}),
		"292 years":            spec(t, &civil.Windows{N: 292, Unit: "y", Zone: "UTC"}),
		"months":               spec(t, &civil.Windows{N: 1, Unit: "mo", Zone: "America/New_York"}),
		"days, and an instant": day,
	} {
		for _, now := range []int64{0, math.MaxInt64 - 1, math.MaxInt64} {
			w := in(t, windows, math.MaxInt64)
			w.Charge(now, math.MaxInt64, 0)
			assert.Zero(t, w.Available(now), name)
			assert.Positive(t, w.RetryAfter(now, 1), name)
			count, available, reset, next := w.Standing(now)
			assert.Equal(t, []int64{math.MaxInt64, 0}, []int64{count, available}, name)
			assert.Positive(t, reset, name)
			assert.Equal(t, reset, next, name)
			assert.GreaterOrEqual(t, w.ExpireAt(), uint64(now), name)
			assert.LessOrEqual(t, w.ExpireAt(), uint64(math.MaxInt64), name)
		}
	}
}

func TestTheLastWindowOfTimeIsWaitedForToItsEnd(t *testing.T) {
	w := in(t, spec(t, &civil.Windows{N: 1, Unit: "y", Zone: "Europe/Berlin"}), 5)
	w.Charge(math.MaxInt64-5, 5, 0)
	assert.Equal(t, int64(5), w.RetryAfter(math.MaxInt64-5, 1))
	assert.Equal(t, int64(1), w.RetryAfter(math.MaxInt64, 1), "at least 1 ns")

	longest := newWindow(t, 5, math.MaxInt64)
	longest.Charge(math.MaxInt64, 5, 0)
	assert.Equal(t, int64(math.MaxInt64), longest.RetryAfter(math.MaxInt64, 1), "a window that begins at the last instant")
}

// A value that somebody made up names windows that are before the epoch, or that never come.
func TestWindowsOutsideOfTimeAreReadAsOverOrAsLater(t *testing.T) {
	s := in(t, spec(t, &civil.Windows{N: 1, Unit: "d", Zone: "Europe/Berlin"}), 5)
	require.NoError(t, s.Decode(unhex(t, "00 03")))
	assert.Equal(t, int64(1), int64(s.ExpireAt()))
	assert.Equal(t, int64(5), s.Available(start))

	require.NoError(t, s.Decode(unhex(t, "ffffffffffffffff7f 03")))
	assert.Equal(t, int64(math.MaxInt64), int64(s.ExpireAt()))
	assert.Equal(t, int64(2), s.Available(start), "of a clock that was set back")
	assert.True(t, s.BringTo(start))
	assert.Less(t, int64(s.ExpireAt()), start+25*60*minute)
	assert.Equal(t, fixed.ErrEncoding, s.Decode(unhex(t, "80808080808080808001 03")), "2^63")
}

// zones have clocks that skip midnight or show it twice, dates that they skip, and changes of half
// an hour.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu", "Australia/Lord_Howe"}

func drawCivil(pick chance.Draw) *civil.Windows {
	c := &civil.Windows{
		N:    pick("n", 1, 3),
		Unit: []string{"d", "w", "mo", "y"}[pick("unit", 0, 3)],
		Zone: zones[pick("zone", 0, int64(len(zones))-1)],
	}
	if pick("offset", 0, 2) == 0 {
		shortest := map[string]int64{"d": 1, "w": 7, "mo": 28, "y": 365}[c.Unit]
		c.Offset = time.Duration(pick("quarters", 0, c.N*shortest*96-1)) * 15 * time.Minute
	}
	return c
}
