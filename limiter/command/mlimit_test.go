// What CL.MLIMIT answers and writes. That it decides rightly is shown in package stack.
package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/limiter/command/words"
)

// rooms are large, so calls share them: only the latest few have their values.
var (
	rooms     [4]Many
	roomsUsed int
)

// many is a call on several keys, as the bridge gathers it: those that numkeys counts, if it counts
// as many as there are. A value that is empty is that of no key, and "list" stands for a list.
func many(values []string, line string) *Call {
	roomsUsed++
	c := &Call{In: &In{NowNs: nowNs}, Many: &rooms[1+roomsUsed%(len(rooms)-1)]}
	c.Keys = keysWithRoom()
	c.First = &c.Keys[0]
	for _, word := range strings.Fields(line) {
		c.Args = append(c.Args, []byte(word))
	}
	c.ArgCount = len(c.Args)
	c.hold(values)
	return c
}

func keysWithRoom() []Key {
	keys := make([]Key, MaxKeys)
	for i := range keys {
		keys[i].Room = make([]byte, 0, MaxValueLen)
	}
	return keys
}

func (c *Call) hold(values []string) {
	count := 0
	if len(c.Args) > 0 {
		count, _ = words.ParseCount(c.Args[0], MaxKeys)
	}
	if count > len(c.Args)-1 {
		count = 0
	}
	c.Keys = c.Keys[:count]
	for i := range c.Keys {
		c.Keys[i] = Key{Kind: Absent, Members: &Members{}, Room: c.Keys[i].Room}
		switch {
		case i >= len(values) || values[i] == "":
		case values[i] == "list":
			c.Keys[i].Kind = Other
		default:
			c.Keys[i].Kind, c.Keys[i].Value = String, []byte(values[i])
		}
	}
}

// effects are what becomes of each key, as one word.
func (c *Call) effects() (all string) {
	for i := range c.Keys {
		all += map[Effect]string{Keep: "k", Set: "s", Delete: "d"}[c.Keys[i].Effect]
	}
	return all
}

// A call with many words and many limits, more than are remembered.
func TestMLimitTakesEightKeysWithEightLimits(t *testing.T) {
	group := strings.TrimSpace(strings.Repeat(" FIXED 5/d OFFSET 1h TZ Europe/Berlin TAKE 1 SPARE 1 SHADOW", 7) + " RATE 9/s BURST 9 TAKE 1 SPARE 1")
	line := "8 a b c d e f g h " + strings.Join(slices.Repeat([]string{group}, 8), " NEXT ") + " COMPACT"
	c := many(nil, line)
	require.Greater(t, c.ArgCount, MaxArgs)
	require.LessOrEqual(t, c.ArgCount, MaxArgsOfKeys)
	c.Past = &Past{}
	for range 3 {
		c.hold(nil)
		c.Run(MLimit)
		require.Equal(t, ReplyIntegers, c.Reply, string(c.Error))
		assert.Equal(t, []int64{0, 8, 9, 7, -1, 112, 112, 1, 0, 0, 1}, c.Integers)
		assert.Equal(t, "ssssssss", c.effects())
	}
	c.ArgCount = MaxArgsOfKeys + 1
	c.Run(MLimit)
	assert.Equal(t, tooManyWords, string(c.Error))
}

// With one key it is CL.LIMIT, with a field more.
func TestMLimitOfOneKeyIsLimit(t *testing.T) {
	var past Past
	rapid.Check(t, func(t *rapid.T) {
		line, value := drawLimits(t), ""
		shared := Call{In: &In{NowNs: nowNs}, Keys: make([]Key, MaxKeys), Past: &past, Many: &rooms[0]}
		shared.First = &shared.Keys[0]
		for range 3 {
			words := line + drawOptions(t)
			alone := decide(Limit, value, "k "+words)
			for _, c := range []*Call{many([]string{value}, "1 k "+words), &shared} {
				if c == &shared {
					as := many([]string{value}, "1 k "+words)
					c.Args, c.ArgCount = as.Args, as.ArgCount
					c.hold([]string{value})
				}
				c.Run(MLimit)
				require.Equal(t, alone.Reply, c.Reply, words)
				require.Equal(t, string(alone.Error), strings.Replace(string(c.Error), "NEXT, ANY, ", "", 1), words)
				if alone.Reply == ReplyError {
					continue
				}
				require.Equal(t, append(slices.Clone(alone.Integers), 1), c.Integers, words)
				require.Equal(t, alone.Tally, c.Tally)
				require.Equal(t, alone.Shadowed, c.Shadowed)
				require.Equal(t, alone.First.Effect, c.Keys[0].Effect, words)
				if alone.First.Effect == Set {
					require.Equal(t, string(alone.First.NewValue), string(c.Keys[0].NewValue), words)
					require.Equal(t, alone.First.ExpireAtMs, c.Keys[0].ExpireAtMs)
				}
			}
			value = alone.First.leaves(value)
		}
	})
}

