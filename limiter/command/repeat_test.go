package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What is remembered of a call must never answer for another.
func TestCallsThatLookAlikeAreReadApart(t *testing.T) {
	call := func(c *Call, index *Command, words ...string) *Call {
		c.NowNs, c.Kind, c.Value = nowNs, Absent, nil
		c.Args = [][]byte{[]byte("k")}
		for _, word := range words {
			c.Args = append(c.Args, []byte(word))
		}
		c.ArgCount = len(c.Args)
		c.Run(index)
		return c
	}
	c := Call{In: &In{}, Key: &Key{}, Past: &Past{}}
	limit := func(words ...string) int64 { return call(&c, Throttle, words...).Integers[1] }
	assert.Equal(t, int64(2), limit("1", "23", "4"))
	assert.Equal(t, int64(13), limit("12", "3", "4"), "the same bytes, divided otherwise")
	assert.Equal(t, int64(13), limit("12", "3", "4"))
	assert.Equal(t, badMaxBurst, string(call(&c, Throttle, "", "123", "4").Error))
	assert.Equal(t, int64(13), limit("12", "3", "4"))

	assert.Equal(t, int64(5), call(&c, Limit, "RATE", "5/s", "COST", "2").Integers[2])
	assert.Equal(t, int64(2), call(&c, Limit, "RATE", "5/s", "COST", "2").Integers[7])
	assert.Equal(t, int64(1), call(&c, Limit, "RATE", "5/s").Integers[7])
	assert.Equal(t, int64(6), call(&c, Limit, "RATE", "6/s").Integers[2])
	call(&c, Limit, "RATE", "5/s", "UPTO")
	assert.Equal(t, "ERR syntax error near 'UPTO': expected BURST, TAKE, SPARE, SHADOW, RATE, WINDOW, FIXED, COST, COMPACT or EACH", string(call(&c, Peek, "RATE", "5/s", "UPTO").Error),
		"a word that is right for another command")
	assert.Zero(t, call(&c, Peek, "RATE", "5/s").Integers[7])

	long := make([]byte, 32)
	for i := range long {
		long[i] = 'x'
	}
	assert.Equal(t, ReplyError, call(&c, Limit, string(long), "5/s").Reply)
	assert.Equal(t, ReplyError, call(&c, Throttle, string(long), "1", "1").Reply)
	assert.Equal(t, int64(13), limit("12", "3", "4"))
}

// Callers with different limits take turns: more of them than are remembered, some in the same
// place, and each is answered as if it were the only one.
func TestCallersThatTakeTurnsAreReadApart(t *testing.T) {
	plans := []string{"RATE 1/s", "RATE 11/s", "RATE 1/1s", "RATE 1/s COST 1", "RATE 1/s COST 11", "rate 1/s", "RATE 1/s RATE 1/s",
		"RATE 1/s WINDOW 1/s", "WINDOW 1/s RATE 1/s", "FIXED 1/s", "RATE 1/s BURST 1", "RATE 1/s BURST 11", "RATE 1/s UPTO", "RATE 1/s STRICT"}
	for i := range 200 {
		plans = append(plans, fmt.Sprintf("RATE %d/s BURST %d", i+1, i+2))
	}
	shared := Call{In: &In{}, Past: &Past{}}
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SliceOfN(rapid.SampledFrom(plans), 1, 12).Draw(t, "plans")
		for range 3 * len(few) {
			line := "k " + rapid.SampledFrom(few).Draw(t, "plan")
			command := rapid.SampledFrom([]*Command{Limit, Peek, Refund}).Draw(t, "command")
			requireAsAlone(t, &shared, command, line)
			n := rapid.IntRange(1, 200).Draw(t, "n")
			requireAsAlone(t, &shared, Throttle, fmt.Sprintf("k %d %d%d %d 1", n, n/10+1, n%10, n))
		}
	})
}

