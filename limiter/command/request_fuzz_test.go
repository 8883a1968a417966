// Whatever words a client sends and whatever a key holds, there is one answer, it fits its
// buffers, what is written can be read again, and an error writes nothing.
package command

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/stack"
)

// separator stands between the words of a fuzzed line, so that words may be of any other bytes.
const separator = "|"

func FuzzRequest(f *testing.F) {
	stacked := valueAfter(f, "k RATE 5/s BURST 10 WINDOW 100/m FIXED 1000/d COST 3")
	reserved := valueAfter(f, "k RATE 5/s COST 5", "k RATE 5/s COST 5 MAXWAIT 1s")
	lifted := valueAfter(f, "k RATE 60/h BURST 10 RATE 60/m BURST 20 COST 5", "k RATE 60/h BURST 10 RATE 60/m BURST 20 COST 8 MAXWAIT 10m")
	forced := valueAfter(f, "k RATE 5/s WINDOW 100/m FIXED 1000/d COST 3000 FORCE")
	calendars := valueAfter(f, "k FIXED 1000/mo TZ Europe/Berlin OFFSET 6h FIXED 10/w FIXED 5/m FIRST COST 3")
	for _, seed := range []struct {
		command *Command
		line    string
		value   string
		now     int64
	}{
		{Limit, "k RATE 5/s BURST 10 WINDOW 100/m FIXED 1000/d COST 3 STRICT", stacked, nowNs},
		{Limit, "k RATE 5/s COST 3 MAXWAIT 500ms", reserved, nowNs},
		{Limit, "k RATE 1/100000d MAXWAIT 36500d", tatIn(5), math.MaxInt64},
		{Limit, "k WINDOW 9223372036854775807/ms FIXED 9223372036854775807/106751d COST 9223372036854775807", "", 0},
		{Limit, "k RATE 5/s RATE 5/s RATE 5/s RATE 5/s RATE 5/s RATE 5/s RATE 5/s RATE 5/s RATE 5/s", stacked, 1},
		{Limit, "k RATE 5/ BURST", "bar", nowNs},
		{Limit, "k RATE 0/s", "0", nowNs},
		{Peek, "k window 100/m cost 0", stacked, nowNs + 1},
		{Limit, "k RATE 5/1.5s BURST 10 WINDOW 100/0.25ms FIXED 1000/0.5d MAXWAIT 0.0000000001", stacked, nowNs},
		{Limit, "k RATE 5/0.5s COST 0 UPTO", tatIn(5 * nsPerSecond), nowNs},
		{Limit, "k RATE 60/h BURST 10 RATE 60/m BURST 20 COST 8 MAXWAIT 1.5h", lifted, nowNs},
		{Refund, "k RATE 60/h BURST 10 RATE 60/m BURST 20 COST 7", lifted, nowNs + 1},
		{Wait, "k RATE 60/h BURST 10 RATE 60/m BURST 20 TIMEOUT 0", lifted, nowNs},
		{Refund, "k FIXED 1000/d COST 9", stacked, nowNs},
		{Limit, "k COMPACT FIXED 1000/d COMPACT COST 9 compact", stacked, nowNs},
		{Peek, "k FIXED 1000/d COMPACT", stacked, nowNs},
		{Limit, "k FIXED 1000/mo TZ Europe/Berlin OFFSET 6h FIXED 10/w FIXED 5/m FIRST COST 2", calendars, nowNs},
		{Limit, "k FIXED 1000/mo TZ Europe/Berlin OFFSET 6h FIXED 10/w FIXED 5/m FIRST STRICT", calendars, nowNs - 1e15},
		{Refund, "k FIXED 5/m FIRST COST 2", calendars, nowNs + 1},
		{Limit, "k FIXED 5/292y OFFSET 99999d TZ Pacific/Apia", "", math.MaxInt64},
		{Limit, "k FIXED 5/1317624576693539401w FIRST", "", 0},
		{Peek, "k FIXED 5/d FIRST OFFSET 1s TZ", calendars, 0},
		{Wait, "k RATE 5/s TIMEOUT 0", reserved, nowNs},
		{Limit, "k RATE 5/s BURST 10 TAKE 2 SPARE 3 WINDOW 100/m SHADOW FIXED 1000/d TAKE 500 SHADOW COST 3", stacked, nowNs},
		{Limit, "k RATE 5/s BURST 10 SHADOW WINDOW 100/m SPARE 98 FIXED 1000/d SHADOW SPARE 1 COST 3 STRICT", stacked, nowNs},
		{Limit, "k RATE 5/s TAKE 9223372036854775807 SPARE 9223372036854775807 WINDOW 100/m FIXED 1000/d COST 9223372036854775807 FORCE", stacked, nowNs},
		{Limit, "k RATE 5/s SHADOW COST 5 FORCE BAN 1s", reserved, nowNs},
		{Limit, "k RATE 60/h BURST 10 RATE 60/m BURST 20 SHADOW COST 8 MAXWAIT 1.5h", lifted, nowNs},
		{Peek, "k RATE 5/s SPARE 5 FIXED 1000/d SHADOW", stacked, nowNs},
		{Refund, "k RATE 5/s TAKE 4 FIXED 1000/d TAKE 0 SHADOW", forced, nowNs},
		{Wait, "k RATE 5/s TAKE 4 SPARE 1 COST 0 TIMEOUT 0", reserved, nowNs},
		{Wait, "k WINDOW 100/m FIXED 1000/d TAKE 1000 TIMEOUT 0", stacked, nowNs},
		{Wait, "k RATE 5/s WINDOW 100/m COST 101 TIMEOUT 1s", "", nowNs},
		{Wait, "k RATE 5/s RATTE", "18446744073709551615", nowNs},
		{Throttle, "k 15 30 60 1", tatIn(5), nowNs},
		{Throttle, "k 1048575 1048576 1s 65536", "", nowNs},
		{Throttle, "k 0 1 9223372036 0", "18446744073709551615", 0},
		{Throttle, "k -1 +007 500ms 9223372036854775807", "bar", 1},
		{Throttle, "k 0 1 1.5s 1", tatIn(nsPerSecond), nowNs},
		{Throttle, "k 0 9000000000000000000 100000000000.5d 1", valueAfter(f, "k RATE 1/m", "k RATE 1/m MAXWAIT 5m", "k RATE 1/m MAXWAIT 5m"), nowNs - 1},
		{Throttle, "   ", "0", nowNs},
		// Found by the fuzzer.
		{Limit, " WINDOW 10/1 FIXED 1/1", "0", nowNs - 149},
		{Limit, "0", "0", -99},
		{Limit, " RATE 1/1", "A", nowNs},
		{Peek, " FIXED 10/d", "\x01\x03\x0100000000\b\x0000000000\x0200000000\v\x00\x01\x01000000000\x03\x00\x00O\x91\x94N\x00\x00\x04\x00ۙ\x010", nowNs},
		{Refund, " FIXED 1/1 FIXED", "0", nowNs},
		{Peek, " RATE 7/1", "0", nowNs},
		{Limit, " WINDOW 2/1 COST 2 STRICT", "", nowNs - 102},
		{Limit, "                                ", "0", nowNs - 79},
		{Wait, " window 1/1 cosX", "0", nowNs + 1},
		{Throttle, " 0 10000000000 1", "0", nowNs - 26},
		{Throttle, " 0 1 ", "0", nowNs + 23},
		{Peek, " \xe8\xff00 ", "0", nowNs - 91},
		{Limit, " window 1/1", "\x01\x03\x0100000000\x03\x00000", nowNs + 1},
		{Wait, " FIXED 1/1 \xe1\x8000", "", 0},
		{Limit, " FIXED 1/1 \xe1\x8000", "", 0},
		{Wait, " RATE 2/h RATE 1/m TIMEOUT 0", "\x02000000000", nowNs},
	} {
		f.Add(uint8(slices.Index(fuzzed, seed.command)), []byte(strings.ReplaceAll(seed.line, " ", separator)), []byte(seed.value), seed.now, true)
	}
	f.Add(uint8(slices.Index(fuzzed, Wait)), []byte("|RATE|1/1|TIMEOUT|0000000000000000000000000000000000000000A"), []byte(""), nowNs, false)
	reused := Call{In: &In{}, First: &Key{}, Past: &Past{}}
	f.Fuzz(func(t *testing.T, command uint8, line, value []byte, now int64, mayBlock bool) {
		if now < 0 {
			t.Skip("the server's clock is past 1970")
		}
		words := bytes.Split(line, []byte(separator))
		c := &Call{In: &In{NowNs: now, MayBlock: mayBlock, ArgCount: len(words), Args: words[:min(len(words), MaxArgs)]},
			First: &Key{Kind: String, Value: value}}
		if len(value) == 0 {
			c.First.Kind = Absent
		}
		index := fuzzed[int(command)%len(fuzzed)]
		lineWas, valueWas := slices.Clone(line), slices.Clone(value)
		c.Run(index)
		require.Equal(t, lineWas, line, "arguments are only looked at")
		require.Equal(t, valueWas, value, "the value is only looked at")
		other := call("k RATE 5/s")
		for i := range 3 { // as the next call after any other, as one that repeats it, and with one in between
			if i == 2 {
				reused.Args, reused.ArgCount = other.Args, other.ArgCount
				reused.Run(Peek)
			}
			reused.NowNs, reused.MayBlock, reused.First.Kind, reused.First.Value = c.NowNs, c.MayBlock, c.First.Kind, value
			reused.Args, reused.ArgCount = c.Args, c.ArgCount
			reused.Run(index)
			requireSameAnswer(t, c, &reused)
		}
		if index == Throttle {
			requireThrottle(t, c)
			return
		}
		requireOneAnswer(t, c, index)
		if c.First.Effect == Set {
			requireReadable(t, c, index)
		}
		if c.Reply == ReplyLater {
			before := slices.Clone(c.Before)
			c.Answer(Wait, true, c.WaitNs)
			requireOneAnswer(t, c, index)
			require.Len(t, before, c.stack.Len())
		}
	})
}

