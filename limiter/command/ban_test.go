package command

import (
	"encoding/binary"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/limiter/stack"
)

// banned is a value with a ban in front that ends d ns from nowNs.
func banned(d int64, state string) string {
	return string(binary.LittleEndian.AppendUint64([]byte{banMark}, uint64(nowNs+d))) + state
}

func TestBanSetsProlongsAndLifts(t *testing.T) {
	const s = nsPerSecond
	state := tatIn(s)
	for _, test := range []struct {
		name, value, line string
		reply             int64 // ms
		effect            Effect
		want              string
	}{
		{"of nothing", "", "k 10s", 10_000, Set, banned(10*s, "")},
		{"of a rate", state, "k 1.5s", 1500, Set, banned(1500*ms, state)},
		{"of a stack", valueAfter(t, "k RATE 5/s WINDOW 9/m"), "k 1m", 60_000, Set, banned(60*s, valueAfter(t, "k RATE 5/s WINDOW 9/m"))},
		{"prolonged", banned(5*s, state), "k 10s", 10_000, Set, banned(10*s, state)},
		{"the same again", banned(10*s, state), "k 10s", 10_000, Keep, ""},
		{"never shortened", banned(20*s, state), "k 10s", 20_000, Keep, ""},
		{"after one that is over", banned(-5*s, state), "k 10s", 10_000, Set, banned(10*s, state)},
		{"lifted", banned(20*s, state), "k 0", 0, Set, state},
		{"lifted from nothing", banned(20*s, ""), "k 0", 0, Delete, ""},
		{"lifted, one that began in 1970", string([]byte{banMark, 1, 0, 0, 0, 0, 0, 0, 0}) + state, "k 0", 0, Set, state},
		{"lifted, the longest", string([]byte{banMark, 255, 255, 255, 255, 255, 255, 255, 127}) + state, "k 0", 0, Set, state},
		{"lifted without a ban", state, "k 0", 0, Keep, ""},
		{"lifted without a key", "", "k 0", 0, Keep, ""},
		{"of a list", "list", "k 1s", 0, Keep, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &Call{In: &In{NowNs: nowNs}, Key: &Key{Kind: String, Value: []byte(test.value)}}
			if test.value == "" {
				c.Kind = Absent
			}
			if test.value == "list" {
				c.Kind = Other
			}
			c.Args = call(test.line).Args
			c.ArgCount = len(c.Args)
			c.Run(Ban)
			if test.value == "list" {
				assert.Equal(t, wrongType, string(c.Error))
				return
			}
			require.Equal(t, ReplyInteger, c.Reply, string(c.Error))
			assert.Equal(t, []int64{test.reply}, c.Integers)
			require.Equal(t, test.effect, c.Effect)
			if c.Effect != Set {
				return
			}
			assert.Equal(t, test.want, string(c.NewValue))
			if test.reply == 0 {
				assert.Zero(t, c.ExpireAtMs, "as it was")
			} else {
				assert.GreaterOrEqual(t, c.ExpireAtMs, (nowNs+test.reply*ms)/1_000_000)
				assert.True(t, c.ExpireNoEarlier)
			}
		})
	}
}

func TestBanRefusesWhatIsNoTimeOrNoLimiter(t *testing.T) {
	for _, test := range []struct{ value, line, want string }{
		{"", "k -1", badBanDuration},
		{"", "k 1x", badBanDuration},
		{"", "k 10", "ERR duration: 10 needs a unit, such as 10ms or 10s"},
		{"", "k 1.5", "ERR duration: 1.5 needs a unit, such as 1.5ms or 1.5s"},
		{"", "k 1." + strings.Repeat("0", 50), badBanDuration},
		{"", "k 3153600001", badBanDuration},
		{"", "k 101000000h", badBanDuration},
		{"hello", "k 1s", wrongValue},
		{banned(1, "hello"), "k 1s", wrongValue},
		{banned(1, banned(1, "")), "k 1s", wrongValue},
		{banned(-nowNs, tatIn(1)), "k 1s", wrongValue},                                     // a ban until 0
		{string([]byte{banMark, 0, 0, 0, 0, 0, 0, 0, 128}) + tatIn(1), "k 1s", wrongValue}, // until 2^63
	} {
		c := decide(Ban, test.value, test.line)
		assert.Equal(t, test.want, string(c.Error), test.line)
		assert.Equal(t, Keep, c.Effect)
	}
	for _, line := range []string{"k", "k 1 2"} {
		assert.Equal(t, ReplyWrongArity, decide(Ban, "", line).Reply, line)
	}
}

