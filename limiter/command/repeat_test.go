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

	long := make([]byte, 2*maxWordLen)
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
	for i := range 3 * memorySets * memoryWays {
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

func TestASetRemembersAsManyAsItHasRoomFor(t *testing.T) {
	var m memory[int]
	var same [][][]byte // words that share a set
	for i := 0; len(same) <= memoryWays; i++ {
		words := [][]byte{fmt.Append(nil, i)}
		if hash, ok := hashOf(words, 0); ok && hash%memorySets == 3 {
			same = append(same, words)
		}
	}
	for i, words := range same[:memoryWays] {
		assert.Nil(t, m.find(words, 0))
		*m.note(words, 0) = i
	}
	for i, words := range same[:memoryWays] {
		got := m.find(words, 0)
		require.NotNil(t, got)
		assert.Equal(t, i, *got)
		assert.Nil(t, m.find(words, 1), "what other options were allowed with")
	}
	assert.Nil(t, m.find(same[memoryWays], 0))
	*m.note(same[memoryWays], 0) = memoryWays
	assert.Nil(t, m.find(same[0], 0), "the oldest has made room")
	assert.NotNil(t, m.find(same[1], 0))
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
		require.Equal(t, tt.remembered, c.Past.findGroups(words, MLimit.index) != nil, tt.line)
		first := slices.Clone(c.Integers)
		c.hold(nil)
		c.Run(MLimit)
		assert.Equal(t, first, c.Integers)
	}
}

// Each byte of a word that is remembered counts.
func TestWordsThatDifferInOneByteDiffer(t *testing.T) {
	for n := range maxWordLen + 1 {
		word := []byte("0123456789abcdef"[:n])
		var p pastWords
		p.note([][]byte{word})
		assert.True(t, p.are([][]byte{word}))
		assert.False(t, p.are([][]byte{append(word[:n:n], 0)}), "longer")
		for i := range word {
			for bit := range 8 {
				other := []byte(string(word))
				other[i] ^= 1 << bit
				require.False(t, p.are([][]byte{other}), "%q", other)
			}
			require.False(t, p.are([][]byte{word[:i]}), "shorter")
		}
	}
}

// Plans that differ little must not crowd into a few sets.
func TestHashesOfPlansSpread(t *testing.T) {
	for name, plan := range map[string]string{
		"rate":      "RATE %d/s",
		"long rate": "RATE %d00/1000m",
		"burst":     "RATE 5/s BURST %d",
		"three":     "RATE 100%[1]d/m RATE 10000%[1]d/h RATE 100000%[1]d/d",
		"throttle":  "%d 30 60",
		"tail":      "RATE 1000000000/%dm",
		"in words":  "RATE 5/s BURST 7 COST %d",
	} {
		var sets [memorySets]int
		const plans = 64 * memorySets
		for i := range plans {
			words := call("k " + fmt.Sprintf(plan, i+1)).Args[1:]
			hash, ok := hashOf(words, 0)
			require.True(t, ok)
			sets[hash%memorySets]++
		}
		for _, n := range sets {
			assert.InDelta(t, plans/memorySets, n, plans/memorySets/2, name)
		}
	}
}

func TestWordsTooLongToRememberPushNothingOut(t *testing.T) {
	var m memory[int]
	short, long := [][]byte{[]byte("a")}, [][]byte{[]byte("a"), []byte(strings.Repeat("x", maxWordLen+1))}
	assert.Nil(t, m.find(short, 0))
	*m.note(short, 0) = 1
	for range 2 * memoryWays * memorySets {
		assert.Nil(t, m.find(long, 0))
		assert.Nil(t, m.note(long, 0))
	}
	assert.NotNil(t, m.find(short, 0))
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
