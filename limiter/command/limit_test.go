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
func decide(command *Command, value, line string) *Call {
	c := &Call{In: &In{NowNs: nowNs, MayBlock: true}, Key: &Key{Kind: String, Value: []byte(value), Room: make([]byte, 0, MaxValueLen)}}
	if value == "" {
		c.Kind = Absent
	}
	for _, word := range strings.Fields(line) {
		c.Args = append(c.Args, []byte(word))
	}
	c.ArgCount = len(c.Args)
	c.Run(command)
	return c
}

// valueAfter is what a key holds after calls of CL.LIMIT at nowNs, or empty.
func valueAfter(t testing.TB, lines ...string) (value string) {
	for _, line := range lines {
		c := decide(Limit, value, line)
		require.Equal(t, ReplyFields, c.Reply, "%s: %s", line, c.Error)
		if c.Effect == Set {
			value = string(c.NewValue)
		}
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
	taken := valueAfter(t, "k RATE 5/s BURST 10 RATE 100000/h WINDOW 100/m FIXED 9/d COST 3")
	for line, call := range map[string]*Call{
		"one rate":         decide(Limit, "", "k RATE 5/s"),
		"denied":           decide(Limit, tatIn(nsPerSecond), "k RATE 5/s"),
		"reserved":         decide(Limit, tatIn(nsPerSecond), "k RATE 5/s MAXWAIT 10s"),
		"a stack":          decide(Limit, taken, "k rate 5/s burst 10 RATE 100000/h WINDOW 100/m FIXED 9/d COST 3 STRICT"),
		"a denied stack":   decide(Limit, taken, "k RATE 5/s BURST 10 RATE 100000/h WINDOW 100/m FIXED 9/d COST 7"),
		"a strict stack":   decide(Limit, taken, "k RATE 5/s BURST 10 RATE 100000/h WINDOW 100/m FIXED 9/d COST 7 STRICT"),
		"beside others":    decide(Limit, taken, "k RATE 7/s BURST 10"),
		"a syntax error":   decide(Limit, "", "k RATE 5/s BURST 10 RATTE"),
		"a crowded window": decide(Limit, crowdedWindow(t), "k WINDOW 100/m"),
		"a bad value":      decide(Limit, "bar", "k RATE 5/s"),
		"too many limits":  decide(Limit, "", "k"+strings.Repeat(" FIXED 1/s", 9)),
		"a long bad word":  decide(Limit, "", "k "+strings.Repeat("x", 10_000)),
		"too long a limit": decide(Limit, "", "k RATE 1/200000d"),
	} {
		assert.Zero(t, allocsOf(Limit, call), line)
	}
	for name, c := range map[*Command]*Call{
		Peek:   decide(Peek, taken, "k RATE 5/s BURST 10 WINDOW 100/m FIXED 9/d COST 3"),
		Refund: decide(Refund, taken, "k RATE 5/s BURST 10 WINDOW 100/m FIXED 9/d COST 3"),
		Wait:   decide(Wait, tatIn(nsPerSecond), "k RATE 5/s RATE 9/m COST 3 TIMEOUT 1m"),
	} {
		assert.Zero(t, allocsOf(name, c), name)
	}
	waited := decide(Wait, tatIn(nsPerSecond), "k RATE 5/s TIMEOUT 1m")
	assert.Zero(t, testing.AllocsPerRun(100, func() { waited.Answer(Wait, true, ms) }))
}

// allocsOf counts the allocations of a call that repeats the one before and of one that
// does not.
func allocsOf(command *Command, c *Call) float64 {
	c.Past = &Past{}
	words, count := c.Args, c.ArgCount
	other := call("k WINDOW 1/s RATE 1/s")
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
		value = string(c.NewValue)
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
			b.ReportMetric(float64(len(c.Value)), "bytes")
		})
	}
}