// While a key is banned every decision on it is limited, and writes nothing.
func TestEveryDecisionOnABannedKeyIsLimited(t *testing.T) {
	const s = nsPerSecond
	for _, state := range []string{"", tatIn(s), valueAfter(t, "k RATE 5/s BURST 10 WINDOW 100/m")} {
		value := banned(1500*ms, state)
		for _, test := range []struct {
			command *Command
			line    string
		}{
			{Limit, "k RATE 5/s BURST 10"}, {Limit, "k RATE 5/s BURST 10 COST 0"}, {Limit, "k WINDOW 5/s BAN 1s"}, {Limit, "k RATE 5/s BAN 1h"}, {Limit, "k RATE 5/s BURST 5 MAXWAIT 1h"},
			{Limit, "k RATE 5/s COST 3 UPTO"}, {Limit, "k RATE 5/s STRICT BAN 1500ms"}, {Limit, "k RATE 5/s STRICT"}, {Peek, "k RATE 5/s"}, {Wait, "k RATE 5/s TIMEOUT 1h"},
		} {
			c := decide(test.command, value, test.line)
			f := fieldsOf(t, c)
			assert.Equal(t, []int64{1, 0, 0, 1500, 1500, 1500, 0, 0}, []int64{f.limited, f.rule, f.remaining, f.retry, f.reset, f.next, f.granted, f.wait}, test.line)
			assert.Equal(t, Keep, c.Effect, test.line)
		}
		c := decide(Throttle, value, "k 9 5 1")
		assert.Equal(t, []int64{1, 10, 0, 2, 2}, c.Integers)
		assert.Equal(t, Keep, c.Effect)
	}
}

// A caller that came back when only the ban is over would be limited again, and could be banned anew.
func TestTheWaitOfABannedKeyIsTheLongerOfBanAndLimits(t *testing.T) {
	const s = nsPerSecond
	midnight := (86400 - nowNs/s%86400) * 1000 // ms from now
	day, window, rate := valueAfter(t, "k FIXED 1/d"), valueAfter(t, "k WINDOW 1/m"), tatIn(10*s)
	for _, test := range []struct {
		command     *Command
		ban         int64
		state, line string
		retryMs     int64
	}{
		{Limit, s, day, "k FIXED 1/d BAN 1s", midnight},
		{Limit, s, day, "k FIXED 1/d STRICT BAN 2s", midnight},
		{Limit, s, day, "k FIXED 1/d COST 0", 1000},
		{Limit, s, day, "k FIXED 1/d COST 2", stack.Never},
		{Limit, s, "", "k FIXED 1/d COST 2", stack.Never},
		{Limit, s, day, "k FIXED 1/d SHADOW", 1000},
		{Limit, s, day, "k FIXED 2/d UPTO COST 9", 1000},
		{Limit, s, rate, "k RATE 1/s BURST 10", 1000},
		{Limit, s, rate, "k RATE 1/s BURST 10 COST 7", 7000},
		{Limit, s, rate, "k RATE 1/s BURST 10 COST 7 MAXWAIT 2s", 5000},
		{Limit, s, rate, "k RATE 1/s BURST 10 COST 7 MAXWAIT 1h", 1000},
		{Limit, 9 * s, rate, "k RATE 1/s BURST 10 COST 7 STRICT BAN 20s", 20_000},
		{Limit, s, rate, "k RATE 1/s BURST 10 FORCE", 2000},
		{Peek, s, window, "k WINDOW 1/m", 60_000},
		{Peek, 61 * s, window, "k WINDOW 1/m", 61_000},
		{Wait, s, window, "k WINDOW 1/m TIMEOUT 1h", 60_000},
		{Wait, s, rate, "k RATE 1/10s BURST 1 TIMEOUT 4s", 6000},
		{Wait, s, rate, "k RATE 1/10s BURST 1 TIMEOUT 0", 1000},
		{Throttle, s, rate, "k 0 1 10", 10},
		{Throttle, s, rate, "k 0 1 1 2", stack.Never},
		{Throttle, s, valueAfter(t, "k RATE 1/m MAXWAIT 1h", "k RATE 1/m MAXWAIT 1h"), "k 0 1 60", 120},
	} {
		c := decide(test.command, banned(test.ban, test.state), test.line)
		told := 4
		if test.command == Throttle {
			told = 3
		}
		assert.Equal(t, []int64{1, test.retryMs}, []int64{c.Integers[0], c.Integers[told]}, "%s %s", test.command.Name, test.line)
	}
}

