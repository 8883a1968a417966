package commands_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

func TestFirstCallOnAnEmptyKey(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Client()
	a, err := kit.Throttle(t.Context(), c, "user123", "15 30 60 1")
	require.NoError(t, err)
	assert.Equal(t, kit.Answer{Limited: 0, Limit: 16, Remaining: 15, RetryAfter: -1, ResetAfter: 2}, a)
}

// One unit comes back every two seconds. A burst that took less than one second by
// the server's clock has one right answer; one that took longer says nothing, and is
// tried again on a new key.
func TestSeventeenthCallOfABurstIsLimited(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	for attempt := range 100 {
		ps := kit.Probes(t, c, 18, fmt.Sprintf("user%d", attempt), "15 30 60 1")
		if ps[17].To-ps[0].From >= int64(time.Second) {
			continue
		}
		for i, p := range ps[:16] {
			// Less than a second gone: the fill rounds up to where it started from.
			want := kit.Answer{Limited: 0, Limit: 16, Remaining: 15 - int64(i), RetryAfter: -1, ResetAfter: 2 * int64(i+1)}
			assert.Equal(t, want, p.Answer, "call %d", i+1)
		}
		for i, p := range ps[16:] {
			want := kit.Answer{Limited: 1, Limit: 16, Remaining: 0, RetryAfter: 2, ResetAfter: 32}
			assert.Equal(t, want, p.Answer, "call %d", i+17)
		}
		return
	}
	require.Fail(t, "no burst of 18 calls within a second")
}

func TestQuantity(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Client()
	// 16 units, one more a day: what is left does not change while the test runs.
	for _, step := range []struct {
		rule               string
		quantity           string
		limited, remaining int64
		retryAfterDays     int64
	}{
		{"left out, it is 1", "", 0, 15, -1},
		{"0 peeks", "0", 0, 15, -1},
		{"several at once", "10", 0, 5, -1},
		{"all or nothing", "7", 1, 5, 2},
		{"nothing was taken", "5", 0, 0, -1},
		{"0 is never limited", "0", 0, 0, -1},
		{"an empty bucket", "1", 1, 0, 1},
		{"the whole bucket waits longest", "16", 1, 0, 16},
		{"more than the bucket holds can never succeed", "17", 1, 0, -1},
		{"nor can the largest number", "9223372036854775807", 1, 0, -1},
	} {
		a, err := kit.Throttle(t.Context(), c, "key", "15 1 1d "+step.quantity)
		require.NoError(t, err, step.rule)
		assert.EqualValues(t, 16, a.Limit, step.rule)
		assert.Equal(t, step.limited, a.Limited, step.rule)
		assert.Equal(t, step.remaining, a.Remaining, step.rule)
		if step.retryAfterDays < 0 {
			assert.EqualValues(t, -1, a.RetryAfter, step.rule)
		} else {
			assert.LessOrEqual(t, a.RetryAfter, step.retryAfterDays*86400, step.rule)
			assert.Greater(t, a.RetryAfter, step.retryAfterDays*86400-3600, step.rule)
		}
	}
}

func TestPeriodUnits(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := s.Raw()
	for i, unit := range []struct {
		period string
		is     time.Duration
	}{
		{"500ms", 500 * time.Millisecond},
		{"1ms", time.Millisecond},
		{"10", 10 * time.Second},
		{"10s", 10 * time.Second},
		{"1m", time.Minute},
		{"1h", time.Hour},
		{"1d", 24 * time.Hour},
		{"1500ms", 1500 * time.Millisecond},
		{"80000d", 80000 * 24 * time.Hour}, // a TAT of 63 bits ends in 2262
	} {
		p := kit.Probes(t, c, 1, fmt.Sprint("key", i), "0 1 "+unit.period)[0]
		kit.LimitOf(0, 1, unit.is).Judge(t, p, 1)
		want := kit.NewAnswer(0, 1, 0, -1, kit.CeilSeconds(int64(unit.is)))
		assert.Equal(t, want, p.Answer, unit.period)
	}
}

func TestExtremeLimitsAreExact(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Client()
	for args, want := range map[string]kit.Answer{
		// Full buckets of 2^63-1 ns: 292 years, rounded up to a second.
		"9223372036854775806 1000000000 1":                     kit.NewAnswer(0, 9223372036854775807, 9223372036854775806, -1, 1),
		"9223372036854775806 1000000000 1 9223372036854775807": kit.NewAnswer(0, 9223372036854775807, 0, -1, 9223372037),
		"0 9223372036854775807 9223372036854775807":            kit.NewAnswer(0, 1, 0, -1, 1),
		"0 1 9223372036": kit.NewAnswer(0, 1, 0, -1, 9223372036),
		"0 1 106751d":    kit.NewAnswer(0, 1, 0, -1, 106751*86400),
		"0 1000000 1ms":  kit.NewAnswer(0, 1, 0, -1, 1),
		"0 1 1 0":        kit.NewAnswer(0, 1, 1, -1, 0),
	} {
		a, err := kit.Throttle(t.Context(), c, args, args)
		require.NoError(t, err, args)
		assert.Equal(t, want, a, args)
	}
}

