package ratelimit_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
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
		{ratelimit.Rate(1, 250*time.Microsecond), "RATE 1/0.25ms"},
		{ratelimit.Rate(1, 1500*time.Microsecond), "RATE 1/1.5ms"},
		{ratelimit.Rate(1, time.Second+time.Nanosecond), "RATE 1/1000.000001ms"},
		{ratelimit.Rate(1, math.MaxInt64), "RATE 1/9223372036854.775807ms"},
		{ratelimit.FixedWeeks(10, 1), "FIXED 10/1w"},
		{ratelimit.FixedMonths(5000, 3).Zone("Europe/Berlin"), "FIXED 5000/3mo TZ Europe/Berlin"},
		{ratelimit.FixedYears(7, 1).Offset(14 * day).Zone("Asia/Tokyo"), "FIXED 7/1y OFFSET 14d TZ Asia/Tokyo"},
		{ratelimit.Fixed(3, 10*time.Minute).First(), "FIXED 3/10m FIRST"},
		{ratelimit.Rate(60, time.Minute).Burst(5).Take(1).Spare(2).Shadow(), "RATE 60/1m BURST 5 TAKE 1 SPARE 2 SHADOW"},
		{ratelimit.Window(60, time.Minute).Take(0), "WINDOW 60/1m TAKE 0"},
		{ratelimit.Fixed(60, day).Offset(-time.Microsecond), "FIXED 60/1d OFFSET -0.001ms"},
	} {
		assert.Equal(t, c.words, c.limit.String())
	}
}

// option changes a call.
type option = func(*ratelimit.Call)

func call(key string, limits ratelimit.Limits, opts ...option) ratelimit.Call {
	c := ratelimit.Call{Keys: []ratelimit.Key{{Name: key, Limits: limits}}, Cost: 1}
	for _, o := range opts {
		o(&c)
	}
	return c
}

func verb(v ratelimit.Verb, key string, limits ratelimit.Limits, units int64) ratelimit.Call {
	return call(key, limits, func(c *ratelimit.Call) { c.Verb, c.Cost, c.NoCost = v, units, units == 0 })
}

func throttle(key string, limit ratelimit.Limit, units int64) ratelimit.Call {
	return verb(ratelimit.VerbThrottle, key, ratelimit.Limits{limit}, units)
}

// inLine is VerbWait; a timeout of 0 is as long as it takes.
func inLine(key string, limits ratelimit.Limits, timeout time.Duration) ratelimit.Call {
	return call(key, limits, func(c *ratelimit.Call) { c.Verb, c.MaxWait = ratelimit.VerbWait, timeout })
}

func cost(units int64) option {
	return func(c *ratelimit.Call) { c.Cost, c.NoCost = units, units == 0 }
}
func upTo(c *ratelimit.Call)         { c.Charge = charge.UpTo }
func strict(c *ratelimit.Call)       { c.Charge = charge.Strict }
func force(c *ratelimit.Call)        { c.Charge = charge.Force }
func maxWait(d time.Duration) option { return func(c *ratelimit.Call) { c.MaxWait = d } }
func ban(d time.Duration) option     { return func(c *ratelimit.Call) { c.Ban = d } }

// sent remembers what would be sent.
type sent struct{ args []any }

func (s *sent) Process(_ context.Context, cmd redis.Cmder) error {
	s.args = cmd.Args()
	return nil
}