// A caller of CL.WAIT that leaves is told the same.
func TestACallerThatLeavesABannedKeyIsToldWhenToComeBack(t *testing.T) {
	for state, want := range map[string]int64{"": 5000, tatIn(30 * nsPerSecond): 30_000} {
		c := call("k RATE 1/m BURST 1 TIMEOUT 1h")
		c.Kind, c.Value = String, []byte(banned(5*nsPerSecond, state))
		c.Answer(Wait, false, 0)
		f := fieldsOf(t, c)
		assert.Equal(t, []int64{1, 0, want}, []int64{f.limited, f.rule, f.retry})
	}
}

// A ban stands in front of a value. It does not make one valid.
func TestABanDoesNotHideWhatIsNoLimiter(t *testing.T) {
	for _, invalid := range []string{"hello", banned(1, ""), valueAfter(t, "k WINDOW 5/s") + "x"} {
		for command, line := range map[*Command]string{Limit: "k RATE 5/s", Peek: "k RATE 5/s", Wait: "k RATE 5/s TIMEOUT 1s", Refund: "k RATE 5/s", Throttle: "k 4 5 1", Ban: "k 1s"} {
			c := decide(command, banned(nsPerSecond, invalid), line)
			assert.Equal(t, wrongValue, string(c.Error), "%s of %q", command.Name, invalid)
			assert.Equal(t, Keep, c.Effect)
		}
		for _, line := range []string{"k FIXED 5/s TIMEOUT 1s", "k RATE 5/s STRICT BAN 1h", "k RATE 5/s FORCE"} {
			command := Limit
			if strings.Contains(line, "TIMEOUT") {
				command = Wait
			}
			assert.Equal(t, wrongValue, string(decide(command, banned(nsPerSecond, invalid), line).Error), line)
		}
		assert.Equal(t, wrongValue, string(decideMany([]string{"", banned(nsPerSecond, invalid)}, "2 a b RATE 5/s").Error))
	}
}

