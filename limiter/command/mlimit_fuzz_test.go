// Whatever words a client sends to CL.MLIMIT and whatever its keys hold, there is one answer, what is
// written can be read again, and an error writes nothing.
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

func FuzzMany(f *testing.F) {
	stacked := valueAfter(f, "k RATE 5/s BURST 10 WINDOW 100/m FIXED 1000/d COST 3")
	reserved := valueAfter(f, "k RATE 5/s COST 5", "k RATE 5/s COST 5 MAXWAIT 1s")
	lifted := valueAfter(f, "k RATE 60/h BURST 10 RATE 60/m BURST 20 COST 5", "k RATE 60/h BURST 10 RATE 60/m BURST 20 COST 8 MAXWAIT 10m")
	for _, seed := range []struct {
		line, first, others string
		now                 int64
	}{
		{"2 a b RATE 5/s NEXT RATE 100/s RATE 1000000/d COST 1", "", tatIn(5), nowNs},
		{"3 a b c RATE 5/s BURST 10 WINDOW 100/m FIXED 1000/d TAKE 4 SHADOW STRICT", stacked, stacked, nowNs},
		{"2 a b RATE 5/s COST 3 MAXWAIT 1m", reserved, lifted, nowNs},
		{"2 a b RATE 5/s NEXT RATE 60/h BURST 10 RATE 60/m BURST 20 COST 8 MAXWAIT 1h", reserved, lifted, nowNs},
		{"3 a b c RATE 5/s ANY MAXWAIT 36500d COMPACT", reserved, tatIn(5), nowNs},
		{"2 a b RATE 1/100000d ANY FORCE COST 9223372036854775807", tatIn(5), "", math.MaxInt64},
		{"4 a b c d WINDOW 9/m ANY UPTO COST 20", stacked, "", nowNs + 5},
		{"8 a b c d e f g h RATE 5/s SPARE 2 BAN 1s STRICT", tatIn(nsPerSecond), banned(nsPerSecond, tatIn(nsPerSecond)), nowNs},
		{"2 a b RATE 5/s FORCE", banned(nsPerSecond, ""), reserved, nowNs},
		{"2 a a RATE 5/s", "", "", 0},
		{"2 a b RATE 5/s NEXT", "bar", "", nowNs},
		{"9 a RATE 5/s next RATE 5/s", "", "", nowNs},
		{"1 a FIXED 1000/mo TZ Europe/Berlin OFFSET 6h FIXED 10/w FIXED 5/m FIRST COST 2", "", "", nowNs},
	} {
		f.Add([]byte(strings.ReplaceAll(seed.line, " ", separator)), []byte(seed.first), []byte(seed.others), seed.now)
	}
	reused := Call{In: &In{}, Keys: make([]Key, MaxKeys), Past: &Past{}, Many: &Many{}}
	reused.First = &reused.Keys[0]
	other := many(nil, "2 a b RATE 5/s NEXT RATE 6/s")
	room := &Many{}
	f.Fuzz(func(t *testing.T, line, first, others []byte, now int64) {
		if now < 0 {
			t.Skip("the server's clock is past 1970")
		}
		words := bytes.Split(line, []byte(separator))
		c := &Call{In: &In{NowNs: now, ArgCount: len(words), Args: words[:min(len(words), MaxArgsOfKeys)]}, Many: room}
		c.Keys = make([]Key, MaxKeys)
		c.First = &c.Keys[0]
		values := []string{string(first)}
		for range MaxKeys {
			values = append(values, string(others))
		}
		c.hold(values)
		c.Run(MLimit)
		for i := range 3 { // as the next call after any other, as one that repeats it, and with one in between
			if i == 2 {
				reused.Args, reused.ArgCount = other.Args, other.ArgCount
				reused.hold(nil)
				reused.Run(MLimit)
			}
			reused.NowNs, reused.Args, reused.ArgCount = c.NowNs, c.Args, c.ArgCount
			reused.hold(values)
			reused.Run(MLimit)
			requireSameAnswerOfKeys(t, c, &reused)
		}
		switch c.Reply {
		case ReplyWrongArity:
			require.Less(t, c.ArgCount, MLimit.least)
			requireNoEffect(t, c)
		case ReplyError:
			require.NotEmpty(t, c.Error)
			require.LessOrEqual(t, len(c.Error), MaxErrorLen)
			require.True(t, bytes.HasPrefix(c.Error, []byte("ERR ")) || bytes.HasPrefix(c.Error, []byte("WRONGTYPE ")))
			requireNoEffect(t, c)
		case ReplyFields, ReplyIntegers:
			requireFieldsOfKeys(t, c)
			requireReadableKeys(t, c)
		default:
			t.Fatalf("reply of kind %d", c.Reply)
		}
	})
}

