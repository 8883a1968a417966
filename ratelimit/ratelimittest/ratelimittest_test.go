package ratelimittest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/ratelimittest"
)

var hourly = ratelimit.Limits{ratelimit.Rate(1, time.Hour)}

func decide(t testing.TB, l ratelimit.Decider, call ratelimit.Call) ratelimit.Result {
	t.Helper()
	result, err := l.Decide(t.Context(), call)
	require.NoError(t, err)
	return result
}

func on(key string, limits ratelimit.Limits) ratelimit.Call {
	return ratelimit.Call{Keys: []ratelimit.Key{{Name: key, Limits: limits}}, Cost: 1}
}

// inLine is a call that waits for its turn.
func inLine(key string, limits ratelimit.Limits) ratelimit.Call {
	call := on(key, limits)
	call.Verb = ratelimit.VerbWait
	return call
}

// Outside of a bubble no time passes by itself, and inside it is that of the bubble.
func TestTheClockIsTheTests(t *testing.T) {
	t.Parallel()
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	check := func(t *testing.T) *ratelimittest.Limiter {
		l := ratelimittest.New(t)
		assert.Equal(t, start, l.Now())
		assert.False(t, decide(t, l, on("k", hourly)).Limited)
		assert.Equal(t, time.Hour, decide(t, l, on("k", hourly)).RetryAfter)
		l.Advance(time.Hour - time.Millisecond)
		assert.Equal(t, time.Millisecond, decide(t, l, on("k", hourly)).RetryAfter)
		l.Advance(time.Millisecond)
		assert.False(t, decide(t, l, on("k", hourly)).Limited)
		assert.Equal(t, start.Add(time.Hour), l.Now())
		return l
	}
	check(t)
	synctest.Test(t, func(t *testing.T) {
		l := check(t)
		assert.Equal(t, start.Add(time.Hour), time.Now().UTC())
		time.Sleep(time.Hour)
		assert.False(t, decide(t, l, on("k", hourly)).Limited)
	})
}

// The wall clock steps, forward and back, and then goes on.
func TestTheClockCanBeSet(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T) {
		l := ratelimittest.New(t)
		daily := ratelimit.Limits{ratelimit.Fixed(1, 24*time.Hour).Zone("Europe/Berlin")}
		l.SetTime(time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC)) // midnight in Berlin; the clocks go forward in the night
		assert.Equal(t, 23*time.Hour, decide(t, l, on("k", daily)).ResetAfter)
		l.Advance(time.Hour)
		assert.Equal(t, 22*time.Hour, decide(t, l, on("k", daily)).RetryAfter)
		assert.Equal(t, time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), l.Now())
		l.SetTime(time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC))
		assert.Equal(t, time.Hour, decide(t, l, on("other", daily)).ResetAfter)
	}
	check(t)
	synctest.Test(t, check)
}

// A clock that is set lets callers in whose time has come by it. Set back, it makes nobody wait longer.
func TestTheClockIsSetWhileCallersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimittest.New(t)
		for _, c := range []struct {
			step, waits time.Duration
		}{{2 * time.Hour, 0}, {30 * time.Minute, 30 * time.Minute}, {-time.Hour, time.Hour}} {
			key := c.step.String()
			decide(t, l, on(key, hourly))
			began, done := time.Now(), make(chan time.Time)
			go func() {
				assert.False(t, decide(t, l, inLine(key, hourly)).Limited)
				done <- time.Now()
			}()
			synctest.Wait()
			l.SetTime(l.Now().Add(c.step))
			assert.Equal(t, c.waits, (<-done).Sub(began), "after a step of %v", c.step)
		}
	})
}

// fatal is a test that notes how it failed.
type fatal struct {
	testing.TB
	text string
}

func (f *fatal) Fatalf(format string, _ ...any) {
	f.text = format
	panic(f)
}

func TestATimeThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*ratelimittest.Limiter)
		want   string
	}{
		"back":     {func(l *ratelimittest.Limiter) { l.Advance(-1) }, "not negative"},
		"too far":  {func(l *ratelimittest.Limiter) { l.Advance(1<<63 - 1) }, "beyond the year"},
		"too old":  {func(l *ratelimittest.Limiter) { l.SetTime(time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)) }, "from 1970"},
		"too late": {func(l *ratelimittest.Limiter) { l.SetTime(time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)) }, "from 1970"},
	} {
		f := &fatal{TB: t}
		l := ratelimittest.New(f)
		was := l.Now()
		assert.PanicsWithValue(t, f, func() { c.change(l) }, name)
		assert.Contains(t, f.text, c.want, name)
		assert.Equal(t, was, l.Now(), name)
	}
}