func drawLimits(t *rapid.T) (line string) {
	for range rapid.IntRange(1, 3).Draw(t, "limits") {
		line += rapid.SampledFrom([]string{"RATE 5/s", "RATE 2/m BURST 3", "RATE 7/h", "WINDOW 4/m", "FIXED 9/d", "FIXED 3/m FIRST", "FIXED 9/mo TZ Europe/Berlin"}).Draw(t, "limit")
		line += rapid.SampledFrom([]string{" ", " ", " TAKE 2 ", " SPARE 1 ", " SHADOW ", " TAKE 0 "}).Draw(t, "terms")
	}
	return strings.TrimSpace(line)
}

func drawOptions(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", " COST 2", " COST 3", " COST 9 UPTO", " STRICT", " FORCE", " FORCE COST 2", " MAXWAIT 10s", " MAXWAIT 1h COST 2", " BAN 1s", " STRICT BAN 1s", " COMPACT"}).Draw(t, "option")
}

// The notifications and CL.TOP are about the key that decided; of a shadow, about the shadow's.
func TestMLimitTalliesTheKeyThatDecided(t *testing.T) {
	keys := new(TopKeys)
	keys.Resize(10)
	ask := func(cmd *Command, values []string, line string) *Call {
		c := many(values, line)
		c.Top = keys
		c.Run(cmd)
		return c
	}
	empty := tatIn(nsPerSecond)
	for _, test := range []struct {
		values []string
		line   string
		tally  Tally
		key    int
		shadow bool
	}{
		{[]string{"", empty}, "2 a b RATE 5/s", Limited, 1, false},
		{[]string{"", ""}, "2 a b RATE 5/s NEXT RATE 4/s", Allowed, 1, false},
		{[]string{"", empty, ""}, "3 a b c RATE 9/s NEXT RATE 5/s SHADOW NEXT RATE 2/s", Allowed, 1, true},
		{[]string{"", banned(nsPerSecond, "")}, "2 a b RATE 5/s", Limited, 1, false},
		{[]string{empty, tatIn(nsPerSecond / 2)}, "2 a b RATE 1/s ANY", Limited, 1, false},
	} {
		c := ask(MLimit, test.values, test.line)
		assert.Equal(t, test.tally, c.Tally, test.line)
		assert.Equal(t, test.key, c.TallyKey, test.line)
		assert.Equal(t, test.shadow, c.Shadowed, test.line)
	}
	assert.Equal(t, ReplyWrongArity, ask(Top, nil, "1 SHADOW 2").Reply)
	assert.Equal(t, 1, ask(Top, nil, "1").RowCount)
	list := ask(Top, nil, "")
	require.Equal(t, ReplyRows, list.Reply)
	require.Equal(t, 1, list.RowCount)
	name, integers := list.Row(0)
	assert.Equal(t, "b", string(name))
	assert.Equal(t, int64(3), integers[1])
	list = ask(Top, nil, "SHADOW")
	require.Equal(t, 1, list.RowCount)
	name, integers = list.Row(0)
	assert.Equal(t, "b 1", fmt.Sprintf("%s %d", name, integers[1]))
}

func TestMLimitDoesNotAllocate(t *testing.T) {
	other := many(nil, "2 a b WINDOW 1/s RATE 1/s")
	for line, values := range map[string][]string{
		"2 a b RATE 5/s COMPACT":                                        nil,
		"2 a b RATE 5/s":                                                {"", tatIn(nsPerSecond)},
		"8 a b c d e f g h RATE 5/s BAN 1s":                             {"", tatIn(nsPerSecond)},
		"2 a b RATE 5/s WINDOW 9/m NEXT FIXED 5/d MAXWAIT":              nil,
		"3 a b c RATE 5/s NEXT RATE 6/s NEXT RATE 7/s ANY":              {tatIn(nsPerSecond), banned(nsPerSecond, "")},
		"3 a b c RATE 5/s NEXT RATE 9/m NEXT RATE 6/s ANY EACH COMPACT": nil,
		"2 a a RATE 5/s":                                                nil,
		"3 a RATE 5/s":                                                  nil,
	} {
		c := many(values, line)
		c.Past = &Past{}
		args, keys := c.Args, c.Keys
		assert.Zero(t, testing.AllocsPerRun(50, func() {
			c.Args, c.ArgCount, c.Keys = args, len(args), keys
			c.Run(MLimit)
			c.Run(MLimit)
			c.Args, c.ArgCount, c.Keys = other.Args, other.ArgCount, c.Keys[:2]
			c.Run(MLimit)
		}), line)
	}
}

func BenchmarkMLimit(b *testing.B) {
	for name, c := range map[string]*Call{
		"two keys":   many(nil, "2 {user:12345}:a {user:12345}:b RATE 5/s NEXT RATE 100/s COMPACT"),
		"two EACH":   many(nil, "2 {user:12345}:a {user:12345}:b RATE 5/s NEXT RATE 100/s COMPACT EACH"),
		"eight keys": many(nil, "8 k1 k2 k3 k4 k5 k6 k7 k8 RATE 5/s COMPACT"),
		"any":        many([]string{tatIn(nsPerSecond)}, "3 k1 k2 k3 RATE 5/s ANY COMPACT"),
	} {
		c.Past = &Past{}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Run(MLimit)
			}
		})
	}
}
