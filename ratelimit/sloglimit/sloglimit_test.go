package sloglimit

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/observed"
)

// on is a call on a key.
func on(limits ratelimit.Limits) ratelimit.Call {
	return ratelimit.Call{Keys: []ratelimit.Key{{Name: "ann", Limits: limits}}, Cost: 1}
}

func TestWhatIsLogged(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(1, time.Second).Named("hourly")}
	denied := ratelimit.Result{Limited: true, RetryAfter: time.Second, By: "cache"}
	banned := ratelimit.Result{Limited: true, Banned: true, RetryAfter: time.Minute}
	never := ratelimit.Result{Limited: true, RetryAfter: ratelimit.Never}
	shown := func(key string) string { return strings.ToUpper(key) }
	for _, c := range []struct {
		rule string
		key  func(string) string
		d    observed.Decision
		want string
	}{
		{"an allowed request", shown, observed.Decision{}, ""},
		{"a caller that left", shown, observed.Decision{Err: context.Canceled}, ""},
		{"a denial", nil, observed.Decision{Result: denied}, `level=INFO msg="redis-throttle: rate limited" verb=limit by=cache duration=0s policy=hourly retry_after=1s`},
		{"a denial, with its key", shown, observed.Decision{Result: denied}, `level=INFO msg="redis-throttle: rate limited" key=ANN verb=limit by=cache duration=0s policy=hourly retry_after=1s`},
		{"more than the limit holds", nil, observed.Decision{Result: never}, `level=INFO msg="redis-throttle: rate limited" verb=limit by=server duration=0s policy=hourly`},
		{"a ban", nil, observed.Decision{Result: banned}, `level=INFO msg="redis-throttle: banned" verb=limit by=server duration=0s retry_after=1m0s`},
		{"an outage", nil, observed.Decision{Err: io.EOF}, `level=WARN msg="redis-throttle: a rate limit could not be checked" verb=limit by=server duration=0s outcome=outage error=EOF`},
		{"a mistake", nil, observed.Decision{Err: io.ErrClosedPipe}, `level=WARN msg="redis-throttle: a rate limit could not be checked" verb=limit by=server duration=0s outcome=error error="io: read/write on closed pipe"`},
	} {
		var out bytes.Buffer
		c.d.Call = on(limits)
		New(Options{Logger: text(&out, slog.LevelDebug), Key: c.key})(t.Context(), c.d)
		assert.Equal(t, c.want, strings.TrimSpace(out.String()), c.rule)
	}
}

func text(out io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// Of a million denials a second, ten lines; each kind has its own ten.
func TestAFloodOfDenialsIsNoFloodOfLines(t *testing.T) {
	t.Parallel()
	var v valve
	now := time.Now()
	passed := 0
	for range 1_000_000 {
		if _, ok := v.pass(now, 10); ok {
			passed++
		}
		now = now.Add(time.Microsecond)
	}
	assert.Equal(t, 10, passed)
	leftOut, ok := v.pass(now, 10)
	assert.True(t, ok)
	assert.EqualValues(t, 1_000_000-10, leftOut)
	leftOut, _ = v.pass(now, 10)
	assert.Zero(t, leftOut)

	var out bytes.Buffer
	observe := New(Options{Logger: text(&out, slog.LevelDebug), PerSecond: 1})
	began := time.Now()
	for range 1000 {
		observe(t.Context(), observed.Decision{Call: on(ratelimit.Limits{{}}), Result: ratelimit.Result{Limited: true}})
		observe(t.Context(), observed.Decision{Err: io.EOF})
	}
	seconds := int(time.Since(began)/time.Second) + 1
	for _, level := range []string{"INFO", "WARN"} {
		lines := strings.Count(out.String(), "level="+level)
		assert.GreaterOrEqual(t, lines, 1)
		assert.LessOrEqual(t, lines, seconds)
	}
}

func TestWhatIsNotLoggedCostsNothing(t *testing.T) {
	observe := New(Options{Logger: text(io.Discard, slog.LevelError)})
	d := observed.Decision{Call: on(ratelimit.Limits{ratelimit.Rate(1, time.Second)}), Result: ratelimit.Result{Limited: true}}
	assert.Zero(t, testing.AllocsPerRun(100, func() { observe(context.Background(), d) }))
}