func TestArgumentsOfEachCommand(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(5, time.Second).Burst(10), ratelimit.Fixed(100, day)}
	for _, c := range []struct {
		call ratelimit.Call
		want []any
	}{
		{throttle("k", limits[0], 1),
			[]any{"CL.THROTTLE", "k", int64(9), int64(5), int64(1), int64(1)}},
		{throttle("k", limits[0], 0), []any{"CL.THROTTLE", "k", int64(9), int64(5), int64(1), int64(0)}},
		{throttle("k", ratelimit.Rate(5, 1500*time.Millisecond), 1), []any{"CL.THROTTLE", "k", int64(4), int64(5), "1500ms", int64(1)}},
		{call("k", limits, cost(1)),
			[]any{"CL.LIMIT", "k", "RATE", "5/1s", "BURST", int64(10), "FIXED", "100/1d", "COMPACT"}},
		{call("k", limits[1:], cost(3), upTo), []any{"CL.LIMIT", "k", "FIXED", "100/1d", "COST", int64(3), "UPTO", "COMPACT"}},
		{call("k", limits[:1], maxWait(2500*time.Microsecond)), []any{"CL.LIMIT", "k", "RATE", "5/1s", "BURST", int64(10), "MAXWAIT", "2ms", "COMPACT"}},
		{verb(ratelimit.VerbPeek, "k", limits[1:], 3),
			[]any{"CL.PEEK", "k", "FIXED", "100/1d", "COST", int64(3), "COMPACT"}},
		{verb(ratelimit.VerbRefund, "k", limits[1:], 1),
			[]any{"CL.REFUND", "k", "FIXED", "100/1d", "COMPACT"}},
		{inLine("k", limits[:1], time.Minute),
			[]any{"CL.WAIT", "k", "RATE", "5/1s", "BURST", int64(10), "TIMEOUT", "1m", "COMPACT"}},
		{inLine("k", limits[:1], 0),
			[]any{"CL.WAIT", "k", "RATE", "5/1s", "BURST", int64(10), "TIMEOUT", "0ms", "COMPACT"}},
		{call("k", limits[1:], strict), []any{"CL.LIMIT", "k", "FIXED", "100/1d", "STRICT", "COMPACT"}},
		{call("k", limits[1:], force, ban(90*time.Second)), []any{"CL.LIMIT", "k", "FIXED", "100/1d", "FORCE", "BAN", "90s", "COMPACT"}},
		// CL.REFUND has no SPARE, and CL.LIMIT's limits are to serve for it.
		{verb(ratelimit.VerbRefund, "k", ratelimit.Limits{limits[1].Spare(5).Take(2).Shadow()}, 1), []any{"CL.REFUND", "k", "FIXED", "100/1d", "TAKE", int64(2), "SHADOW", "COMPACT"}},
		// The server's error is to be about what the caller wrote.
		{call("k", nil, cost(1)), []any{"CL.LIMIT", "k"}},
		{verb(ratelimit.VerbPeek, "k", nil, 3),
			[]any{"CL.PEEK", "k", "COST", int64(3), "COMPACT"}},
		// 0 would be to wait for ever.
		{inLine("k", limits[:1], time.Microsecond),
			[]any{"CL.WAIT", "k", "RATE", "5/1s", "BURST", int64(10), "TIMEOUT", "1ms", "COMPACT"}},
		{inLine("k", limits[:1], -time.Microsecond),
			[]any{"CL.WAIT", "k", "RATE", "5/1s", "BURST", int64(10), "TIMEOUT", "-1ms", "COMPACT"}},
	} {
		var s sent
		_, _ = ratelimit.New(&s, ratelimit.Options{}).Decide(t.Context(), c.call)
		assert.Equal(t, c.want, s.args)
	}
}

