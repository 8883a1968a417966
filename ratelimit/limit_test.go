package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
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

const day = 24 * time.Hour

// What spec/clients/calls.json does not say. The zero Cost is 1, as in every language, and no cost has to be asked for.
func TestTheWordsOfACall(t *testing.T) {
	t.Parallel()
	on := func(limits ...ratelimit.Limit) []ratelimit.Key { return []ratelimit.Key{{Name: "k", Limits: limits}} }
	five := on(ratelimit.Rate(5, time.Second))
	for want, call := range map[string]ratelimit.Call{
		"CL.LIMIT k RATE 5/1s COMPACT":                   {Keys: five},
		"CL.LIMIT k RATE 5/1s COST 2 COMPACT":            {Keys: five, Cost: 2},
		"CL.LIMIT k RATE 5/1s COST 0 COMPACT":            {Keys: five, NoCost: true},
		"CL.LIMIT k RATE 5/1s MAXWAIT 2ms COMPACT":       {Keys: five, MaxWait: 2500 * time.Microsecond},
		"CL.LIMIT k RATE 5/1s FORCE BAN 90s COMPACT":     {Keys: five, Charge: charge.Force, Ban: 90 * time.Second},
		"CL.PEEK k RATE 5/1s COMPACT":                    {Verb: ratelimit.VerbPeek, Keys: five},
		"CL.PEEK k RATE 5/1s COST 0 COMPACT":             {Verb: ratelimit.VerbPeek, Keys: five, NoCost: true},
		"CL.REFUND k RATE 5/1s COMPACT":                  {Verb: ratelimit.VerbRefund, Keys: five},
		"CL.REFUND k FIXED 100/1d TAKE 2 SHADOW COMPACT": {Verb: ratelimit.VerbRefund, Keys: on(ratelimit.Fixed(100, day).Spare(5).Take(2).Shadow())},
		"CL.THROTTLE k 4 5 1 1":                          {Verb: ratelimit.VerbThrottle, Keys: five},
		"CL.THROTTLE k 4 5 1 0":                          {Verb: ratelimit.VerbThrottle, Keys: five, NoCost: true},
		"CL.THROTTLE k 9 5 1500ms 1":                     {Verb: ratelimit.VerbThrottle, Keys: on(ratelimit.Rate(5, 1500*time.Millisecond).Burst(10))},
		"CL.MLIMIT 2 k k RATE 5/1s COMPACT":              {Keys: append(five, five...)},
		"CL.WAIT k RATE 5/1s TIMEOUT 1m COMPACT":         {Verb: ratelimit.VerbWait, Keys: five, MaxWait: time.Minute},
		"CL.WAIT k RATE 5/1s TIMEOUT 1ms COMPACT":        {Verb: ratelimit.VerbWait, Keys: five, MaxWait: time.Microsecond}, // 0 would be to wait for ever
		"CL.WAIT k RATE 5/1s TIMEOUT -1ms COMPACT":       {Verb: ratelimit.VerbWait, Keys: five, MaxWait: -time.Microsecond},
		"CL.LIMIT k":                                                  {Keys: on()}, // the server's error is to be about what the caller wrote
		"CL.MLIMIT 0":                                                 {},
		"CL.PEEK k COST 3 COMPACT":                                    {Verb: ratelimit.VerbPeek, Keys: on(), Cost: 3},
		"CL.LIMIT k FIXED 1000/7d COMPACT":                            {Keys: on(ratelimit.Fixed(1000, 7*day).Named("weekly").Unit("content-bytes"))},
		"CL.LIMIT k RATE 1/1000.000001ms COMPACT":                     {Keys: on(ratelimit.Rate(1, time.Second+time.Nanosecond))},
		"CL.LIMIT k RATE 1/9223372036854.775807ms COMPACT":            {Keys: on(ratelimit.Rate(1, math.MaxInt64))},
		"CL.LIMIT k RATE 60/1m BURST 5 TAKE 1 SPARE 2 SHADOW COMPACT": {Keys: on(ratelimit.Rate(60, time.Minute).Burst(5).Take(1).Spare(2).Shadow())},
		"CL.LIMIT k FIXED 60/1d OFFSET -0.001ms COMPACT":              {Keys: on(ratelimit.Fixed(60, day).Offset(-time.Microsecond))},
		"CL.LIMIT k FIXED 7/1y OFFSET 14d TZ Asia/Tokyo COMPACT":      {Keys: on(ratelimit.FixedYears(7, 1).Offset(14 * day).Zone("Asia/Tokyo"))},
	} {
		server := &said{}
		_, _ = ratelimit.New(server, ratelimit.Options{}).Decide(t.Context(), call)
		assert.Equal(t, want+"\n", fmt.Sprintln(server.words...))
	}
	server := &said{}
	_, _ = ratelimit.New(server, ratelimit.Options{}).Limit(t.Context(), "k", five[0].Limits, 0)
	assert.Equal(t, "CL.LIMIT k RATE 5/1s COST 0 COMPACT\n", fmt.Sprintln(server.words...), "a cost that is said")
}

// throttle is VerbThrottle.
func throttle(limit ratelimit.Limit) ratelimit.Call {
	return ratelimit.Call{Verb: ratelimit.VerbThrottle, Keys: []ratelimit.Key{{Name: "k", Limits: ratelimit.Limits{limit}}}}
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
		var s said
		l := ratelimit.New(&s, ratelimit.Options{})
		_, err := l.Limit(t.Context(), "k", ratelimit.Limits{limit}, 1)
		assert.ErrorContains(t, err, wrong)
		_, err = l.Decide(t.Context(), throttle(limit))
		assert.Error(t, err, wrong)
		assert.Contains(t, limit.String(), wrong)
		assert.Nil(t, s.words, wrong)
	}
	var s said
	_, err := ratelimit.New(&s, ratelimit.Options{}).Decide(t.Context(), throttle(ratelimit.Fixed(1, day)))
	require.ErrorContains(t, err, "takes a Rate")
	for _, limit := range []ratelimit.Limit{ratelimit.Rate(1, day).Take(1), ratelimit.Rate(1, day).Spare(1), ratelimit.Rate(1, day).Shadow()} {
		_, err = ratelimit.New(&s, ratelimit.Options{}).Decide(t.Context(), throttle(limit))
		require.ErrorContains(t, err, "Take, Spare and Shadow")
	}
	assert.Nil(t, s.words)
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
		_, err := ratelimit.New(answers{reply}, ratelimit.Options{}).Decide(t.Context(), throttle(limit))
		assert.Error(t, err, "%v", reply)
	}
}

// answers answers everything the same.
type answers struct{ reply any }

func (a answers) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.(interface{ SetVal(any) }).SetVal(a.reply)
	return nil
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
