package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// lookAlikes are calls, in groups of those that could be taken for one another. An underscore is an empty word.
func lookAlikes() (groups [][]string) {
	var plans, many, pairs []string
	for _, plan := range []string{"RATE 1/s", "RATE 11/s", "RATE 1/1s", "RATE 1/s COST 1", "RATE 1/s COST 11", "rate 1/s", "RATE 1/s RATE 1/s",
		"RATE 1/s WINDOW 1/s", "WINDOW 1/s RATE 1/s", "FIXED 1/s", "RATE 1/s BURST 1", "RATE 1/s BURST 11", "RATE 1/s UPTO", "RATE 1/s STRICT"} {
		plans = append(plans, "LIMIT k "+plan, "PEEK k "+plan, "REFUND k "+plan)
	}
	for i := range 200 { // more than are remembered
		many = append(many, fmt.Sprintf("LIMIT k RATE %d/s BURST %d", i+1, i+2))
		pairs = append(pairs, fmt.Sprintf("THROTTLE k %d %d%d %d 1", i+1, i/10+1, i%10, i+1))
	}
	long, x := strings.Repeat("x", 512), strings.Repeat("x", 32)
	eight := strings.TrimSpace(strings.Repeat("RATE 5/s ", 8))
	return [][]string{
		plans, many, pairs,
		{"THROTTLE k 1 23 4", "THROTTLE k 12 3 4", "THROTTLE k 1 2 34", "THROTTLE k _ 123 4", "THROTTLE k 123 _ 4"},
		{"LIMIT k " + x + " 5/s", "THROTTLE k " + x + " 1 1", "LIMIT k RATE 5/s", "THROTTLE k 5 1 1"},
		{"MLIMIT 2 a b RATE 5/s NEXT RATE 6/s", "MLIMIT 3 a b c RATE 5/s NEXT RATE 6/s", "MLIMIT 1 a RATE 5/s NEXT RATE 6/s",
			"MLIMIT 2 a b RATE 5/s", "MLIMIT 3 a b c RATE 5/s", "MLIMIT 1 a RATE 5/s", "MLIMIT 2 a a RATE 5/s", "MLIMIT 2 a b RATE 5/s ANY",
			"MLIMIT 2 a b RATE 5/s COMPACT", "MLIMIT 1 a b RATE 5/s", "MLIMIT 2 a b RATE 5/s RATE 6/s", "MLIMIT 2 a b RATE 5/s BURST 7", "MLIMIT 2 a b RATE 6/m",
			"MLIMIT 2 a b RATE 5/s RATE 7/s NEXT RATE 6/s", "MLIMIT 2 a b RATE 5/s NEXT RATE 6/s RATE 7/s", "MLIMIT 2 a b " + eight + " NEXT " + eight,
			"MLIMIT 3 a b c " + eight + " NEXT " + eight + " NEXT RATE 5/s"},
		{"LEASE k SLOTS 9 TTL 30s ID a", "LEASE k SLOTS 9 TTL 30s ID other", "LEASE k SLOTS 9 TTL 30s ID " + long, "LEASE k SLOTS 9 TTL 30s ID x" + long,
			"LEASE k SLOTS 9 TTL 30s ID _", "LEASE k SLOTS 9 TTL 30s ID", "LEASE k SLOTS 9 TTL 30s ID b COMPACT", "LEASE k SLOTS 9 TTL 30s ID b COMPACT COMPACT",
			"LEASE k SLOTS 8 TTL 30s ID b COMPACT", "LEASE k ID b SLOTS 9 TTL 30s", "LEASE k TTL 30s SLOTS 9 ID b", "LEASE k SLOTS 00000000000000009 TTL 30s ID a",
			"LEASE k SLOTS 9 TTL 0.00000000000000001d ID a", "RENEW k ID a TTL 30s", "RENEW k ID nobody TTL 30s", "RENEW k ID a TTL 30",
			"RELEASE k ID a", "RELEASE k ID a b nobody a", "RELEASE k ID a _ b", "RELEASE k id a", "RELEASE k COUNT a", "RELEASE k ID"},
		// Of a long word only the ends would be compared.
		{"LEASE k SLOTS 1000000000000000000 TTL 30s ID c", "LEASE k SLOTS 1000000099900000000 TTL 30s ID c", "LEASE k SLOTS 10000000x0000000000 TTL 30s ID c"},
		{"LEASE k SLOTS 9 TTL 1000000001.00000000s ID c", "LEASE k SLOTS 9 TTL 1000000002.00000000s ID c", "LEASE k SLOTS 9 TTL 100000000s.00000000s ID c"},
		{"RENEW k ID a TTL 1000000001.00000000s", "RENEW k ID a TTL 1000000002.00000000s", "RENEW k ID a TTL 100000000s.00000000s"},
	}
}

// ask runs a call with the memory of earlier ones, or with none. Sets hold a and b.
func ask(calls *Past, line string) (c *Call, cmd *Command) {
	name, line, _ := strings.Cut(line, " ")
	cmd = Named([]byte("CL." + name))
	if cmd.Keys == CountedKeys {
		c = many(nil, line)
		for i := range c.Keys {
			c.Keys[i].Members = nil
		}
	} else {
		c = call(line)
	}
	for i, word := range c.Args {
		c.Args[i] = []byte(strings.ReplaceAll(string(word), "_", ""))
	}
	c.First.LineSlots, c.Past = NoSlots, calls
	if cmd.NamesAt > 0 {
		setOf("a", int(nowMs+5), "b", int(nowMs+6)).gather(c, cmd)
	}
	c.Run(cmd)
	return c, cmd
}

