package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// With --aliases the server answers to other names of CL.THROTTLE as one with the module does.
func TestOtherNamesAreOffered(t *testing.T) {
	t.Parallel()
	without := connect(t, start(t, ""))
	assert.Contains(t, without.do("GCRA k 15 30 60"), "ERR unknown command")
	s := start(t, "")
	require.NoError(t, s.offer("gcra,RL.THROTTLE"))
	c := connect(t, s)
	assert.Equal(t, "*5 :0 :16 :15 :-1 :2880", c.do("GCRA k 15 30 86400.0"))
	assert.Equal(t, "*5 :0 :16 :13 :-1 :8640", c.do("rl.throttle k 15 30 1d 2"))
	assert.Equal(t, "*5 :0 :16 :13 :-1 :8640", c.do("CL.THROTTLE k 15 30 1d 0"))
	assert.Equal(t, "*5 :0 :16 :12 :-1 :11520", c.do("EVAL 'return redis.call(\"GCRA\", KEYS[1], 15, 30, 86400)' 1 k"))
	assert.Equal(t, "*2 $16 throttle.aliases $16 gcra,RL.THROTTLE", c.do("CONFIG GET throttle.aliases"))
	assert.Equal(t, "*1 $1 k", c.do("COMMAND GETKEYS GCRA k 1 1 1"))
	assert.Contains(t, c.do("INFO throttle"), "throttle_calls_throttle:4")
	assert.EqualError(t, start(t, "").offer("GCRE"), `--aliases: "GCRE" is no other name of CL.THROTTLE: there are RL.THROTTLE and GCRA, separated by a comma`)
}
