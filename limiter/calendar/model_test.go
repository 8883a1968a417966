// Windows compared with a naive calendar: one that walks from date to date, and looks at the
// clocks of the zone at one instant after the other until they show what it waits for.
package calendar_test

import (
	"math"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/size"
	"redis-throttle/limiter/calendar"
)

// naive is a Spec in plain words.
type naive struct {
	n        int64
	unit     calendar.Unit
	zone     *time.Location
	offsetNs int64
}

// location reads a zone's file by itself.
func location(t require.TestingT, name string) *time.Location {
	l, err := time.LoadLocationFromTZData(name, zoneFile(t, name))
	require.NoError(t, err)
	return l
}

// shows is what the clocks show at an instant in seconds, in seconds, as if that were UTC.
func (m naive) shows(sec int64) int64 {
	t := time.Unix(sec, 0).In(m.zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC).Unix()
}

// begins reports whether a window begins on a date (at midnight UTC).
func (m naive) begins(date time.Time) bool {
	switch m.unit {
	case calendar.Day:
		return date.Unix()/86400%m.n == 0
	case calendar.Week:
		firstMonday := time.Date(1969, time.December, 29, 0, 0, 0, 0, time.UTC)
		return date.Weekday() == time.Monday && (date.Unix()-firstMonday.Unix())/(7*86400)%m.n == 0
	case calendar.Month:
		return date.Day() == 1 && (int64(date.Year()-1970)*12+int64(date.Month())-1)%m.n == 0
	default:
		return date.YearDay() == 1 && int64(date.Year()-1970)%m.n == 0
	}
}

// first is the first instant at which the clocks show the date plus the offset, or later.
func (m naive) first(date time.Time) int64 {
	wanted := date.Unix() + m.offsetNs/1e9
	sec := wanted - 16*3600
	require.Less(panics{}, m.shows(sec), wanted)
	for m.shows(sec+15) < wanted {
		sec += 15
	}
	for m.shows(sec) < wanted {
		sec++
	}
	ns := m.offsetNs % 1e9
	if m.shows(sec) > wanted {
		ns = 0
	}
	if sec > (math.MaxInt64-ns)/1e9 {
		return math.MaxInt64
	}
	return sec*1e9 + ns
}

type panics struct{}

func (panics) Errorf(format string, args ...any) {}
func (panics) FailNow()                          { panic("clocks more than 16 hours ahead") }

// at walks back from the day after tomorrow to a window that has begun.
func (m naive) at(nowNs int64) (start, end int64) {
	t := time.Unix(m.shows(nowNs/1e9), 0).UTC()
	date := time.Date(t.Year(), t.Month(), t.Day()+2, 0, 0, 0, 0, time.UTC)
	next := date // the window after date's begins then
	for next = next.AddDate(0, 0, 1); !m.begins(next); next = next.AddDate(0, 0, 1) {
	}
	for {
		if m.begins(date) {
			// What is cut off to 2^63 - 1 has not begun then.
			if start := m.first(date); start <= nowNs && start < math.MaxInt64 {
				return start, m.first(next)
			}
			next = date
		}
		date = date.AddDate(0, 0, -1)
	}
}