// whatComesOf is all that comes of a call.
func whatComesOf(c *Call) string {
	text := fmt.Sprint(c.Reply, c.Integers, string(c.Error), c.First.Effect, string(c.First.NewValue))
	for _, key := range c.Keys {
		text += fmt.Sprint(key.Effect, string(key.NewValue))
	}
	if m := c.First.Members; m != nil {
		text += fmt.Sprint(m.Add, m.AddScore, m.Remove, m.Event, m.Released)
	}
	return text
}

// What is remembered of a call answers for no other: callers take turns, and each is answered as if it were the only
// one.
func TestCallersThatTakeTurnsAreReadApart(t *testing.T) {
	groups := lookAlikes()
	rapid.Check(t, func(t *rapid.T) {
		calls := &Past{}
		some := rapid.SliceOfN(rapid.SampledFrom(groups), 1, 3).Draw(t, "groups")
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			line := rapid.SampledFrom(rapid.SampledFrom(some).Draw(t, "group")).Draw(t, "line")
			alone, _ := ask(nil, line)
			with, _ := ask(calls, line)
			require.Equal(t, whatComesOf(alone), whatComesOf(with), line)
		}
	})
}

// Calls that differ in their id or keys alone are remembered as one. Too many words or limits are not remembered, nor
// is a mistake.
func TestACallIsRememberedIfThereIsRoomForIt(t *testing.T) {
	group := func(n int, limit string) string { return strings.TrimSpace(strings.Repeat(limit+" ", n)) }
	full := group(7, "RATE 5/s BURST 5 TAKE 1 SPARE 0 SHADOW") // 63 words
	for _, tt := range []struct {
		line, again string
		remembered  bool
	}{
		{"MLIMIT 2 a b RATE 5/s", "MLIMIT 2 c d RATE 5/s", true},
		{"MLIMIT 2 a b " + group(8, "RATE 5/s") + " NEXT " + group(8, "RATE 5/s"), "", true},
		{"MLIMIT 3 a b c " + group(8, "RATE 5/s") + " NEXT " + group(8, "RATE 5/s") + " NEXT RATE 5/s", "", false},
		{"MLIMIT 2 a b " + full + " NEXT " + group(8, "RATE 5/s BURST 5"), "", true},
		{"MLIMIT 2 a b " + full + " NEXT " + group(8, "RATE 5/s BURST 5") + " COMPACT", "", false},
		{"LEASE k SLOTS 9 TTL 30s ID a", "LEASE k SLOTS 9 TTL 30s ID other", true},
		{"LEASE k SLOTS 9 TTL 30s ID a COMPACT", "LEASE k SLOTS 9 TTL 30s ID b", false},
		{"LEASE k ID b SLOTS 9 TTL 30s", "LEASE k ID a SLOTS 9 TTL 30s", true},
		{"LEASE k TTL 30s SLOTS 9 ID b", "LEASE k TTL 30s SLOTS 9 ID a", true},
		{"LEASE k SLOTS 9 TTL 30s ID a", "LEASE k SLOTS 9 TTL 30s ID x" + strings.Repeat("x", 512), false},
		{"RENEW k ID a TTL 30s", "RENEW k ID nobody TTL 30s", true},
		{"RENEW k ID a TTL 30", "", false},
		{"RELEASE k ID a", "", false},
	} {
		calls := &Past{}
		ask(calls, tt.line)
		again := tt.again
		if again == "" {
			again = tt.line
		}
		c, cmd := ask(&Past{}, again)
		if cmd.Keys == CountedKeys {
			assert.Equal(t, tt.remembered, calls.FindGroups(c.Args[1+len(c.Keys):], cmd.index) != nil, again)
		} else {
			assert.Equal(t, tt.remembered, calls.FindLease(c.Args, cmd.index, c.placeOfID()) != nil, again)
		}
	}
}

// Eight stacks of three rates that take turns, beside one alone.
func BenchmarkTurns(b *testing.B) {
	for _, plans := range []int{1, 8} {
		b.Run(fmt.Sprint(plans), func(b *testing.B) {
			c := Call{In: &In{}, First: &Key{}, Past: &Past{}}
			value := []byte(valueAfter(b, "k RATE 1000/m RATE 100000/h RATE 1000000/d"))
			var args [8][][]byte
			for i := range args {
				args[i] = call(fmt.Sprintf("k RATE 100%[1]d/m RATE 10000%[1]d/h RATE 100000%[1]d/d", i%plans)).Args
			}
			c.NowNs, c.ArgCount = nowNs+nsPerSecond, len(args[0])
			for i := 0; b.Loop(); i++ {
				c.Args, c.First.Kind, c.First.Value = args[i%len(args)], String, value
				c.Run(Limit)
			}
			require.Equal(b, ReplyFields, c.Reply)
		})
	}
}
