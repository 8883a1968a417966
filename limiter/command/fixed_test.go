// FIXED's own words: what they mean, and what they go with.
package command

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
			c := call("k RATE 1/s " + line + options)
			c.cmd = Limit
			_, ok := c.read()
			if assert.True(t, ok, "%s: %s", line, c.Error) {
				assert.Equal(t, want, c.stack.Limits(nil)[1], line)
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
		{"FIXED 0/mo", "0/mo", badQuotaFixed},
		{"FIXED 0/1mo", "0/1mo", badQuotaFixed},
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
		{"FIXED 5/d FRIST", "FRIST", "expected FIRST, OFFSET, TZ, TAKE, SPARE, SHADOW, RATE, WINDOW, FIXED, COST, UPTO, STRICT, FORCE, MAXWAIT, BAN, COMPACT or EACH"},
		{"TZ UTC FIXED 5/d", "TZ", expectedALimit},
	} {
		c := decide(Limit, tatIn(1), "k "+tt.line)
		requireError(t, c, "ERR syntax error near '"+tt.word+"': "+tt.right, tt.line)
	}
}

// A name that is missing is not guessed from the word that follows.
func TestNoWordIsTakenForAZone(t *testing.T) {
	for _, cmd := range []*Command{Limit, MLimit, Settle, Wait, Peek, Refund} {
		for _, w := range vocabulary {
			c := call("k FIXED 5/d TZ " + w.name)
			if cmd.Keys == CountedKeys {
				c = many(nil, "1 k FIXED 5/d TZ "+w.name)
			}
			c.Run(cmd)
			requireError(t, c, "ERR syntax error near '"+w.name+"': "+badZone, cmd.Name+" "+w.name)
		}
	}
}

// at decides a call at an instant.
func at(t testing.TB, command *Command, when, value, line string) *Call {
	c := call(line)
	now, err := time.Parse(time.RFC3339Nano, when)
	require.NoError(t, err)
	c.NowNs, c.Kind, c.Value = now.UnixNano(), String, []byte(value)
	if value == "" {
		c.Kind = Absent
	}
	c.Run(command)
	require.Equal(t, ReplyFields, c.Reply, "%s: %s", line, c.Error)
	return c
}

func TestAMonthOfACustomersZone(t *testing.T) {
	const limit = "k FIXED 1000/mo TZ Europe/Berlin"
	c := at(t, Limit, "2026-03-28T22:00:00Z", "", limit+" COST 1000")
	ends, err := time.Parse(time.RFC3339, "2026-04-01T00:00:00+02:00")
	require.NoError(t, err)
	untilMs := ends.UnixMilli() - c.NowNs/1e6
	assert.Equal(t, fields{0, 1, 1000, 0, -1, untilMs, untilMs, 1000, 0}, fieldsOf(t, c))
	assert.Equal(t, Set, c.Effect)
	assert.Equal(t, ends.UnixMilli(), c.ExpireAtMs, "with the clocks of Berlin")
	value := string(c.NewValue)

	last := at(t, Limit, "2026-03-31T23:59:59.999999999+02:00", value, limit)
	assert.Equal(t, fields{1, 1, 1000, 0, 1, 1, 1, 0, 0}, fieldsOf(t, last))
	assert.Equal(t, Keep, last.Effect)
	assert.Equal(t, int64(1000), fieldsOf(t, at(t, Peek, "2026-04-01T00:00:00+02:00", value, limit)).remaining)

	for _, other := range []string{"k FIXED 1000/mo", "k FIXED 1000/mo TZ Europe/Paris", "k FIXED 1000/mo TZ Europe/Berlin OFFSET 1h", "k FIXED 1000/2mo TZ Europe/Berlin"} {
		assert.Equal(t, int64(1000), fieldsOf(t, at(t, Peek, "2026-03-28T22:00:00Z", value, other)).remaining, "%s is another limit", other)
	}
	assert.Equal(t, int64(1000), fieldsOf(t, at(t, Peek, "2026-03-28T22:00:00Z", value, "k FIXED 2000/mo TZ Europe/Berlin")).remaining, "of another count it is not")

	back := at(t, Refund, "2026-03-28T22:00:00Z", value, limit+" COST 400")
	assert.Equal(t, int64(-400), fieldsOf(t, back).granted)
	assert.Equal(t, int64(400), fieldsOf(t, back).remaining)
}

func TestAWindowFromTheFirstUnitOnIsACounterWithAnExpiry(t *testing.T) {
	const limit = "k FIXED 3/1m FIRST"
	c := at(t, Limit, "2026-03-28T22:00:17.5Z", "", limit)
	assert.Equal(t, fields{0, 1, 3, 2, -1, 60_000, 60_000, 1, 0}, fieldsOf(t, c))
	c = at(t, Limit, "2026-03-28T22:01:00Z", string(c.NewValue), limit+" COST 2")
	assert.Equal(t, fields{0, 1, 3, 0, -1, 17_500, 17_500, 2, 0}, fieldsOf(t, c))
	assert.Equal(t, c.NowNs/1e6+18_000, c.ExpireAtMs, "rounded up to a whole second")
	value := string(c.NewValue)
	assert.Equal(t, int64(17_500), fieldsOf(t, at(t, Limit, "2026-03-28T22:01:00Z", value, limit)).retry)
	assert.Equal(t, int64(3), fieldsOf(t, at(t, Peek, "2026-03-28T22:01:17.5Z", value, limit)).remaining)
	assert.Equal(t, int64(3), fieldsOf(t, at(t, Peek, "2026-03-28T22:01:00Z", value, "k FIXED 3/1m")).remaining, "another limit")
}

func TestADecisionInACalendarDoesNotAllocate(t *testing.T) {
	for _, line := range []string{
		"k FIXED 1000/mo TZ Europe/Berlin", "k FIXED 1000/w OFFSET 1d", "k FIXED 1000/d OFFSET 6h TZ America/New_York", "k FIXED 1000/m FIRST",
	} {
		value := valueAfter(t, line)
		for name, command := range map[string]*Command{"limit": Limit, "peek": Peek, "refund": Refund} {
			c := decide(command, value, line)
			assert.Zero(t, testing.AllocsPerRun(100, func() { c.Run(command) }), "%s, %s", name, line)
		}
		full := decide(Limit, value, line+" COST 999")
		denied := decide(Limit, string(full.NewValue), line)
		require.Equal(t, int64(1), denied.Integers[0])
		assert.Zero(t, testing.AllocsPerRun(100, func() { denied.Run(Limit) }), line)
	}
	// Calls that differ from the last: callers of several zones, by turns.
	c, other := decide(Limit, "", "k FIXED 5/d TZ Asia/Tokyo"), call("k FIXED 5/w TZ Asia/Seoul")
	words := [][][]byte{c.Args, other.Args}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for _, c.Args = range words {
			c.Run(Limit)
		}
	}))
}