// requireAsAlone fails unless a call that remembers others decides as one that remembers none.
func requireAsAlone(t require.TestingT, shared *Call, command *Command, line string) {
	alone := call(line)
	alone.Run(command)
	shared.Key = &Key{}
	shared.NowNs, shared.Args, shared.ArgCount = alone.NowNs, alone.Args, alone.ArgCount
	shared.Run(command)
	requireSameAnswer(t, alone, shared)
}

// A call of CL.MLIMIT is remembered if there is room for its words and its limits.
func TestLongCallsOnSeveralKeysAreReadAgain(t *testing.T) {
	group := func(n int, limit string) string { return strings.TrimSpace(strings.Repeat(limit+" ", n)) }
	full := group(7, "RATE 5/s BURST 5 TAKE 1 SPARE 0 SHADOW") // 63 words
	for _, tt := range []struct {
		line          string
		words, limits int
		remembered    bool
	}{
		{"2 a b RATE 5/s", 2, 1, true},
		{"2 a b RATE 5/s NEXT RATE 6/s", 5, 2, true},
		{"2 a b " + group(8, "RATE 5/s") + " NEXT " + group(8, "RATE 5/s"), 33, 16, true},
		{"3 a b c " + group(8, "RATE 5/s") + " NEXT " + group(8, "RATE 5/s") + " NEXT RATE 5/s", 36, 17, false},
		{"2 a b " + full + " NEXT " + group(8, "RATE 5/s BURST 5"), 96, 15, true},
		{"2 a b " + full + " NEXT " + group(8, "RATE 5/s BURST 5") + " COMPACT", 97, 15, false},
	} {
		c := many(nil, tt.line)
		c.Past = &Past{}
		c.Run(MLimit)
		require.Contains(t, []ReplyKind{ReplyFields, ReplyIntegers}, c.Reply, string(c.Error))
		words := c.Args[1+len(c.Keys):]
		require.Len(t, words, tt.words)
		require.Equal(t, tt.remembered, c.Past.FindGroups(words, MLimit.index) != nil, tt.line)
		first := slices.Clone(c.Integers)
		c.hold(nil)
		c.Run(MLimit)
		assert.Equal(t, first, c.Integers)
	}
}

// askLease runs a call about leases on a key that holds a and b, with the memory of earlier calls, or with none.
func askLease(calls *Past, cmd *Command, line string) *Call {
	c := call("k " + line)
	for i, word := range c.Args {
		c.Args[i] = []byte(strings.ReplaceAll(string(word), "_", ""))
	}
	c.NowNs, c.LineSlots, c.Past = nowNs, NoSlots, calls
	setOf("a", int(nowMs+5), "b", int(nowMs+6)).gather(c, cmd)
	c.Run(cmd)
	return c
}

