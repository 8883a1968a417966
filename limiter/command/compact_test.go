package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
