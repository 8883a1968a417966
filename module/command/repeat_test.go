package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
	c := Call{Key: &Key{}}
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
	assert.Equal(t, "ERR syntax error near 'UPTO': expected BURST, RATE, WINDOW, FIXED, COST or COMPACT", string(call(&c, Peek, "RATE", "5/s", "UPTO").Error),
		"a word that is right for another command")
	assert.Zero(t, call(&c, Peek, "RATE", "5/s").Integers[7])

	long := make([]byte, 2*maxWordsLen)
	for i := range long {
		long[i] = 'x'
	}
	assert.Equal(t, ReplyError, call(&c, Limit, string(long), "5/s").Reply)
	assert.Equal(t, ReplyError, call(&c, Throttle, string(long), "1", "1").Reply)
	assert.Equal(t, int64(13), limit("12", "3", "4"))
}