func requireSameAnswer(t require.TestingT, want, got *Call) {
	require.Equal(t, want.Reply, got.Reply)
	require.Equal(t, string(want.Error), string(got.Error))
	require.Equal(t, want.Integers, got.Integers)
	require.Equal(t, want.First.Effect, got.First.Effect)
	require.Equal(t, string(want.First.NewValue), string(got.First.NewValue))
	if want.First.Effect == Set {
		require.Equal(t, want.First.ExpireAtMs, got.First.ExpireAtMs)
	}
	if want.Reply == ReplyLater {
		require.Equal(t, want.WaitNs, got.WaitNs)
		require.Equal(t, want.Cost, got.Cost)
		require.Equal(t, want.Before, got.Before)
	}
}

// fuzzed are the commands that FuzzRequest runs.
var fuzzed = []*Command{Throttle, Limit, Peek, Refund, Wait}

func requireOneAnswer(t *testing.T, c *Call, index *Command) {
	switch c.Reply {
	case ReplyWrongArity:
		require.Less(t, c.ArgCount, index.least)
		require.Equal(t, Keep, c.First.Effect)
	case ReplyError:
		require.NotEmpty(t, c.Error)
		require.LessOrEqual(t, len(c.Error), MaxErrorLen)
		require.True(t, bytes.HasPrefix(c.Error, []byte("ERR ")) || bytes.HasPrefix(c.Error, []byte("WRONGTYPE ")))
		require.Equal(t, Keep, c.First.Effect)
	case ReplyFields, ReplyIntegers:
		requireFields(t, c, index)
	case ReplyLater:
		require.Equal(t, Wait, index)
		require.True(t, c.MayBlock)
		require.Positive(t, c.WaitNs)
		require.True(t, c.Cost > 0 || says(c, "TAKE"))
		require.Equal(t, Set, c.First.Effect)
	case ReplyInTurn:
		require.Equal(t, Wait, index)
		require.True(t, c.MayBlock && !c.stack.RatesOnly())
		require.Positive(t, c.LookNs)
	default:
		t.Fatalf("reply of kind %d", c.Reply)
	}
	if index == Peek {
		require.Equal(t, Keep, c.First.Effect)
	}
}

