// Windows of the calendar, compared with a counter that goes by a calendar from the standard
// library; and by hand.
package fixed_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/civil"
	"redis-throttle/internal/size"
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
func in(t require.TestingT, windows calendar.Spec, count int64, cache *calendar.Cache) *fixed.Window {
	limit, err := fixed.NewIn(windows, count)
	require.NoError(t, err)
	w := &fixed.Window{}
	w.Set(&limit, cache)
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
			w := in(t, windows, math.MaxInt64, &calendar.Cache{})
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

// A value that somebody made up names windows that are before the epoch, or that never come.
func TestWindowsOutsideOfTimeAreReadAsOverOrAsLater(t *testing.T) {
	limit, err := fixed.NewIn(spec(t, &civil.Windows{N: 1, Unit: "d", Zone: "Europe/Berlin"}), 5)
	require.NoError(t, err)
	s := windowOf(limit)
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

func TestLimitsWithOtherWindowsHaveAnotherID(t *testing.T) {
	seen := map[uint64]string{}
	for _, c := range []*civil.Windows{
		{N: 1, Unit: "d", Zone: "UTC"}, {N: 2, Unit: "d", Zone: "UTC"}, {N: 1, Unit: "d", Zone: "UTC", Offset: time.Hour},
		{N: 1, Unit: "w", Zone: "UTC"}, {N: 1, Unit: "mo", Zone: "UTC"}, {N: 12, Unit: "mo", Zone: "UTC"}, {N: 1, Unit: "y", Zone: "UTC"},
		{N: 1, Unit: "d", Zone: "Europe/Berlin"}, {N: 1, Unit: "d", Zone: "Europe/Paris"}, {N: 1, Unit: "d", Zone: "Europe/Berlin", Offset: time.Hour},
		{N: 7, Unit: "d", Zone: "UTC"},
	} {
		limit, err := fixed.NewIn(spec(t, c), 5)
		require.NoError(t, err)
		assert.Empty(t, seen[limit.ID()], c.Words())
		seen[limit.ID()] = c.Words()
		plain := c.Unit == "d" && c.Zone == "UTC" && c.Offset == 0
		assert.Equal(t, plain, limit.ID() <= math.MaxInt64, c.Words())
		assert.Equal(t, plain, limit.Period() > 0, c.Words())
	}
	plain, err := fixed.New(5, 24, time.Hour)
	require.NoError(t, err)
	inUTC, err := fixed.NewIn(spec(t, &civil.Windows{N: 1, Unit: "d", Zone: "UTC"}), 5)
	require.NoError(t, err)
	assert.Equal(t, plain, inUTC, "days in UTC are days")
	_, err = fixed.NewIn(calendar.Spec{}, 0)
	assert.Equal(t, fixed.ErrCount, err)
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

// follow sends random traffic to a limit and compares with a log of the windows that units were
// taken in.
func follow(t require.TestingT, pick chance.Draw, cache *calendar.Cache, steps int) {
	c := drawCivil(pick)
	count := pick("count", 1, 20)
	w := in(t, spec(t, c), count, cache)
	now := pick("now", instant(t, "1971-01-01T00:00:00Z"), instant(t, "2060-01-01T00:00:00Z"))
	used := map[int64]int64{} // by window
	for range steps {
		current := c.At(now)
		switch length := current.End - current.Start; pick("clock", 0, 9) {
		case 0:
			now = current.End - 1
		case 1:
			now = current.End
		case 2:
			now = current.Start
		case 3:
			now = max(now-pick("back", 0, 2*length), 0)
		case 4:
			now += pick("far", 0, 3*length)
		default:
			now += pick("step", 0, length/8)
		}
		current = c.At(now)
		bringToNow := func() {
			for number, units := range used {
				if number > current.Number { // of a clock that was set back
					used[current.Number] += units
				}
				if number != current.Number {
					delete(used, number)
				}
			}
		}
		taken := int64(0)
		for number, units := range used {
			if number >= current.Number {
				taken += units
			}
		}
		left := max(count-taken, 0)
		require.Equal(t, left, w.Available(now), "%+v at %d", c, now)
		if left < count {
			_, _, reset, _ := w.Standing(now)
			require.Equal(t, current.End-now, reset, "%+v at %d", c, now)
			require.Equal(t, current.End-now, w.RetryAfter(now, count), "%+v at %d", c, now)
		}
		quantity := pick("quantity", 1, 5)
		switch pick("what", 0, 5) {
		case 0:
			bringToNow()
			back := min(quantity, used[current.Number])
			require.Equal(t, back, w.Refund(now, quantity))
			used[current.Number] -= back
		case 1:
			bringToNow()
			w.BringTo(now)
		default:
			if quantity <= left {
				bringToNow()
				w.Charge(now, quantity, 0)
				used[current.Number] += quantity
				require.Equal(t, uint64(current.End), w.ExpireAt())
			}
		}
		encoded := w.Append(nil)
		require.LessOrEqual(t, len(encoded), fixed.MaxEncodedLen)
		require.NoError(t, w.Decode(encoded))
		require.Equal(t, encoded, w.Append(nil))
	}
}

func TestWindowsOfTheCalendarEqualTheModel(t *testing.T) {
	pick, cache := chance.FromSeed(t), &calendar.Cache{}
	for range size.Of(40, 200) {
		follow(t, pick, cache, 100)
	}
}
