package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

func TestLimitsAreWrittenAsTheCommandsTakeThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit ratelimit.Limit
		words string
	}{
		{ratelimit.Rate(5, time.Second), "RATE 5/1s"},
		{ratelimit.Rate(5, time.Second).Burst(10), "RATE 5/1s BURST 10"},
		{ratelimit.Rate(1, 1500*time.Millisecond), "RATE 1/1500ms"},
		{ratelimit.Rate(100, 90*time.Minute), "RATE 100/90m"},
		{ratelimit.Window(30, time.Minute), "WINDOW 30/1m"},
		{ratelimit.Fixed(1000, day), "FIXED 1000/1d"},
		{ratelimit.Fixed(1000, week).Named("weekly").Unit("content-bytes"), "FIXED 1000/7d"},
	} {
		assert.Equal(t, c.words, c.limit.String())
	}
}

// sent remembers what would be sent.
type sent struct{ args []any }

func (s *sent) Process(_ context.Context, cmd redis.Cmder) error {
	s.args = cmd.Args()
	return nil
}

func TestArgumentsOfEachCommand(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(5, time.Second).Burst(10), ratelimit.Fixed(100, day)}
	ctx := t.Context()
	for _, c := range []struct {
		call func(l *ratelimit.Limiter) *ratelimit.Cmd
		want []any
	}{
		{func(l *ratelimit.Limiter) *ratelimit.Cmd { return l.Throttle(ctx, "k", limits[0]) },
			[]any{"CL.THROTTLE", "k", int64(9), int64(5), "1s", int64(1)}},
		{func(l *ratelimit.Limiter) *ratelimit.Cmd {
			return l.Throttle(ctx, "k", limits[0], ratelimit.Cost(0))
		}, []any{"CL.THROTTLE", "k", int64(9), int64(5), "1s", int64(0)}},
		{func(l *ratelimit.Limiter) *ratelimit.Cmd { return l.Limit(ctx, "k", limits) },
			[]any{"CL.LIMIT", "k", "RATE", "5/1s", "BURST", int64(10), "FIXED", "100/1d"}},
		{func(l *ratelimit.Limiter) *ratelimit.Cmd {
			return l.Limit(ctx, "k", limits[1:], ratelimit.Cost(3), ratelimit.UpTo(), ratelimit.Strict())
		}, []any{"CL.LIMIT", "k", "FIXED", "100/1d", "COST", int64(3), "UPTO", "STRICT"}},
		{func(l *ratelimit.Limiter) *ratelimit.Cmd {
			return l.Limit(ctx, "k", limits[:1], ratelimit.MaxWait(2500*time.Microsecond))
		}, []any{"CL.LIMIT", "k", "RATE", "5/1s", "BURST", int64(10), "MAXWAIT", "2ms"}},
		{func(l *ratelimit.Limiter) *ratelimit.Cmd { return l.Peek(ctx, "k", limits[1:], ratelimit.Cost(3)) },
			[]any{"CL.PEEK", "k", "FIXED", "100/1d", "COST", int64(3)}},
		{func(l *ratelimit.Limiter) *ratelimit.Cmd { return l.Refund(ctx, "k", limits[1:]) },
			[]any{"CL.REFUND", "k", "FIXED", "100/1d"}},
		{func(l *ratelimit.Limiter) *ratelimit.Cmd { return l.Wait(ctx, "k", limits[:1], time.Minute) },
			[]any{"CL.WAIT", "k", "RATE", "5/1s", "BURST", int64(10), "TIMEOUT", "1m"}},
		{func(l *ratelimit.Limiter) *ratelimit.Cmd { return l.Wait(ctx, "k", limits[:1], 0) },
			[]any{"CL.WAIT", "k", "RATE", "5/1s", "BURST", int64(10), "TIMEOUT", "0ms"}},
		// 0 would be to wait for ever.
		{func(l *ratelimit.Limiter) *ratelimit.Cmd { return l.Wait(ctx, "k", limits[:1], time.Microsecond) },
			[]any{"CL.WAIT", "k", "RATE", "5/1s", "BURST", int64(10), "TIMEOUT", "1ms"}},
		{func(l *ratelimit.Limiter) *ratelimit.Cmd { return l.Wait(ctx, "k", limits[:1], -time.Microsecond) },
			[]any{"CL.WAIT", "k", "RATE", "5/1s", "BURST", int64(10), "TIMEOUT", "-1ms"}},
	} {
		var s sent
		c.call(ratelimit.New(&s))
		assert.Equal(t, c.want, s.args)
	}
}

func TestWhatCannotBeALimitIsNotSent(t *testing.T) {
	t.Parallel()
	for wrong, limit := range map[string]ratelimit.Limit{
		"made by Rate, Window or Fixed": {},
		"the count 0":                   ratelimit.Rate(0, time.Second),
		"the count -1":                  ratelimit.Window(-1, time.Second),
		"the period 0s":                 ratelimit.Fixed(1, 0),
		"the period -1s":                ratelimit.Rate(1, -time.Second),
		"the period 1.5ms":              ratelimit.Rate(1, 1500*time.Microsecond),
		"the burst capacity 0":          ratelimit.Rate(1, time.Second).Burst(0),
		"only a Rate has a Burst":       ratelimit.Window(1, time.Second).Burst(5),
	} {
		var s sent
		l := ratelimit.New(&s)
		_, err := l.Limit(t.Context(), "k", ratelimit.Limits{limit}).Result()
		assert.ErrorContains(t, err, wrong)
		_, err = l.Throttle(t.Context(), "k", limit).Result()
		assert.Error(t, err, wrong)
		assert.Contains(t, limit.String(), wrong)
		assert.Nil(t, s.args, wrong)
	}
	var s sent
	_, err := ratelimit.New(&s).Throttle(t.Context(), "k", ratelimit.Fixed(1, day)).Result()
	require.ErrorContains(t, err, "only a Rate")
	assert.Nil(t, s.args)
}

// What a wrapper of the client, or a newer server, might hand back.
func TestRepliesThatMakeNoSenseAreErrors(t *testing.T) {
	t.Parallel()
	limit := ratelimit.Rate(5, time.Second)
	full := []any{"limited", int64(0), "rule", int64(1), "limit", int64(5), "remaining", int64(4), "retry_after_ms", int64(-1),
		"reset_after_ms", int64(200), "next_after_ms", int64(200), "granted", int64(1), "wait_ms", int64(0)}
	rule := func(n int64) []any { return append(append([]any{}, full...), "rule", n) }
	for _, c := range []struct {
		reply any
		ok    bool
	}{
		{full, true},
		{append(append([]any{}, full...), "new_field", "text"), true},
		{rule(0), false}, {rule(2), false},
		{full[:len(full)-2], false}, {full[:1], false},
		{nil, false}, {"OK", false}, {map[any]any{}, false}, {map[any]any{"limited": "0"}, false},
	} {
		_, err := ratelimit.New(answers{c.reply}).Limit(t.Context(), "k", ratelimit.Limits{limit}).Result()
		assert.Equal(t, c.ok, err == nil, "%v: %v", c.reply, err)
	}
	for _, reply := range []any{nil, "OK", []any{}, []any{int64(1), int64(2), int64(3), int64(4), "5"}} {
		_, err := ratelimit.New(answers{reply}).Throttle(t.Context(), "k", limit).Result()
		assert.Error(t, err, "%v", reply)
	}
}

// answers answers everything the same.
type answers struct{ reply any }

func (a answers) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.(interface{ SetVal(any) }).SetVal(a.reply)
	return nil
}