func requireFields(t *testing.T, c *Call, index *Command) {
	f := fieldsOf(t, c)
	require.Contains(t, []int64{0, 1}, f.limited)
	if f.rule == 0 {
		require.True(t, c.First.banned(c.NowNs) && f.limited == 1, "only a ban is no rule")
	} else {
		require.LessOrEqual(t, f.rule, int64(c.stack.Len()))
	}
	require.GreaterOrEqual(t, f.limit, int64(0)) // a limit of 0 lets nobody through
	require.True(t, f.remaining >= 0 && f.remaining <= f.limit)
	require.True(t, f.retry == stack.Never || f.limited == 1 && f.retry > 0, "retry after %d", f.retry)
	require.True(t, f.next >= 0 && f.next <= f.reset)
	require.Equal(t, f.next == 0, f.reset == 0)
	require.GreaterOrEqual(t, f.wait, int64(0))
	switch {
	case index == Refund:
		require.LessOrEqual(t, f.granted, int64(0))
	case index == Peek || f.limited == 1 && !says(c, "FORCE"):
		require.Zero(t, f.granted)
	default:
		require.GreaterOrEqual(t, f.granted, int64(0))
	}
}

// says reports whether a call has a word in it.
func says(c *Call, name string) bool {
	return slices.ContainsFunc(c.Args, func(word []byte) bool { return strings.ToUpper(string(word)) == name })
}