func TestWhatCannotBeALimitIsNotSent(t *testing.T) {
	t.Parallel()
	for wrong, limit := range map[string]ratelimit.Limit{
		"made by Rate, Window or Fixed": {},
		"a count of 0 lets":             ratelimit.Rate(0, time.Second).Burst(1),
		"the count -1":                  ratelimit.Window(-1, time.Second),
		"the period 0ms":                ratelimit.Fixed(1, 0),
		"the period -1s":                ratelimit.Rate(1, -time.Second),
		"the period 0mo":                ratelimit.FixedMonths(1, 0),
		"the period -1w":                ratelimit.FixedWeeks(1, -1),
		"the burst capacity 0":          ratelimit.Rate(1, time.Second).Burst(0),
		"only a Rate has a Burst":       ratelimit.Window(1, time.Second).Burst(5),
		"RATE: only a Fixed":            ratelimit.Rate(1, time.Second).First(),
		"WINDOW: only a Fixed":          ratelimit.Window(1, time.Second).Zone("UTC"),
		"neither Offset nor In":         ratelimit.Fixed(1, time.Second).First().Offset(time.Millisecond),
		"to Take, -1":                   ratelimit.Fixed(1, time.Second).Take(-1),
		"to Spare, -1":                  ratelimit.Fixed(1, time.Second).Spare(-1),
	} {
		var s sent
		l := ratelimit.New(&s, ratelimit.Options{})
		_, err := l.Limit(t.Context(), "k", ratelimit.Limits{limit}, 1)
		assert.ErrorContains(t, err, wrong)
		_, err = l.Decide(t.Context(), throttle("k", limit, 1))
		assert.Error(t, err, wrong)
		assert.Contains(t, limit.String(), wrong)
		assert.Nil(t, s.args, wrong)
	}
	var s sent
	_, err := ratelimit.New(&s, ratelimit.Options{}).Decide(t.Context(), throttle("k", ratelimit.Fixed(1, day), 1))
	require.ErrorContains(t, err, "takes a Rate")
	for _, limit := range []ratelimit.Limit{ratelimit.Rate(1, day).Take(1), ratelimit.Rate(1, day).Spare(1), ratelimit.Rate(1, day).Shadow()} {
		_, err = ratelimit.New(&s, ratelimit.Options{}).Decide(t.Context(), throttle("k", limit, 1))
		require.ErrorContains(t, err, "Take, Spare and Shadow")
	}
	assert.Nil(t, s.args)
}

// What a wrapper of the client, or a newer server, might hand back.
func TestRepliesThatMakeNoSenseAreErrors(t *testing.T) {
	t.Parallel()
	limit := ratelimit.Rate(5, time.Second)
	full := []any{int64(0), int64(1), int64(5), int64(4), int64(-1), int64(200), int64(200), int64(1), int64(0), int64(0)}
	with := func(i int, element any) []any {
		reply := slices.Clone(full)
		reply[i] = element
		return reply
	}
	named := []any{"limited", int64(0), "rule", int64(1), "limit", int64(5), "remaining", int64(4), "retry_after_ms", int64(-1),
		"reset_after_ms", int64(200), "next_after_ms", int64(200), "granted", int64(1), "wait_ms", int64(0), "shadow", int64(0)}
	fields := map[any]any{}
	for i := 0; i < len(named); i += 2 {
		fields[named[i]] = named[i+1]
	}
	type reply struct {
		reply any
		ok    bool
	}
	replies := []reply{
		{full, true},
		{append(slices.Clone(full), int64(7)), true},
		{append(slices.Clone(full), "text"), true},
		{with(1, int64(0)), false}, {with(1, int64(2)), false}, {with(1, int64(-1)), false},
		{with(9, int64(1)), true}, {with(9, int64(2)), false}, {with(9, int64(-1)), false},
		{named, false}, {fields, false},
		{nil, false}, {"OK", false}, {int64(0), false}, {map[any]any{}, false},
	}
	for i := range full {
		replies = append(replies, reply{full[:i], false}, reply{with(i, "0"), false}, reply{with(i, nil), false})
	}
	for _, c := range replies {
		got, err := ratelimit.New(answers{c.reply}, ratelimit.Options{}).Limit(t.Context(), "k", ratelimit.Limits{limit}, 1)
		assert.Equal(t, c.ok, err == nil, "%v: %v", c.reply, err)
		if !c.ok {
			assert.Zero(t, got, "%v", c.reply)
		}
	}
	for _, reply := range []any{nil, "OK", []any{}, []any{int64(1), int64(2), int64(3), int64(4), "5"}, full} {
		_, err := ratelimit.New(answers{reply}, ratelimit.Options{}).Decide(t.Context(), throttle("k", limit, 1))
		assert.Error(t, err, "%v", reply)
	}
}

