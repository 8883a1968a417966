// The rules one by one, on windows that a calendar on the wall confirms.
package calendar_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/calendar"
)

const (
	hour = int64(time.Hour)
	day  = 24 * hour
)

func zone(t require.TestingT, name string) calendar.Zone {
	z, err := calendar.LookupZone([]byte(name))
	require.NoError(t, err, name)
	return z
}

func spec(t require.TestingT, n int64, unit calendar.Unit, zoneName string, offset time.Duration) calendar.Spec {
	s, err := calendar.Calendar(n, unit, zone(t, zoneName), int64(offset))
	require.NoError(t, err)
	return s
}

func every(t require.TestingT, n int64, offset time.Duration) calendar.Spec {
	s, err := calendar.Every(n, time.Nanosecond, int64(offset))
	require.NoError(t, err)
	return s
}

// utc reads an instant like 2025-03-30T01:00:00Z.
func utc(t require.TestingT, text string) int64 {
	at, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err)
	return at.UnixNano()
}

// What draws against the naive calendar rarely come upon.
func TestWindowsAroundClocksThatAreSetBackOrSkipTime(t *testing.T) {
	for _, tt := range []struct {
		name, zone     string
		offset         time.Duration
		at, start, end string
	}{
		{"clocks show the day before again: it is over", "America/St_Johns", 0, "2010-11-07T03:00:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"},
		{"from half a second after the time that clocks skip to", "Europe/Berlin", 3*time.Hour + time.Second/2, "2025-03-30T12:00:00Z", "2025-03-30T01:00:00.5Z", "2025-03-31T01:00:00.5Z"},
	} {
		s := spec(t, 1, calendar.Day, tt.zone, tt.offset)
		w := s.At(utc(t, tt.at))
		assert.Equal(t, []int64{utc(t, tt.start), utc(t, tt.end)}, []int64{w.Start, w.End}, tt.name)
		again, _ := s.Window(w.Index)
		assert.Equal(t, w, again, tt.name)
	}
}

func TestWindowsOfAFixedLength(t *testing.T) {
	const top = math.MaxInt64
	for _, tt := range []struct {
		name         string
		period       int64
		offset       time.Duration
		at           int64
		index        int64
		start, until int64
	}{
		{"the first", hour, 0, hour - 1, 0, 0, hour},
		{"the second", hour, 0, hour, 1, hour, 2 * hour},
		{"of one nanosecond", 1, 0, 7, 7, 7, 8},
		{"begins later", hour, time.Minute, hour, 1, hour / 60, hour + hour/60},
		{"as it begins", hour, time.Minute, hour / 60, 1, hour / 60, hour + hour/60},
		{"before the first that begins later", hour, time.Minute, 0, 0, hour/60 - hour, hour / 60},
		{"the last", hour, 0, top, top / hour, top / hour * hour, top},
		{"the last, of one nanosecond", 1, 0, top, top, top, top},
		{"the longest", top, 0, 5, 0, 0, top},
		{"after the longest", top, 0, top, 1, top, top},
		{"the longest, as late as can be", top, top - 1, 0, 0, -1, top - 1},
		{"the last of the longest", top, top - 1, top, 1, top - 1, top},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := every(t, tt.period, tt.offset)
			want := calendar.Window{Index: tt.index, Start: tt.start, End: tt.until}
			assert.Equal(t, want, s.At(tt.at))
			w, ok := s.Window(tt.index)
			assert.True(t, ok)
			assert.Equal(t, want, w)
		})
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	berlin, maxInt := zone(t, "Europe/Berlin"), int64(math.MaxInt64)
	for _, tt := range []struct {
		name   string
		n      int64
		unit   calendar.Unit
		offset int64
		want   error
	}{
		{"none", 0, calendar.Day, 0, calendar.ErrPeriod},
		{"fewer than none", -1, calendar.Month, 0, calendar.ErrPeriod},
		{"as many days as fit", maxInt / day, calendar.Day, 0, nil},
		{"one more", maxInt/day + 1, calendar.Day, 0, calendar.ErrTooLong},
		{"as many weeks as fit", maxInt / day / 7, calendar.Week, 0, nil},
		{"one more", maxInt/day/7 + 1, calendar.Week, 0, calendar.ErrTooLong},
		{"as many months as fit", 292 * 12, calendar.Month, 0, nil},
		{"one more", 292*12 + 1, calendar.Month, 0, calendar.ErrTooLong},
		{"as many years as fit", 292, calendar.Year, 0, nil},
		{"one more", 293, calendar.Year, 0, calendar.ErrTooLong},
		{"far too many", maxInt, calendar.Year, 0, calendar.ErrTooLong},
		{"offset below 0", 1, calendar.Day, -1, calendar.ErrOffset},
		{"offset of a day", 1, calendar.Day, day, calendar.ErrOffset},
		{"just less", 1, calendar.Day, day - 1, nil},
		{"offset of two weeks", 2, calendar.Week, 14 * day, calendar.ErrOffset},
		{"just less", 2, calendar.Week, 14*day - 1, nil},
		{"offset of the shortest month", 1, calendar.Month, 28 * day, calendar.ErrOffset},
		{"just less", 1, calendar.Month, 28*day - 1, nil},
		{"offset of the shortest year", 1, calendar.Year, 365 * day, calendar.ErrOffset},
		{"just less", 1, calendar.Year, 365*day - 1, nil},
	} {
		_, err := calendar.Calendar(tt.n, tt.unit, berlin, tt.offset)
		assert.Equal(t, tt.want, err, tt.name)
	}
	for _, tt := range []struct {
		n      int64
		unit   time.Duration
		offset int64
		want   error
	}{
		{0, time.Hour, 0, calendar.ErrPeriod},
		{1, 0, 0, calendar.ErrPeriod},
		{-1, -1, 0, calendar.ErrPeriod},
		{maxInt, 1, 0, nil},
		{1 << 62, 2, 0, calendar.ErrTooLong},
		{maxInt, time.Hour, 0, calendar.ErrTooLong},
		{1, time.Hour, -1, calendar.ErrOffset},
		{1, time.Hour, hour, calendar.ErrOffset},
		{1, time.Hour, hour - 1, nil},
	} {
		_, err := calendar.Every(tt.n, tt.unit, tt.offset)
		assert.Equal(t, tt.want, err, "%+v", tt)
	}
}