func TestALimitedCallBansWithBAN(t *testing.T) {
	const s = nsPerSecond
	state := tatIn(s)
	for _, test := range []struct {
		name, line  string
		limited     int64
		retry       int64
		effect      Effect
		wantBan     int64
		changesRate bool
	}{
		{"let through", "k RATE 5/s BURST 6 BAN 10m", 0, -1, Set, 0, true},
		{"limited", "k RATE 5/s BAN 10m", 1, 600_000, Set, 600 * s, false},
		{"a ban that is shorter than the wait", "k RATE 5/s BAN 100ms", 1, 200, Set, 100 * ms, false},
		{"never possible", "k RATE 5/s COST 6 BAN 10m", 1, -1, Keep, 0, false},
		{"no time", "k RATE 5/s BAN 0", 1, 200, Keep, 0, false},
		{"nothing asked for", "k RATE 5/s COST 0 BAN 10m", 0, -1, Keep, 0, false},
		{"charged by STRICT", "k RATE 5/s BURST 6 COST 2 STRICT BAN 10m", 1, 600_000, Set, 600 * s, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := decide(Limit, state, test.line)
			f := fieldsOf(t, c)
			assert.Equal(t, []int64{test.limited, test.retry}, []int64{f.limited, f.retry})
			require.Equal(t, test.effect, c.Effect)
			if test.wantBan == 0 {
				return
			}
			behind := string(c.NewValue[banLen:])
			assert.Equal(t, banned(test.wantBan, behind), string(c.NewValue))
			assert.Equal(t, test.changesRate, behind != state)
			assert.GreaterOrEqual(t, c.ExpireAtMs, (nowNs+test.wantBan)/1_000_000)
			assert.Equal(t, !test.changesRate, c.ExpireNoEarlier, "what is left as it is may be of other limits")
		})
	}
	c := decide(Limit, banned(500*ms, state), "k RATE 5/s STRICT BAN 1s")
	assert.Equal(t, banned(s, state), string(c.NewValue), "STRICT: each try begins the ban anew")
	f := fieldsOf(t, c)
	assert.Equal(t, []int64{1000, 1000, 1000}, []int64{f.retry, f.reset, f.next}, "and is told how long that is")
	for line, want := range map[string]string{
		"k RATE 5/s BAN 1m MAXWAIT 1m": "ERR syntax error near 'BAN': cannot go with MAXWAIT",
		"k RATE 5/s BAN":               "ERR syntax error near 'BAN': " + badBan,
		"k RATE 5/s BAN -1":            "ERR syntax error near '-1': " + badBan,
		"k RATE 5/s BAN 1m BAN 1m":     "ERR syntax error near 'BAN': given twice",
	} {
		assert.Equal(t, want, string(decide(Limit, "", line).Error), line)
	}
}

// Against a ban kept beside the limiter, over random histories with clocks that go back: a ban
// never shortens, and never changes the state behind it.
func TestBansStandBesideTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := nowNs
		var with, without string // what the key holds, and what it would without bans
		var until int64
		run := func(value *string, cmd *Command, line string) *Call {
			c := call(line)
			c.NowNs, c.Kind, c.Value = now, String, []byte(*value)
			if *value == "" {
				c.Kind = Absent
			}
			c.Run(cmd)
			if c.Effect != Keep && until <= now {
				until = 0 // a write forgets a ban that is over, also for a clock that is set back then
			}
			switch c.Effect {
			case Set:
				*value = string(c.NewValue)
			case Delete:
				*value = ""
			}
			return c
		}
		limits := rapid.SampledFrom([]string{"RATE 5/s", "RATE 5/s BURST 20 WINDOW 30/m", "FIXED 20/m"}).Draw(t, "limits")
		for range 40 {
			now += rapid.Int64Range(-nsPerSecond/2, 2*nsPerSecond).Draw(t, "step")
			switch rapid.IntRange(0, 4).Draw(t, "call") {
			case 0:
				d := rapid.Int64Range(1, 3000).Draw(t, "ms")
				ends := max(until, now+d*ms)
				run(&with, Ban, "k "+strconv.FormatInt(d, 10)+"ms")
				until = ends
			case 1:
				run(&with, Ban, "k 0")
				until = 0
			case 2:
				cost := strconv.Itoa(rapid.IntRange(0, 7).Draw(t, "units"))
				run(&with, Refund, "k "+limits+" COST "+cost)
				run(&without, Refund, "k "+limits+" COST "+cost)
			default:
				line := "k " + limits + " COST " + strconv.Itoa(rapid.IntRange(0, 7).Draw(t, "units"))
				got := run(&with, Limit, line)
				if until > now {
					require.EqualValues(t, 1, got.Integers[0])
					require.EqualValues(t, 0, got.Integers[1])
					limitsMs := int64(0) // the limits may take longer than the ban
					if answer := run(&without, Peek, line).Integers; answer[0] == 1 {
						limitsMs = answer[4]
					}
					require.Equal(t, stack.Longer(ceilMs(until-now), limitsMs), got.Integers[4])
					require.Equal(t, Keep, got.Effect)
					continue
				}
				want := run(&without, Limit, line)
				require.Equal(t, want.Integers, got.Integers)
			}
		}
	})
}
