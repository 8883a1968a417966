package ratelimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/ratelimit"
)

func TestLimitsAreReadFromText(t *testing.T) {
	t.Parallel()
	got, err := ratelimit.ParseLimits("RATE 5/s BURST 10; fixed 1000/mo TZ Europe/Berlin NAME monthly\nWINDOW 3/1.5h UNIT \"content bytes\" SHADOW;")
	require.NoError(t, err)
	assert.Equal(t, ratelimit.Limits{
		ratelimit.Rate(5, time.Second).Burst(10),
		ratelimit.FixedMonths(1000, 1).Zone("Europe/Berlin").Named("monthly"),
		ratelimit.Window(3, 90*time.Minute).Unit("content bytes").Shadow(),
	}, got)
}

func TestTextThatIsNoLimitIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "there are no limits",
		"RATTE 5/s":                  "expected RATE, WINDOW or FIXED",
		"RATE":                       "count/period",
		"RATE 5":                     "count/period",
		"RATE 5/7":                   "needs a unit",
		"RATE 5/mo":                  "needs a unit: ms, s, m, h or d",
		"FIXED 5/1.5mo":              "are whole",
		"RATE -1/s":                  "the count -1",
		"RATE 0/s BURST 5":           "a count of 0",
		"RATE 2000000000/s":          "10^9 units per second",
		"RATE 1/365d BURST 300":      "292 years",
		"RATE 5/s BURST":             "needs a value",
		"RATE 5/s BURST 1 BURST 2":   "twice",
		"RATE 5/s 10/m":              "a semicolon before the next limit",
		"FIXED 5/d TZ Nowhere/Atall": "has no zone",
		"FIXED 5/h TZ Europe/Berlin": "whole days",
		"FIXED 5/d OFFSET 24h":       "shorter than the period",
		"FIXED 5/mo FIRST":           "First goes with periods of one length",
		"RATE 5/s NAME \"a":          "without an end",
		"RATE 5/s NAME tägl":         "printable ASCII",
		"RATE 1/s;RATE 1/s;RATE 1/s;RATE 1/s;RATE 1/s;RATE 1/s;RATE 1/s;RATE 1/s;RATE 1/s": "at most 8",
	} {
		_, err := ratelimit.ParseLimits(text)
		assert.ErrorContains(t, err, want, text)
	}
	assert.Error(t, ratelimit.Limits{ratelimit.FixedMonths(1, 1).Zone("nil")}.Validate())
	assert.Error(t, ratelimit.Limits{ratelimit.FixedMonths(1, 1).Zone("Local")}.Validate())
	assert.NoError(t, ratelimit.Limits{ratelimit.FixedMonths(1, 1).Zone("UTC")}.Validate())
}

// String is the inverse of ParseLimits.
func TestLimitsAreWrittenAsTheyAreRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		var limits ratelimit.Limits
		for range rapid.IntRange(1, 8).Draw(r, "limits") {
			count := rapid.Int64Range(1, 1000).Draw(r, "count")
			every := time.Duration(rapid.Int64Range(1000, 1<<50).Draw(r, "period"))
			n := rapid.Int64Range(1, 20).Draw(r, "n")
			limit := rapid.SampledFrom([]ratelimit.Limit{
				ratelimit.Rate(count, every), ratelimit.Rate(count, every).Burst(n), ratelimit.Window(count, every).Spare(n).Take(n),
				ratelimit.Fixed(count, every).First(), ratelimit.Fixed(count, every).Offset(every / 2), ratelimit.FixedWeeks(count, n),
				ratelimit.FixedMonths(count, n).Zone("Asia/Tokyo"), ratelimit.FixedYears(count, n).Shadow(), ratelimit.Fixed(count, every).Take(0),
			}).Draw(r, "limit")
			limits = append(limits, limit.Named(rapid.StringMatching("[ -~]{0,8}").Draw(r, "name")).Unit(rapid.StringMatching("[ -~]{0,8}").Draw(r, "unit")))
		}
		if limits.Validate() != nil {
			r.Skip("no such limits")
		}
		read, err := ratelimit.ParseLimits(limits.String())
		require.NoError(r, err, limits.String())
		require.Equal(r, limits, read, limits.String())
	})
}
