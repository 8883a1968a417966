package commands_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// eachIn is the first three integers of the arrays at the end of a reply: limited, limit and remaining of each limit.
// The others depend on the clock.
func eachIn(t kit.Tester, v resp.Value) (each [][]int64) {
	t.Helper()
	arrays := v.Elems
	if len(v.Elems) > 2 && v.Elems[len(v.Elems)-2].Text == "each" {
		arrays = v.Elems[len(v.Elems)-1].Elems
	}
	for _, array := range arrays {
		if array.Kind != resp.Array {
			continue
		}
		ints, err := array.Ints()
		require.NoError(t, err, "%v", v)
		require.Len(t, ints, 5, "%v", v)
		each = append(each, ints[:3])
	}
	return each
}

// Callers that are sent away are shown their limits. What those are told that are let in, or whose time is over, is in
// spec/lines.txt.
func TestRepliesWithEachToCallersThatAreUnblocked(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for call, want := range map[string][][]int64{
		"RATE 1/1d BURST 1":       {{1, 1, 0}},
		"WINDOW 1/1d WINDOW 8/1d": {{1, 1, 0}, {0, 8, 7}},
	} {
		for _, words := range []string{" EACH", " COMPACT EACH"} {
			admin, c := s.Raw(), s.Raw()
			id := kit.Do(t, c, "CLIENT ID").Int
			kit.MustDoAll(t, admin, "DEL k", "CL.LIMIT k "+call)
			require.NoError(t, c.Send(strings.Fields("CL.WAIT k "+call+" TIMEOUT 0"+words)...))
			require.NoError(t, c.Flush())
			require.Eventually(t, func() bool { return kit.Do(t, admin, "CLIENT UNBLOCK %d", id).Int == 1 }, kit.Patience, time.Millisecond)
			v, err := c.Receive()
			require.NoError(t, err)
			assert.Equal(t, want, eachIn(t, v), "%s%s: %v", call, words, v)
		}
	}
}

// What another module runs in the middle of a call does not show in the call's reply.
func TestACallNestedInOneWithEachLeavesItsArraysAlone(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	c, other := s.Raw(), s.Raw()
	kit.Do(t, c, "CL.LIMIT line WINDOW 2/50ms COST 2")
	neighbour.Do(t, s, "CL.MLIMIT 2 other third WINDOW 7/1d WINDOW 7/2d WINDOW 7/3d NEXT WINDOW 7/4d WINDOW 7/5d WINDOW 7/6d EACH")
	for _, words := range []string{" EACH", " COMPACT EACH"} {
		kit.Do(t, c, "DEL key a b")
		assert.Equal(t, [][]int64{{0, 9, 0}, {0, 99, 90}}, eachIn(t, kit.Do(t, c, "%s", "CL.LIMIT key WINDOW 9/1d WINDOW 99/2d COST 9"+words)))
		assert.Equal(t, [][]int64{{1, 9, 0}, {0, 99, 90}}, eachIn(t, kit.Do(t, c, "%s", "CL.LIMIT key WINDOW 9/1d WINDOW 99/2d COST 9"+words)))
		assert.Equal(t, [][]int64{{0, 9, 8}, {0, 8, 7}}, eachIn(t, kit.Do(t, c, "%s", "CL.MLIMIT 2 a b WINDOW 9/1d NEXT WINDOW 8/2d"+words)))
		assert.Equal(t, [][]int64{{0, 2, 0}, {0, 9, 7}}, eachIn(t, kit.Do(t, other, "%s", "CL.WAIT line"+words[:1]+"WINDOW 2/50ms WINDOW 9/1d COST 2 TIMEOUT 0"+words)))
		kit.Do(t, c, "DEL line")
		kit.Do(t, c, "CL.LIMIT line WINDOW 2/50ms COST 2")
	}
	assert.Positive(t, s.MustDo("NEIGHBOUR.SEEN").Elems[0].Int)
}
