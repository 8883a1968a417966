// What CL.LIMIT and CL.PEEK answer and write.
package command

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ms = int64(time.Millisecond)

// decide runs a command whose words are given as one line, at nowNs on a key that holds
// value, or on none when value is empty.
func decide(command *Command, value, line string) *Call { return decideAt(nowNs, command, value, line) }

func decideAt(now int64, command *Command, value, line string) *Call {
	c := call(line)
	c.NowNs, c.MayBlock = now, true
	c.First.Kind, c.First.Value, c.First.Room = String, []byte(value), make([]byte, 0, MaxValueLen)
	if value == "" {
		c.First.Kind = Absent
	}
	c.Run(command)
	return c
}

// valueAfter is what a key holds after calls of CL.LIMIT at nowNs, or empty.
func valueAfter(t testing.TB, lines ...string) (value string) {
	for _, line := range lines {
		c := decide(Limit, value, line)
		require.Equal(t, ReplyFields, c.Reply, "%s: %s", line, c.Error)
		value = c.First.leaves(value)
	}
	return value
}

// leaves is what the key holds after a call that found value there.
func (k *Key) leaves(value string) string {
	switch k.Effect {
	case Set:
		return string(k.NewValue)
	case Delete:
		return ""
	}
	return value
}

// fields are an answer: limited, rule, limit, remaining; times in ms; granted.
type fields struct {
	limited, rule, limit, remaining, retry, reset, next, granted, wait int64
}

func fieldsOf(t testing.TB, c *Call) fields {
	require.Contains(t, []ReplyKind{ReplyFields, ReplyIntegers}, c.Reply, string(c.Error))
	require.Len(t, c.Integers, fieldsOfLimit)
	n := c.Integers
	require.True(t, n[9] >= 0 && n[9] <= int64(c.stack.Len()), "shadow %d", n[9])
	return fields{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]}
}

func TestNoCommandAllocates(t *testing.T) {
	const (
		stack     = "k RATE 5/s BURST 10 RATE 100000/h WINDOW 100/m FIXED 9/d"
		calendars = "k FIXED 1000/mo TZ Europe/Berlin FIXED 1000/w OFFSET 1d FIXED 1000/d OFFSET 6h TZ America/New_York FIXED 1000/m FIRST"
		counted   = "k FIXED 1/d BAN 1m AFTER 3/1h"
	)
	taken, inCalendars, empty := valueAfter(t, stack+" COST 3"), valueAfter(t, calendars), tatIn(nsPerSecond)
	for _, tt := range []struct {
		what        string
		cmd         *Command
		value, line string
	}{
		{"one rate", Limit, "", "k RATE 5/s"},
		{"denied", Limit, empty, "k RATE 5/s"},
		{"reserved", Limit, empty, "k RATE 5/s MAXWAIT 10s"},
		{"a stack", Limit, taken, strings.ToLower(stack) + " COST 4 STRICT"},
		{"a denied stack", Limit, taken, stack + " COST 8"},
		{"a strict stack", Limit, taken, stack + " COST 8 STRICT"},
		{"each of a stack", Limit, taken, stack + " EACH"},
		{"beside others", Limit, taken, "k RATE 7/s BURST 10"},
		{"a crowded window", Limit, crowdedWindow(t), "k WINDOW 100/m"},
		{"calendars", Limit, inCalendars, calendars},
		{"denied in calendars", Limit, inCalendars, calendars + " COST 1000"},
		{"another zone", Limit, "", "k FIXED 5/d TZ Asia/Tokyo"},
		{"the first denial", Limit, valueAfter(t, counted), counted},
		{"another denial", Limit, valueAfter(t, counted, counted), counted},
		{"the last denial", Limit, valueAfter(t, counted, counted, counted), counted},
		{"a syntax error", Limit, "", "k RATE 5/s BURST 10 RATTE"},
		{"a bad value", Limit, "bar", "k RATE 5/s"},
		{"too many limits", Limit, "", "k" + strings.Repeat(" FIXED 1/s", 9)},
		{"a long bad word", Limit, "", "k " + strings.Repeat("x", 10_000)},
		{"too long a limit", Limit, "", "k RATE 1/200000d"},
		{"a look", Peek, taken, stack + " COST 3"},
		{"a look at calendars", Peek, inCalendars, calendars},
		{"a refund", Refund, taken, stack + " COST 3"},
		{"a refund in calendars", Refund, inCalendars, calendars},
		{"a wait", Wait, empty, "k RATE 5/s RATE 9/m COST 3 TIMEOUT 1m"},
		{"what is stored", Inspect, taken, "k"},
		{"what is stored by the calendar", Inspect, inCalendars, "k"},
		{"throttle: allowed", Throttle, "", "k 15 30 60 1"},
		{"throttle: denied", Throttle, tatIn(32 * nsPerSecond), "k 15 30 60 1"},
		{"throttle: a look", Throttle, tatIn(32 * nsPerSecond), "k 15 30 60 0"},
		{"throttle: an error", Throttle, "bar", "k 15 30 60 1"},
	} {
		assert.Zero(t, allocsOf(tt.cmd, decide(tt.cmd, tt.value, tt.line)), tt.what)
	}
	waited := decide(Wait, empty, "k RATE 5/s TIMEOUT 1m")
	assert.Zero(t, testing.AllocsPerRun(100, func() { waited.Answer(Wait, true, ms) }))
}

