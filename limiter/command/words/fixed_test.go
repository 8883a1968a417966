// FIXED's own words: what they mean, and what they go with.
package words

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/stack"
)

// inCalendar is a limit in windows of n units by the clocks of a zone.
func inCalendar(t testing.TB, count, n int64, unit calendar.Unit, zone string, offset time.Duration) stack.Limit {
	in, err := calendar.LookupZone([]byte(zone))
	require.NoError(t, err)
	windows, err := calendar.Calendar(n, unit, in, int64(offset))
	require.NoError(t, err)
	limit, err := stack.NewFixedIn(windows, count)
	require.NoError(t, err)
	return limit
}

func TestWordsOfFixed(t *testing.T) {
	every := func(count int64, period, offset time.Duration) stack.Limit {
		windows, err := calendar.Every(1, period, int64(offset))
		require.NoError(t, err)
		limit, err := stack.NewFixedIn(windows, count)
		require.NoError(t, err)
		return limit
	}
	first := func(count int64, period time.Duration) stack.Limit {
		limit, err := stack.NewFirst(count, 1, period)
		require.NoError(t, err)
		return limit
	}
	const day = 24 * time.Hour
	for line, want := range map[string]stack.Limit{
		"FIXED 5/w":                                inCalendar(t, 5, 1, calendar.Week, "UTC", 0),
		"FIXED 5/1w":                               inCalendar(t, 5, 1, calendar.Week, "UTC", 0),
		"FIXED 5/2w OFFSET 2d":                     inCalendar(t, 5, 2, calendar.Week, "UTC", 2*day),
		"FIXED 5/mo":                               inCalendar(t, 5, 1, calendar.Month, "UTC", 0),
		"FIXED 5/3mo TZ Europe/Berlin":             inCalendar(t, 5, 3, calendar.Month, "Europe/Berlin", 0),
		"FIXED 5/y tz America/New_York":            inCalendar(t, 5, 1, calendar.Year, "America/New_York", 0),
		"FIXED 5/292y":                             inCalendar(t, 5, 292, calendar.Year, "UTC", 0),
		"FIXED 5/d TZ UTC":                         fixed(t, 5, day),
		"FIXED 5/d":                                fixed(t, 5, day),
		"FIXED 5/1.0d TZ Asia/Kathmandu":           inCalendar(t, 5, 1, calendar.Day, "Asia/Kathmandu", 0),
		"FIXED 5/d OFFSET 6h TZ Europe/Berlin":     inCalendar(t, 5, 1, calendar.Day, "Europe/Berlin", 6*time.Hour),
		"FIXED 5/d TZ Europe/Berlin offset 6h":     inCalendar(t, 5, 1, calendar.Day, "Europe/Berlin", 6*time.Hour),
		"FIXED 5/d OFFSET 6h":                      every(5, day, 6*time.Hour),
		"FIXED 5/d OFFSET 0":                       fixed(t, 5, day),
		"FIXED 5/m OFFSET 1.5s":                    every(5, time.Minute, 1500*time.Millisecond),
		"FIXED 5/mo OFFSET 27.5d":                  inCalendar(t, 5, 1, calendar.Month, "UTC", 27*day+12*time.Hour),
		"FIXED 5/m FIRST":                          first(5, time.Minute),
		"fixed 5/0.5d first":                       first(5, 12*time.Hour),
		"FIXED 5/w FIRST":                          first(5, 7*day),
		"FIXED 5/2w FIRST":                         first(5, 14*day),
		"FIXED 5/m FIRST TAKE 3 SPARE 1":           first(5, time.Minute).With(stack.Terms{HasTake: true, Take: 3, Spare: 1}),
		"FIXED 9223372036854775807/106751d FIRST":  first(math.MaxInt64, 106751*day),
		"FIXED 9223372036854775807/mo TZ Etc/GMT0": inCalendar(t, math.MaxInt64, 1, calendar.Month, "Etc/GMT0", 0),
	} {
		for _, options := range []string{"", " COST 2", " STRICT"} {
			c := read("CL.LIMIT k RATE 1/s " + line + options)
			if assert.Empty(t, c.error, line) {
				assert.Equal(t, want, c.groups[0].Limits(nil)[1], line)
			}
		}
	}
}