func requireSameAnswerOfKeys(t require.TestingT, want, got *Call) {
	require.Equal(t, want.Reply, got.Reply)
	require.Equal(t, string(want.Error), string(got.Error))
	require.Equal(t, want.Integers, got.Integers)
	require.Equal(t, want.TallyKey, got.TallyKey)
	require.Len(t, got.Keys, len(want.Keys))
	for i := range want.Keys {
		a, b := &want.Keys[i], &got.Keys[i]
		require.Equal(t, a.Effect, b.Effect)
		if a.Effect == Set {
			require.Equal(t, string(a.NewValue), string(b.NewValue))
			require.Equal(t, a.ExpireAtMs, b.ExpireAtMs)
		}
	}
}

func requireNoEffect(t *testing.T, c *Call) {
	for i := range c.Keys {
		require.Equal(t, Keep, c.Keys[i].Effect)
	}
}

func requireFieldsOfKeys(t *testing.T, c *Call) {
	n := c.Integers
	require.Len(t, n, fieldsOfLimit+1)
	limited, rule, limit, remaining, retry, reset, next, granted, wait, shadow, key := n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10]
	require.Contains(t, []int64{0, 1}, limited)
	require.True(t, key >= 1 && key <= int64(len(c.Keys)), "key %d", key)
	limits, before, upTo := int64(0), int64(0), int64(0)
	for i := range c.Keys {
		if int64(i) == key-1 {
			before = limits
		}
		limits += int64(c.Many.stacks[i].Len())
		if int64(i) == key-1 {
			upTo = limits
		}
	}
	if rule == 0 {
		require.True(t, limited == 1 && c.Keys[key-1].banUntil > c.NowNs, "only a ban is no rule")
	} else {
		require.True(t, rule > before && rule <= upTo, "rule %d is none of key %d", rule, key)
	}
	require.True(t, shadow >= 0 && shadow <= limits)
	require.Positive(t, limit)
	require.True(t, remaining >= 0 && remaining <= limit)
	require.True(t, retry == stack.Never || limited == 1 && retry > 0)
	require.True(t, next >= 0 && next <= reset)
	require.GreaterOrEqual(t, wait, int64(0))
	require.GreaterOrEqual(t, granted, int64(0))
	if limited == 1 && !says(c, "FORCE") {
		require.Zero(t, granted)
	}
	effects := c.effects()
	changed := len(effects) - strings.Count(effects, "k")
	if says(c, "ANY") {
		require.LessOrEqual(t, changed, 1)
	}
	if changed == 1 && says(c, "ANY") {
		require.NotEqual(t, "k", effects[key-1:key], "the key that changes is the reply's")
	}
}

// requireReadableKeys fails unless what is to be written is what the stacks are, and outlives the call.
func requireReadableKeys(t *testing.T, c *Call) {
	for i := range c.Keys {
		key := &c.Keys[i]
		if key.Effect != Set {
			continue
		}
		require.NotEmpty(t, key.NewValue)
		require.LessOrEqual(t, len(key.NewValue), MaxValueLen)
		require.Zero(t, key.ExpireAtMs%1000)
		require.Greater(t, key.ExpireAtMs, c.NowNs/1_000_000)
		state := slices.Clone(key.NewValue)
		if state[0] == banMark {
			if state = state[banLen:]; len(state) == 0 {
				continue
			}
		}
		var s stack.Stack
		s.Load(c.Many.stacks[i].Limits(nil))
		require.NoError(t, s.Decode(state), "%x", state)
		require.Equal(t, state, s.Append(nil))
		require.LessOrEqual(t, s.ExpireAt(c.NowNs)/1_000_000, uint64(key.ExpireAtMs))
	}
}
