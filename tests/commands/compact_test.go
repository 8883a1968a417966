package commands_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// A compact reply is the named one without the names, in both protocols, in a transaction, in a
// script, and after waiting.
func TestCompactReplies(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, protocol := range []string{"2", "3"} {
		c := s.Raw()
		kit.Do(t, c, "HELLO %s", protocol)
		for _, call := range []string{
			"CL.LIMIT %s RATE 1/1d BURST 10", "CL.LIMIT %s RATE 1/1d WINDOW 1/1d COST 2", "CL.PEEK %s FIXED 5/365d",
			"CL.REFUND %s RATE 1/1d BURST 10", "CL.WAIT %s RATE 1/1d BURST 10 TIMEOUT 1ms", "CL.LIMIT %s RATE 1/1d BURST 10 COST 9",
		} {
			named := kit.Ask(t, c, call, "named")
			compact := kit.Do(t, c, call+" COMPACT", "compact")
			require.Equal(t, resp.Array, compact.Kind, call)
			got := compact.Elems
			require.Len(t, got, len(kit.StandingNames), call)
			assert.Equal(t, []int64{named.Limited, named.Rule, named.Limit, named.Remaining, named.Granted, named.WaitMs},
				[]int64{got[0].Int, got[1].Int, got[2].Int, got[3].Int, got[7].Int, got[8].Int}, call)
		}
		s.MustDo("FLUSHALL")
	}
	c := s.Raw()
	replies, err := c.Pipeline([]string{"MULTI"}, strings.Fields("CL.LIMIT k RATE 1/1d COMPACT"), []string{"EXEC"},
		[]string{"EVAL", "return #redis.call('CL.LIMIT', KEYS[1], 'RATE', '1/1d', 'COMPACT')", "1", "k"})
	require.NoError(t, err)
	assert.Len(t, replies[2].Elems[0].Elems, len(kit.StandingNames))
	assert.EqualValues(t, len(kit.StandingNames), replies[3].Int)

	kit.Ask(t, c, "CL.LIMIT wait RATE 1/20ms BURST 1")
	waited := kit.Do(t, c, "CL.WAIT wait RATE 1/20ms BURST 1 TIMEOUT 1m COMPACT")
	require.Len(t, waited.Elems, len(kit.StandingNames))
	assert.EqualValues(t, 0, waited.Elems[0].Int)
	assert.EqualValues(t, 1, waited.Elems[7].Int)
}
