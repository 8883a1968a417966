package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// COMPACT changes how a call is answered, and nothing else.
func TestCompactIsTheFieldsWithoutTheirNames(t *testing.T) {
	value := valueAfter(t, "k RATE 5/s BURST 10 COST 9")
	for _, test := range []struct {
		command *Command
		line    string
	}{
		{Limit, "k RATE 5/s BURST 10"},
		{Limit, "k RATE 5/s BURST 10 COST 2"},
		{Limit, "k RATE 5/s BURST 10 COST 5 UPTO"},
		{Limit, "k RATE 5/s BURST 10 COST 5 STRICT"},
		{Limit, "k RATE 5/s BURST 10 COST 5 MAXWAIT 1m"},
		{Limit, "k RATE 5/s BURST 10 WINDOW 7/m FIXED 8/h"},
		{Peek, "k RATE 5/s BURST 10 COST 2"},
		{Refund, "k RATE 5/s BURST 10 COST 2"},
		{Wait, "k RATE 5/s BURST 10 TIMEOUT 1s"},
		{Wait, "k RATE 5/s BURST 10 COST 9 TIMEOUT 1ms"},
	} {
		named := decide(test.command, value, test.line)
		for _, word := range []string{" COMPACT", " compact"} {
			compact := decide(test.command, value, test.line+word)
			require.Equal(t, ReplyFields, named.Reply, test.line)
			assert.Equal(t, ReplyIntegers, compact.Reply, test.line)
			assert.Equal(t, named.Integers, compact.Integers, test.line)
			assert.Equal(t, named.Effect, compact.Effect, test.line)
			assert.Equal(t, string(named.NewValue), string(compact.NewValue), test.line)
			assert.Equal(t, named.Tally, compact.Tally, test.line)
		}
	}
}

// The answer to a caller that waited has the form that it asked for, whatever was asked for in
// between.
func TestCompactOfACallerThatWaited(t *testing.T) {
	c := decide(Wait, valueAfter(t, "k RATE 5/s COST 5"), "k RATE 5/s TIMEOUT 1s COMPACT")
	require.Equal(t, ReplyLater, c.Reply)
	args := c.Args
	named := call("k RATE 5/s")
	c.Args, c.ArgCount = named.Args, named.ArgCount
	c.Run(Limit)
	require.Equal(t, ReplyFields, c.Reply)
	c.Args, c.ArgCount = args, len(args)
	c.Answer(Wait, true, 7)
	assert.Equal(t, ReplyIntegers, c.Reply)
	assert.Len(t, c.Integers, len(limitFields))
}