// requireThrottle fails unless the answer of CL.THROTTLE makes sense, and it reads what it writes.
func requireThrottle(t *testing.T, c *Call) {
	if c.Reply != ReplyIntegers {
		require.Contains(t, []ReplyKind{ReplyError, ReplyWrongArity}, c.Reply)
		require.Equal(t, Keep, c.First.Effect)
		return
	}
	limited, limit, remaining, retry, reset := c.Integers[0], c.Integers[1], c.Integers[2], c.Integers[3], c.Integers[4]
	require.Contains(t, []int64{0, 1}, limited)
	require.Positive(t, limit)
	require.True(t, remaining >= 0 && remaining <= limit)
	require.True(t, retry == -1 || limited == 1 && retry > 0)
	require.GreaterOrEqual(t, reset, int64(0))
	if c.First.Effect == Set {
		require.LessOrEqual(t, len(c.First.NewValue), MaxValueLen)
		require.Zero(t, c.First.ExpireAtMs%1000)
		again := &Call{In: &In{NowNs: c.NowNs, ArgCount: c.ArgCount, Args: c.Args}, First: &Key{Kind: String, Value: slices.Clone(c.First.NewValue)}}
		again.Run(Throttle)
		require.Equal(t, ReplyIntegers, again.Reply, string(again.Error))
	}
}

// requireReadable fails unless the value to be written is the state of the stack, outlives the call, and can be read by
// the same call again.
func requireReadable(t *testing.T, c *Call, index *Command) {
	require.NotEmpty(t, c.First.NewValue)
	require.LessOrEqual(t, len(c.First.NewValue), MaxValueLen)
	require.Zero(t, c.First.ExpireAtMs%1000)
	require.Greater(t, c.First.ExpireAtMs, c.NowNs/1_000_000)

	var s stack.Stack
	s.Load(c.stack.Limits(nil))
	state := c.First.NewValue
	if state[0] == banMark {
		if state = state[banLen:]; len(state) == 0 {
			return
		}
	}
	require.NoError(t, s.Decode(state))
	if index != Refund { // which adds no limits to a value
		require.Equal(t, state, s.Append(nil))
	}
	require.LessOrEqual(t, s.ExpireAt(c.NowNs), uint64(c.First.ExpireAtMs)*1_000_000)

	again := &Call{In: &In{NowNs: c.NowNs, MayBlock: c.MayBlock, ArgCount: c.ArgCount, Args: c.Args},
		First: &Key{Kind: String, Value: slices.Clone(c.First.NewValue)}}
	again.Run(index)
	require.Contains(t, []ReplyKind{ReplyFields, ReplyIntegers, ReplyLater, ReplyInTurn}, again.Reply)
}