// A call about leases is remembered whatever its id, and wrong words after a right call are still wrong.
func TestCallsAboutLeasesAreRememberedWhateverTheID(t *testing.T) {
	long := strings.Repeat("x", 512)
	calls := &Past{}
	for _, tt := range []struct {
		cmd        *Command
		line       string
		remembered bool
	}{
		{Lease, "SLOTS 9 TTL 30s ID a", false},
		{Lease, "SLOTS 9 TTL 30s ID other", true},
		{Lease, "SLOTS 9 TTL 30s ID " + long, true},
		{Lease, "SLOTS 9 TTL 30s ID x" + long, false},
		{Lease, "SLOTS 9 TTL 30s ID _", false}, // an empty one
		{Lease, "SLOTS 9 TTL 30s ID", false},
		{Lease, "SLOTS 9 TTL 30s ID a COMPACT", false},
		{Lease, "SLOTS 9 TTL 30s ID b COMPACT", true},
		{Lease, "SLOTS 9 TTL 30s ID b COMPACT COMPACT", false},
		{Lease, "SLOTS 8 TTL 30s ID b COMPACT", false},
		{Lease, "ID b SLOTS 9 TTL 30s", false},
		{Lease, "ID a SLOTS 9 TTL 30s", true},
		{Lease, "TTL 30s SLOTS 9 ID b", false},
		{Lease, "TTL 30s SLOTS 9 ID a", true},
		{Renew, "ID a TTL 30s", false},
		{Renew, "ID b TTL 30s", true},
		{Renew, "ID nobody TTL 30s", true},
		{Renew, "ID a TTL 30", false},
		{Lease, "SLOTS 9 TTL 30s ID a", true},
		{Lease, "SLOTS 00000000000000009 TTL 30s ID a", false},
		{Lease, "SLOTS 9 TTL 0.00000000000000001d ID a", false},
		{Release, "ID a", false},
		{Release, "ID a b nobody a", false},
		{Release, "ID a _ b", false},
		{Release, "ID " + long + " x" + long, false},
		{Release, "id a", false},
		{Release, "COUNT a", false},
		{Release, "ID", false},
	} {
		c := call("k " + tt.line)
		for i, word := range c.Args {
			c.Args[i] = []byte(strings.ReplaceAll(string(word), "_", ""))
		}
		c.cmd, c.Past, c.LineSlots, c.NowNs = tt.cmd, calls, NoSlots, nowNs
		setOf("a", int(nowMs+5)).gather(c, tt.cmd)
		assert.Equal(t, tt.remembered, c.Past.FindLease(c.Args, c.cmd.index, c.placeOfID()) != nil, "%s %s", tt.cmd.Name, tt.line)
		with, without := askLease(calls, tt.cmd, tt.line), askLease(nil, tt.cmd, tt.line)
		assert.Equal(t, shownLease(without), shownLease(with), "%s %s", tt.cmd.Name, tt.line)
	}
}

// Of a long word only the ends would be compared: the next one may differ in the middle, or be wrong there.
func TestCallsAboutLeasesWithLongWordsAreReadAgain(t *testing.T) {
	for _, tt := range []struct {
		cmd   *Command
		lines []string
	}{
		{Lease, []string{"SLOTS 1000000000000000000 TTL 30s ID c", "SLOTS 1000000099900000000 TTL 30s ID c", "SLOTS 10000000x0000000000 TTL 30s ID c"}},
		{Lease, []string{"SLOTS 9 TTL 1000000001.00000000s ID c", "SLOTS 9 TTL 1000000002.00000000s ID c", "SLOTS 9 TTL 100000000s.00000000s ID c"}},
		{Renew, []string{"ID a TTL 1000000001.00000000s", "ID a TTL 1000000002.00000000s", "ID a TTL 100000000s.00000000s"}},
	} {
		calls := &Past{}
		for _, line := range append(tt.lines, tt.lines...) {
			with, without := askLease(calls, tt.cmd, line), askLease(nil, tt.cmd, line)
			assert.Equal(t, shownLease(without), shownLease(with), "%s %s", tt.cmd.Name, line)
		}
	}
}

// shownLease is all that comes of a call about leases.
func shownLease(c *Call) string {
	return fmt.Sprint(c.Reply, c.Integers, string(c.Error), c.Effect, c.Members.Add, c.Members.AddScore, c.Members.Remove, c.Members.Event, c.Members.Released)
}

// Eight stacks of three rates that take turns, beside one alone.
func BenchmarkTurns(b *testing.B) {
	for _, plans := range []int{1, 8} {
		b.Run(fmt.Sprint(plans), func(b *testing.B) {
			c := Call{In: &In{}, Key: &Key{}, Past: &Past{}}
			value := []byte(valueAfter(b, "k RATE 1000/m RATE 100000/h RATE 1000000/d"))
			var args [8][][]byte
			for i := range args {
				args[i] = call(fmt.Sprintf("k RATE 100%[1]d/m RATE 10000%[1]d/h RATE 100000%[1]d/d", i%plans)).Args
			}
			c.NowNs, c.ArgCount = nowNs+nsPerSecond, len(args[0])
			for i := 0; b.Loop(); i++ {
				c.Args, c.Kind, c.Value = args[i%len(args)], String, value
				c.Run(Limit)
			}
			require.Equal(b, ReplyFields, c.Reply)
		})
	}
}