// The server's own INCRBY says what a number is.
func TestNumbersAreWrittenAsForTheServersOwnCommands(t *testing.T) {
	server.NeedsServer(t, `numbers such as "01" that it refuses`)
	t.Parallel()
	s := server.Start(t)
	taken := 0
	for _, word := range []string{"0", "1", "10", "100", "01", "00", "+1", "+0", "-0", "-01", "1.0", "1e1", " 1", "1 ", "", "+", "-", "--1", "0x1",
		"9223372036854775807", "9223372036854775808", "+9223372036854775807", "09223372036854775807"} {
		s.MustDo("SET", "number", "0")
		isNumber := !s.Do("INCRBY", "number", word).IsError()
		if isNumber {
			taken++
		}
		for _, call := range [][]string{
			{"CL.THROTTLE", "key:throttle", "15", "30", "60", word},
			{"CL.LIMIT", "key:limit", "RATE", "5/s", "COST", word},
			{"CL.WAIT", "key:wait", "RATE", "5/s", "COST", word, "TIMEOUT", "1ms"},
		} {
			assert.Equal(t, isNumber, !s.Do(call...).IsError(), "%q in %s", word, call[0])
		}
	}
	assert.Equal(t, 5, taken)
}

// Half a minute in every way to say it.
func TestAPeriodMayBeADecimalNumber(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for i, period := range []string{"30", "30.0", "30s", "30.000s", "0.5m", "0.50m", "30000.0ms"} {
		key, begin := fmt.Sprint("key", i), time.Now()
		a, err := kit.Throttle(t.Context(), s.Client(), key, "3 1 "+period)
		require.NoError(t, err, period)
		assert.Equal(t, kit.NewAnswer(0, 4, 3, -1, 30), a, period)
		withUnit := period // CL.LIMIT wants one
		if !strings.HasSuffix(period, "s") && !strings.HasSuffix(period, "m") {
			withUnit += "s"
		}
		assert.EqualValues(t, 3, kit.Ask(t, s.Raw(), "CL.LIMIT %s RATE 1/%s BURST 4 COST 3", key, withUnit).Granted, period)
		b := kit.Ask(t, s.Raw(), "CL.LIMIT %s RATE 1/30s BURST 4 COST 2 MAXWAIT 2.5m", key)
		assert.EqualValues(t, 2, b.Granted, period)
		assert.LessOrEqual(t, b.WaitMs, int64(60_000), period)
		assert.GreaterOrEqual(t, b.WaitMs, 60_000-time.Since(begin).Milliseconds()-1, period)
	}
}

// Three callers of CL.LIMIT hold slots; then somebody asks by CL.THROTTLE with twice the rate.
func TestThrottleKeepsTheReservationsOfLimit(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := s.Raw()
	for range 3 {
		require.EqualValues(t, 1, kit.Ask(t, c, "CL.LIMIT key RATE 1/h MAXWAIT 5h").Granted)
	}
	a, err := kit.Throttle(t.Context(), s.Client(), "key", "0 2 3600")
	require.NoError(t, err)
	assert.EqualValues(t, 1, a.Limited)
	assert.InDelta(t, 2.5*3600, a.RetryAfter, 60)
	b := kit.Ask(t, c, "CL.LIMIT key RATE 1/h MAXWAIT 5h")
	assert.InDelta(t, 2.5*3600_000, b.WaitMs, 60_000, "behind the others")
}

// A run depends on the clock as well, so one that was saved would repeat nothing.
func init() { _ = flag.Set("rapid.nofailfile", "true") }

// Random limits and random calls, each judged by the oracle. Keys live on between
// runs, so that limits also meet a TAT which another limit left behind.
func TestEveryAnswerIsWhatTheLimitDemands(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := s.Raw()
	rapid.Check(t, func(r *rapid.T) {
		// The spread is even over the orders of magnitude, where uniform draws would
		// only ever be large.
		magnitude := func(label string, high int) int64 {
			digits := rapid.IntRange(0, high).Draw(r, label+" digits")
			n := int64(rapid.IntRange(0, 9).Draw(r, label))
			for range digits {
				n *= 10
			}
			return n
		}
		maxBurst := magnitude("max_burst", 5)
		count := magnitude("count", 5) + 1
		period := time.Duration(magnitude("period", 7)+1) * time.Millisecond
		if int64(period) < count || int64(period)/count > 1<<62/(maxBurst+1) {
			r.Skip("more than 10^9 per second, or too many years for the oracle")
		}
		l := kit.LimitOf(maxBurst, count, period)
		key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "key")
		for range rapid.IntRange(1, 5).Draw(r, "rounds") {
			quantity := rapid.OneOf(rapid.Int64Range(0, 2), rapid.Int64Range(0, maxBurst+2)).Draw(r, "quantity")
			calls := rapid.IntRange(1, 20).Draw(r, "calls")
			args := strings.Join([]string{fmt.Sprint(maxBurst), fmt.Sprint(count),
				fmt.Sprintf("%dms", period.Milliseconds()), fmt.Sprint(quantity)}, " ")
			for _, p := range kit.Probes(r, c, calls, key, args) {
				l.Judge(r, p, quantity)
			}
		}
	})
}