func TestWordsThatDoNotGoWithAFixed(t *testing.T) {
	const zone = "Europe/Berlin"
	for _, tt := range []struct{ line, word, right string }{
		// Periods.
		{"FIXED 5/0w", "5/0w", noPeriod},
		{"FIXED 5/9223372036854775808mo", "5/9223372036854775808mo", tooLong},
		{"FIXED 5/1.5mo", "5/1.5mo", badQuotaFixed},
		{"FIXED 5/-1y", "5/-1y", badQuotaFixed},
		{"FIXED 5/01w", "5/01w", badQuotaFixed},
		{"FIXED 5/1W", "5/1W", unitsAreLower},
		{"FIXED 5/MO", "5/MO", unitsAreLower},
		{"FIXED 5/d OFFSET 6H", "6H", unitsAreLower},
		{"FIXED 5/1mos", "5/1mos", badQuotaFixed},
		{"FIXED -1/mo", "-1/mo", badQuotaFixed},
		{"FIXED -1/1mo", "-1/1mo", badQuotaFixed},
		{"FIXED 0/0mo", "0/0mo", noPeriod},
		{"FIXED 0/293y", "0/293y", tooLong},
		{"FIXED 0/1.5mo", "0/1.5mo", badQuotaFixed},
		{"FIXED w", "w", badQuotaFixed},
		{"FIXED 5/293y", "5/293y", tooLong},
		{"FIXED 5/3505mo", "5/3505mo", tooLong},
		{"FIXED 5/15251w", "5/15251w", tooLong},
		{"FIXED 5/9223372036854775807y", "5/9223372036854775807y", tooLong},
		{"RATE 5/w", "5/w", badQuotaRate},
		{"WINDOW 5/mo", "5/mo", badQuotaWindow},

		// OFFSET.
		{"FIXED 5/d OFFSET", "OFFSET", badOffset},
		{"FIXED 5/d OFFSET -1h", "-1h", badOffset},
		{"FIXED 5/d OFFSET x", "x", badOffset},
		{"FIXED 5/d OFFSET 1w", "1w", badOffset},
		{"FIXED 5/y OFFSET 36501d", "36501d", badOffset},
		{"FIXED 5/d OFFSET 0.0000000001", "0.0000000001", tooFine},
		{"FIXED 5/d OFFSET 1d", "1d", longOffset},
		{"FIXED 5/d TZ " + zone + " OFFSET 24h", "24h", longOffset},
		{"FIXED 5/mo OFFSET 28d", "28d", longOffset},
		{"FIXED 5/y OFFSET 365d", "365d", longOffset},
		{"FIXED 5/s OFFSET 1s", "1s", longOffset},
		{"FIXED 5/d OFFSET 1h OFFSET 1h", "OFFSET", givenTwice},

		// TZ.
		{"FIXED 5/d TZ", "TZ", badZone},
		{"FIXED 5/d TZ Nowhere", "Nowhere", badZone},
		{"FIXED 5/d TZ Berlin", "Berlin", "no time zone has this name; did you mean Europe/Berlin?"},
		{"FIXED 5/d TZ europe/berlin", "europe/berlin", "no time zone has this name; did you mean Europe/Berlin?"},
		{"FIXED 5/d TZ Europe/Belrin", "Europe/Belrin", "no time zone has this name; did you mean Europe/Berlin?"},
		{"FIXED 5/d TZ +02:00", "+02:00", badZone},
		{"FIXED 5/d TZ ../UTC", "../UTC", badZone},
		{"FIXED 5/d TZ TAKE 2", "TAKE", badZone}, // no typo of Pacific/Wake
		{"FIXED 5/24h TZ " + zone, zone, zoneNeedsDays},
		{"FIXED 5/1.5d TZ " + zone, zone, zoneNeedsDays},
		{"FIXED 5/60s TZ UTC", "UTC", zoneNeedsDays},
		{"FIXED 5/d TZ " + zone + " TZ " + zone, "TZ", givenTwice},

		// FIRST.
		{"FIXED 5/d FIRST FIRST", "FIRST", givenTwice},
		{"FIXED 5/d FIRST TZ " + zone, "TZ", notWithFirst},
		{"FIXED 5/d TZ " + zone + " FIRST", "TZ", notWithFirst},
		{"FIXED 5/d OFFSET 1h FIRST", "OFFSET", notWithFirst},
		{"FIXED 5/d FIRST OFFSET 0", "OFFSET", notWithFirst},
		{"FIXED 5/mo FIRST", "5/mo", firstHasLength},
		{"FIXED 5/1y FIRST", "5/1y", firstHasLength},
		{"FIXED 5/15251w FIRST", "5/15251w", tooLong},
		{"FIXED 5/2635249153387078803w FIRST", "5/2635249153387078803w", tooLong}, // 2^64 + 5 days
		{"FIXED 5/1317624576693539401w FIRST", "5/1317624576693539401w", tooLong},
		{"FIXED 5/9223372036854775807w FIRST", "5/9223372036854775807w", tooLong},

		// Not behind a FIXED.
		{"RATE 5/d FIRST", "FIRST", misplacedFixed},
		{"WINDOW 5/d TZ " + zone, "TZ", misplacedFixed},
		{"RATE 5/d BURST 5 OFFSET 1h", "OFFSET", misplacedFixed},
		{"FIXED 5/d TAKE 2 TZ " + zone, "TZ", misplacedFixed},
		{"FIXED 5/d COST 1 FIRST", "FIRST", misplacedFixed},
		{"FIXED 5/d FRIST", "FRIST", "expected FIRST, OFFSET, TZ, TAKE, SPARE, SHADOW, RATE, WINDOW, FIXED, " + limitOptions},
		{"TZ UTC FIXED 5/d", "TZ", expectedALimit},
	} {
		requireError(t, read("CL.LIMIT k "+tt.line), "ERR syntax error near '"+tt.word+"': "+tt.right, tt.line)
	}
}

// A name that is missing is not guessed from the word that follows.
func TestNoWordIsTakenForAZone(t *testing.T) {
	for _, command := range []string{"CL.LIMIT k", "CL.MLIMIT 1 k", "CL.SETTLE 1 k", "CL.WAIT k", "CL.PEEK k", "CL.REFUND k"} {
		for _, w := range vocabulary {
			requireError(t, read(command+" FIXED 5/d TZ "+w.name), "ERR syntax error near '"+w.name+"': "+badZone, command+" "+w.name)
		}
	}
}
