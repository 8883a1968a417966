package command

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
)

// Rapid's own default of 100 cases is made for slower code than this.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set(size.Of("300", "3000"))
	}
	m.Run()
}

// call is words, given as one line, before they are looked at.
func call(line string) *Call {
	c := &Call{In: &In{NowNs: nowNs}, First: &Key{}}
	for _, word := range strings.Fields(line) {
		c.Args = append(c.Args, []byte(word))
	}
	c.ArgCount = len(c.Args)
	return c
}

// requireError fails unless the call is this error and writes nothing.
func requireError(t testing.TB, c *Call, want, line string) {
	assert.Equal(t, ReplyError, c.Reply, line)
	assert.Equal(t, want, string(c.Error), line)
	assert.LessOrEqual(t, len(c.Error), MaxErrorLen, line)
	assert.Equal(t, Keep, c.First.Effect, line)
}

func TestTooManyWords(t *testing.T) {
	const tooMany = "ERR syntax error: too many arguments"
	longest := "k" + strings.Repeat(" RATE 5/s BURST 5 TAKE 1 SPARE 1 SHADOW", 8) + " COST 1 STRICT BAN 1s COMPACT"
	assert.LessOrEqual(t, call(longest).ArgCount, MaxArgs)
	assert.Equal(t, ReplyIntegers, decide(Limit, "", longest).Reply, "the longest that means something")

	for _, words := range []int{MaxArgs + 1, MaxArgs + 2, 1_000_000} {
		for _, line := range []string{
			"k RATE 5/s" + strings.Repeat(" STRICT", MaxArgs-3),
			"k" + strings.Repeat(" RATE 5/s BURST 5", 8) + strings.Repeat(" x", MaxArgs-33),
			"k" + strings.Repeat(" FIXED 5/s", (MaxArgs-2)/2) + " COST", // its value is not in view
		} {
			c := call(line)
			require.Len(t, c.Args, MaxArgs)
			c.ArgCount = words
			c.Run(Limit)
			requireError(t, c, tooMany, line)
		}
	}
	requireError(t, decide(Limit, "", "k RATE 5/s"+strings.Repeat(" STRICT", MaxArgs-3)),
		"ERR syntax error near 'STRICT': given twice", "as many as are in view")
}

// Syntax errors have tests of their own, in words.
func TestEveryErrorFitsItsBuffer(t *testing.T) {
	for _, text := range []string{tooManyWords, wrongType, wrongValue, wrongSet, tooManyIDs} {
		assert.LessOrEqual(t, len(text), MaxErrorLen)
	}
	c := call("k " + strings.Repeat("x", 1000))
	c.Run(Limit)
	assert.Same(t, &c.error[0], &c.Error[0], "in place")
}