// answers answers everything the same.
type answers struct{ reply any }

func (a answers) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.(interface{ SetVal(any) }).SetVal(a.reply)
	return nil
}

// Each integer has the place that docs/cl.limit.md gives its field.
func TestRepliesAreReadByPosition(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(5, time.Second), ratelimit.Fixed(100, day)}
	for _, c := range []struct {
		reply []any
		want  ratelimit.Result
	}{
		{[]any{int64(0), int64(2), int64(3), int64(4), int64(-1), int64(6), int64(7), int64(8), int64(9), int64(0)},
			ratelimit.Result{Rule: 1, Limit: 3, Remaining: 4,
				ResetAfter: 6 * time.Millisecond, NextAfter: 7 * time.Millisecond, Granted: 8, Wait: 9 * time.Millisecond}},
		{[]any{int64(1), int64(1), int64(3), int64(4), int64(5), int64(6), int64(7), int64(0), int64(0), int64(2), int64(11)},
			ratelimit.Result{Limited: true, Limit: 3, Remaining: 4, Shadowed: true, Shadow: 1,
				RetryAfter: 5 * time.Millisecond, ResetAfter: 6 * time.Millisecond, NextAfter: 7 * time.Millisecond}},
		{[]any{int64(1), int64(0), int64(3), int64(0), int64(5), int64(5), int64(5), int64(0), int64(0), int64(1)},
			ratelimit.Result{Limited: true, Banned: true, Limit: 3, Shadowed: true,
				RetryAfter: 5 * time.Millisecond, ResetAfter: 5 * time.Millisecond, NextAfter: 5 * time.Millisecond}},
		{[]any{int64(1), int64(1), int64(3), int64(4), int64(-1), int64(6), int64(7), int64(0), int64(0), int64(0)},
			ratelimit.Result{Limited: true, Limit: 3, Remaining: 4,
				RetryAfter: ratelimit.Never, ResetAfter: 6 * time.Millisecond, NextAfter: 7 * time.Millisecond}},
	} {
		got, err := ratelimit.New(answers{c.reply}, ratelimit.Options{}).Limit(t.Context(), "k", limits, 1)
		assert.NoError(t, err)
		c.want.Key, c.want.By = "k", "server"
		if c.want.Shadowed {
			c.want.ShadowKey = "k"
		}
		assert.Equal(t, c.want, got)
	}
}

// fails answers everything with an error of the server.
type fails struct{ err error }

func (f fails) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.SetErr(f.err)
	return f.err
}

// serverError is a reply that says what is wrong.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

// Version 0.1.0 of the module refuses COMPACT, with a list of words that differs by command.
func TestModuleThatIsTooOldIsToldApart(t *testing.T) {
	t.Parallel()
	for text, tooOld := range map[string]bool{
		"ERR unknown command 'CL.LIMIT', with args beginning with: 'k' 'RATE' ":                                     true,
		"ERR syntax error near 'COMPACT': expected RATE, WINDOW, FIXED, COST, UPTO, STRICT or MAXWAIT":              true,
		"ERR syntax error near 'COST': expected BURST, RATE, WINDOW, FIXED, COST, UPTO, STRICT, MAXWAIT or COMPACT": false,
		"ERR syntax error near '2000000000/s': at most 10^9 units per second":                                       false,
	} {
		_, err := ratelimit.New(fails{serverError(text)}, ratelimit.Options{}).Limit(t.Context(), "k", ratelimit.Limits{ratelimit.Rate(5, time.Second)}, 1)
		assert.Equal(t, tooOld, errors.Is(err, ratelimit.ErrNoModule), text)
		text, _, _ := strings.Cut(text, ", with args") // errors hold no key
		assert.ErrorContains(t, err, text)
		assert.NotContains(t, err.Error(), "'k'")
		assert.False(t, ratelimit.IsOutage(err), text)
	}
}