// States of version 0.1.0 name windows by their start divided by the period.
func TestDaysInUTCAreMultiplesSinceTheEpoch(t *testing.T) {
	for _, n := range []int64{1, 2, 7, 100} {
		assert.Equal(t, every(t, n*day, 0), spec(t, n, calendar.Day, "UTC", 0))
		at := utc(t, "2026-11-21T17:00:00Z")
		assert.Equal(t, at/(n*day), spec(t, n, calendar.Day, "UTC", 0).At(at).Index)
	}
}

func TestThereIsNoWindowOfAnIndexOutOfRange(t *testing.T) {
	for name, s := range map[string]calendar.Spec{
		"hours":      every(t, hour, 0),
		"later":      every(t, hour, time.Minute),
		"days":       spec(t, 1, calendar.Day, "Europe/Berlin", 0),
		"292 years":  spec(t, 292, calendar.Year, "Europe/Berlin", 0),
		"two months": spec(t, 2, calendar.Month, "UTC", time.Hour),
	} {
		last := s.At(math.MaxInt64)
		assert.Equal(t, int64(math.MaxInt64), last.End, name)
		w, ok := s.Window(last.Index)
		assert.True(t, ok, name)
		assert.Equal(t, last, w, name)
		for _, index := range []int64{-1, math.MinInt64, last.Index + 1, math.MaxInt64} {
			_, ok := s.Window(index)
			assert.False(t, ok, "%s: %d", name, index)
		}
	}
}