// changes are the instants at which the zone's clocks are changed, in seconds. It looks at
// them once a day: ZoneBounds has errors.
func changes(zone *time.Location, untilYear int) (all []int64) {
	ahead := func(sec int64) int {
		_, ahead := time.Unix(sec, 0).In(zone).Zone()
		return ahead
	}
	const step = 24 * 3600
	until := time.Date(untilYear, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	was := ahead(0)
	for sec := int64(0); sec < until; sec += step {
		if is := ahead(sec + step); is != was {
			all = append(all, sec+int64(sort.Search(step, func(i int) bool { return ahead(sec+int64(i)) == is })))
			was = is
		}
	}
	return all
}

func TestAWindowIsTheNaiveCalendars(t *testing.T) {
	names := zoneNames(t)
	odd := []string{"Pacific/Apia", "America/St_Johns", "America/Sao_Paulo", "Africa/Cairo", "Asia/Beirut", "America/Havana",
		"Australia/Lord_Howe", "Pacific/Kwajalein", "Europe/Dublin", "Asia/Gaza", "America/Nuuk", "Africa/Monrovia", "UTC"}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "zone")
		if rapid.Bool().Draw(t, "odd") {
			name = rapid.SampledFrom(odd).Draw(t, "zone")
		}
		m := naive{
			n:    rapid.Int64Range(1, 5).Draw(t, "n"),
			unit: calendar.Unit(rapid.IntRange(1, 4).Draw(t, "unit")),
			zone: location(t, name),
		}
		shortest := map[calendar.Unit]int64{calendar.Day: 1, calendar.Week: 7, calendar.Month: 28, calendar.Year: 365}[m.unit]
		switch rapid.IntRange(0, 3).Draw(t, "offset of") {
		case 0:
			m.offsetNs = rapid.Int64Range(0, min(m.n*shortest*24, 30)-1).Draw(t, "hours") * hour
		case 1:
			m.offsetNs = rapid.Int64Range(0, m.n*shortest-1).Draw(t, "days") * day
		case 2:
			m.offsetNs = rapid.Int64Range(0, m.n*shortest*day-1).Draw(t, "ns")
		}
		s, err := calendar.Calendar(m.n, m.unit, zone(t, name), m.offsetNs)
		require.NoError(t, err)

		now := rapid.Int64Range(0, math.MaxInt64).Draw(t, "now")
		if rapid.IntRange(0, 3).Draw(t, "near a change") > 0 {
			now = rapid.Int64Range(0, 80*365*day).Draw(t, "until 2050")
			if all := changes(m.zone, 2050); len(all) > 0 {
				change := rapid.SampledFrom(all).Draw(t, "change")
				now = max(0, change*1e9+rapid.Int64Range(-2*day, 2*day).Draw(t, "from it"))
			}
		}
		check(t, s, m, now)
		check(t, s, m, max(s.At(now).Start, 0))
		check(t, s, m, s.At(now).End-1)
		check(t, s, m, s.At(now).End)
		check(t, s, m, min(now, math.MaxInt64-1-2*day)+2*day)
	})
}

func check(t require.TestingT, s calendar.Spec, m naive, now int64) {
	w := s.At(now)
	start, end := m.at(now)
	require.Equal(t, start, w.Start, "%v", time.Unix(0, now).UTC())
	require.Equal(t, end, w.End, "%v", time.Unix(0, now).UTC())
	again, ok := s.Window(w.Index)
	require.True(t, ok)
	require.Equal(t, w, again)
}

// walk follows one window after the other and checks that they meet, and that clocks show a
// beginning for the first time when each begins.
func walk(t require.TestingT, s calendar.Spec, m naive, from, until int64) (windows int) {
	w := s.At(from)
	require.LessOrEqual(t, w.Start, from)
	for w.Start < until {
		require.Less(t, w.Start, w.End)
		if w.End == math.MaxInt64 {
			return windows
		}
		next := s.At(w.End)
		require.Equal(t, w.End, next.Start, "a gap or an overlap")
		require.Greater(t, next.Index, w.Index)
		require.Equal(t, w, s.At(w.End-1))
		before, at := m.shows(next.Start/1e9-1), m.shows(next.Start/1e9)
		date := time.Unix(at, 0).UTC().Truncate(24 * time.Hour)
		require.True(t, m.begins(date), "%v", date)
		require.Less(t, before, date.Unix())
		if before == at-1 { // no change of the clocks
			require.Equal(t, at, date.Unix(), "not at midnight")
		}
		w = next
		windows++
	}
	return windows
}

// Days around every change of clocks in every zone, months for thirty years, and years to the
// end of time.
func TestWindowsOfEveryZoneMeet(t *testing.T) {
	size.NeedsFull(t)
	seen := map[string]bool{} // many zones have several names
	for _, name := range zoneNames(t) {
		if seen[string(zoneFile(t, name))] {
			continue
		}
		seen[string(zoneFile(t, name))] = true
		m := naive{zone: location(t, name), n: 1, unit: calendar.Day}
		days := spec(t, 1, m.unit, name, 0)
		for _, change := range changes(m.zone, 2030) {
			walk(t, days, m, change*1e9-day, change*1e9+day)
		}
		m.unit = calendar.Month
		assert.GreaterOrEqual(t, walk(t, spec(t, 1, m.unit, name, 0), m, 0, utc(t, "2000-01-01T00:00:00Z")), 30*12)
		m.unit = calendar.Year
		assert.GreaterOrEqual(t, walk(t, spec(t, 1, m.unit, name, 0), m, 0, math.MaxInt64), 2261-1970)
	}
}