// allocsOf counts the allocations of a call that repeats the one before and of one that
// does not.
func allocsOf(command *Command, c *Call) float64 {
	c.Past = &Past{}
	words, count := c.Args, c.ArgCount
	other := call("k WINDOW 1/s RATE 1/s FIXED 5/w TZ Asia/Seoul")
	return testing.AllocsPerRun(100, func() {
		c.Args, c.ArgCount = words, count
		c.Run(command)
		c.Run(command)
		c.Args, c.ArgCount = other.Args, other.ArgCount
		c.Run(command)
	})
}

// crowdedWindow is a value with more units taken, each at its own instant, than are remembered apart.
func crowdedWindow(t testing.TB) (value string) {
	value = valueAfter(t, "k WINDOW 100/m")
	for i := range 80 {
		c := decide(Limit, value, "k WINDOW 100/m")
		c.NowNs += int64(i) * 10 * ms
		c.Run(Limit)
		value = string(c.First.NewValue)
	}
	return value
}

func BenchmarkLimit(b *testing.B) {
	for name, c := range map[string]*Call{
		"one rate":   decide(Limit, tatIn(0), "user:12345 RATE 5/s BURST 16"),
		"denied":     decide(Limit, tatIn(nsPerSecond), "user:12345 RATE 5/s"),
		"three":      decide(Limit, valueAfter(b, "k RATE 5/s RATE 100/m RATE 1000/h"), "user:12345 RATE 5/s RATE 100/m RATE 1000/h"),
		"three EACH": decide(Limit, valueAfter(b, "k RATE 5/s RATE 100/m RATE 1000/h"), "user:12345 RATE 5/s RATE 100/m RATE 1000/h EACH"),
		"window 100": decide(Limit, crowdedWindow(b), "user:12345 WINDOW 100/m"),
		"fixed":      decide(Limit, valueAfter(b, "k FIXED 100/m"), "user:12345 FIXED 100/m"),
	} {
		c.NowNs += nsPerSecond
		c.Past = &Past{}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Run(Limit)
			}
			b.ReportMetric(float64(len(c.First.Value)), "bytes")
		})
	}
}

func TestARefundCountsWhatItGaveBack(t *testing.T) {
	const used = "k RATE 5/s COST 2"
	assert.Equal(t, int64(2), decide(Refund, valueAfter(t, used), "k RATE 5/s COST 3").Refunded)
}