func TestWhatLiesOutOf64BitsIsCutOff(t *testing.T) {
	const top = math.MaxInt64
	midnight := utc(t, "2262-04-11T00:00:00Z") // the last before 2^63 ns
	for _, tt := range []struct {
		offset     int64
		start, end int64
	}{
		{0, midnight, top},
		{top - midnight - 1, top - 1, top},
		{top - midnight, top, top},
		{top - midnight + 1, top - day + 1, top},
		{top - midnight + int64(time.Second), top - day + int64(time.Second), top},
		{day - 1, midnight - 1, top},
	} {
		w := spec(t, 1, calendar.Day, "Etc/UTC", time.Duration(tt.offset)).At(top)
		assert.Equal(t, tt.start, w.Start, "offset %d", tt.offset)
		assert.Equal(t, tt.end, w.End, "offset %d", tt.offset)
	}
	for unit, begun := range map[calendar.Unit]string{
		calendar.Week: "2262-04-07T00:00:00Z", calendar.Month: "2262-04-01T00:00:00Z", calendar.Year: "2262-01-01T00:00:00Z",
	} {
		w := spec(t, 1, unit, "UTC", time.Duration(top-utc(t, begun))).At(top) // the one that begins at the last instant
		assert.Equal(t, top, int(w.Start), "unit %d", unit)
	}
	w, ok := spec(t, 292, calendar.Year, "UTC", 0).Window(0)
	assert.True(t, ok)
	assert.Equal(t, calendar.Window{Start: math.MinInt64, End: utc(t, "1678-01-01T00:00:00Z")}, w)

	const sec, days, daySec = 1e9, math.MaxInt64 / day, 24 * 3600
	const earliest = -(math.MaxInt64 / int64(sec)) // the earliest whole second that 64 bits hold
	for _, tt := range []struct{ startSec, startNs int64 }{{earliest, earliest * sec}, {earliest - 1, math.MinInt64}} {
		s := spec(t, days, calendar.Day, "Etc/UTC", time.Duration(tt.startSec+2*days*daySec)*time.Second)
		w, _ := s.Window(0) // the second before the one from the offset on
		assert.Equal(t, tt.startNs, w.Start)
	}
}

// What is skipped in newer data may not have been in older.
func TestTheWindowOfADateThatIsSkippedIsEmpty(t *testing.T) {
	s, change := spec(t, 1, calendar.Day, "Pacific/Apia", 0), utc(t, "2011-12-30T10:00:00Z")
	before, after := s.At(change-1), s.At(change)
	require.Equal(t, before.Index+2, after.Index)
	w, ok := s.Window(before.Index + 1)
	assert.True(t, ok)
	assert.Equal(t, calendar.Window{Index: before.Index + 1, Start: change, End: change}, w)
}

// IDs and indexes are stored: they must never change.
func TestIDsAndIndexesAreWhatTheyAlwaysWere(t *testing.T) {
	at := utc(t, "2026-11-21T17:00:00Z")
	for _, tt := range []struct {
		s     calendar.Spec
		id    uint64
		index int64
	}{
		{every(t, hour, 0), uint64(hour), 498689},
		{every(t, hour, time.Minute), 0xb219d565a5975854, 498689},
		{spec(t, 1, calendar.Day, "UTC", 0), uint64(day), 20778},
		{spec(t, 1, calendar.Day, "Europe/Berlin", 0), 0xc4aa3b8610728954, 20780},
		{spec(t, 2, calendar.Week, "UTC", 0), 0xb12566be54e5c745, 1486},
		{spec(t, 1, calendar.Month, "Europe/Berlin", 0), 0x91f98dfd8b465e16, 684},
		{spec(t, 1, calendar.Month, "Europe/Paris", 0), 0xf9d891be25e9226d, 684},
		{spec(t, 1, calendar.Year, "America/New_York", 6*time.Hour), 0xd3cecd8bbcd765be, 58},
	} {
		assert.Equal(t, tt.id, tt.s.ID(), "%+v", tt.s)
		assert.Equal(t, tt.index, tt.s.At(at).Index, "%+v", tt.s)
	}
}

func TestEverythingThatDiffersHasAnIDOfItsOwn(t *testing.T) {
	ids := map[uint64]calendar.Spec{}
	add := func(s calendar.Spec) {
		other, taken := ids[s.ID()]
		require.False(t, taken, "%+v %+v", s, other)
		ids[s.ID()] = s
	}
	for _, offset := range []time.Duration{0, 1, time.Hour} {
		for n := range int64(50) {
			add(every(t, (n+2)*hour, offset))
		}
		for _, name := range zoneNames(t) {
			for unit := calendar.Day; unit <= calendar.Year; unit++ {
				if name != "UTC" || unit != calendar.Day { // which has a fixed length
					add(spec(t, 1, unit, name, offset))
					add(spec(t, 2, unit, name, offset))
				}
			}
		}
	}
	for n := range int64(50) {
		assert.Contains(t, ids, uint64((n+2)*hour))
		delete(ids, uint64((n+2)*hour))
	}
	for id, s := range ids {
		require.GreaterOrEqual(t, id, uint64(1<<63), "taken for a length: %+v", s)
	}
}
