package commands_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/naive"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// eachIn is the first three integers of the arrays at the end of a reply: limited, limit and remaining of each limit. The others
// depend on the clock.
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

// The arrays stand behind all that a reply has without EACH, in both protocols, in a transaction and in a script.
func TestRepliesWithEach(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, protocol := range []string{"2", "3"} {
		c := s.Raw()
		kit.Do(t, c, "HELLO %s", protocol)
		for _, test := range []struct {
			call string
			want [][]int64
		}{
			{"CL.LIMIT k RATE 1/1d BURST 10", [][]int64{{0, 10, 9}}},
			{"CL.LIMIT k RATE 1/1d BURST 10 WINDOW 20/1d COST 10", [][]int64{{1, 10, 9}, {0, 20, 20}}},
			{"CL.PEEK k RATE 1/1d BURST 10 COST 10", [][]int64{{1, 10, 9}}},
			{"CL.REFUND k RATE 1/1d BURST 10", [][]int64{{0, 10, 10}}},
			{"CL.WAIT k RATE 1/1d BURST 10 COST 4 TIMEOUT 1ms", [][]int64{{0, 10, 6}}},
			{"CL.WAIT k RATE 1/1d BURST 10 COST 7 TIMEOUT 1ms", [][]int64{{1, 10, 6}}},
			{"CL.MLIMIT 2 a b WINDOW 3/1d WINDOW 4/1d NEXT WINDOW 5/1d COST 2", [][]int64{{0, 3, 1}, {0, 4, 2}, {0, 5, 3}}},
			{"CL.MLIMIT 3 a run b WINDOW 3/1d NEXT SLOTS 4 TTL 1d NEXT WINDOW 5/1d COST 2 ID x", [][]int64{{0, 3, 1}, {0, 4, 3}, {0, 5, 3}}},
			{"CL.SETTLE 2 a run WINDOW 3/1d TAKE 2 USED 1 NEXT SLOTS ID x", [][]int64{{0, 3, 3}, {1, -1, -1}}},
			{"CL.MLIMIT 3 a b c WINDOW 3/1d COST 2 ANY", [][]int64{{1, 3, 1}, {1, 3, 1}, {0, 3, 1}}},
		} {
			for _, words := range []string{" EACH", " EACH COMPACT"} {
				s.MustDo("FLUSHALL")
				if strings.Contains(test.call, "COST 10") || strings.Contains(test.call, "REFUND") {
					kit.Do(t, c, "CL.LIMIT k RATE 1/1d BURST 10")
				}
				if strings.Contains(test.call, "COST 7") {
					kit.Do(t, c, "CL.LIMIT k RATE 1/1d BURST 10 COST 4")
				}
				if strings.Contains(test.call, "ANY") {
					kit.Do(t, c, "CL.MLIMIT 2 a b WINDOW 3/1d COST 2")
				}
				v := kit.Do(t, c, "%s", test.call+words)
				assert.Equal(t, test.want, eachIn(t, v), "%s: %v", test.call, v)
				fields := 10
				if strings.HasPrefix(test.call, "CL.MLIMIT") || strings.HasPrefix(test.call, "CL.SETTLE") {
					fields = 11
				}
				kind, length := resp.Array, fields+len(test.want)
				if words == " EACH" {
					length = 2 * (fields + 1)
					if protocol == "3" {
						kind = resp.Map
					}
				}
				assert.Equal(t, kind, v.Kind, test.call)
				assert.Len(t, v.Elems, length, test.call)
			}
		}
	}
	s.MustDo("FLUSHALL")
	replies, err := s.Raw().Pipeline([]string{"MULTI"}, strings.Fields("CL.LIMIT k WINDOW 3/1d COMPACT EACH"), []string{"EXEC"},
		[]string{"EVAL", "return redis.call('CL.LIMIT', KEYS[1], 'WINDOW', '3/1d', 'EACH', 'COMPACT')[11]", "1", "k"})
	require.NoError(t, err)
	assert.Equal(t, [][]int64{{0, 3, 2}}, eachIn(t, replies[2].Elems[0]))
	ints, err := replies[3].Ints()
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 3, 1}, ints[:3])
}

// A refund may leave a single RATE on a key, whose period the key then does not hold. Its own reply still says which limit that is.
func TestARefundDescribesTheLimitThatItRefunded(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := s.Raw()
	kit.Do(t, c, "CL.LIMIT k RATE 3/1d BURST 12 FIXED 9/1ms FIRST COST 4")
	require.Eventually(t, func() bool { return kit.Do(t, c, "CL.PEEK k FIXED 9/1ms FIRST COMPACT").Elems[3].Int == 9 }, time.Minute, time.Millisecond)
	v := kit.Do(t, c, "CL.REFUND k RATE 4/2d RATE 3/1d BURST 12 EACH COMPACT")
	assert.Equal(t, [][]int64{{0, 4, 4}, {0, 12, 9}}, eachIn(t, v), "%v", v)

	var m naive.Model
	now := time.Now().UnixNano()
	rate := naive.Limit{Kind: naive.Rate, Count: 3, Period: 24 * time.Hour, Burst: 12}
	m.Take(now, []naive.Limit{rate, {Kind: naive.First, Count: 9, Period: time.Millisecond}}, naive.Options{Cost: 4})
	asked := naive.Call{Model: &m, Limits: []naive.Limit{{Kind: naive.Rate, Count: 4, Period: 48 * time.Hour}, rate}}
	_, each := naive.EachRefunded(now+int64(time.Second), asked, 1)
	for i, e := range each {
		assert.Equal(t, eachIn(t, v)[i], []int64{e.Limited, e.Limit, e.Remaining}, "the model, limit %d", i)
	}
}

// Callers that waited are shown their limits, however they are answered.
func TestRepliesWithEachToCallersThatWaited(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for name, test := range map[string]struct {
		before, call string
		unblock      bool
		want         [][]int64
	}{
		"a slot that came":            {"CL.LIMIT k RATE 1/soon BURST 1 RATE 1/1d BURST 9", "CL.WAIT k RATE 1/soon BURST 1 RATE 1/1d BURST 9 TIMEOUT 0", false, [][]int64{{0, 1, 0}, {0, 9, 7}}},
		"a reservation, unblocked":    {"CL.LIMIT k RATE 1/1d BURST 1", "CL.WAIT k RATE 1/1d BURST 1 TIMEOUT 0", true, [][]int64{{1, 1, 0}}},
		"a turn that came":            {"CL.LIMIT k WINDOW 2/50ms FIXED 9/365d COST 2", "CL.WAIT k WINDOW 2/50ms FIXED 9/365d COST 2 TIMEOUT 0", false, [][]int64{{0, 2, 0}, {0, 9, 5}}},
		"a time in line that is over": {"CL.LIMIT k WINDOW 2/1d COST 2", "CL.WAIT k WINDOW 2/1d WINDOW 8/1d TIMEOUT 20ms", false, [][]int64{{1, 2, 0}, {0, 8, 8}}},
		"in turn, unblocked":          {"CL.LIMIT k WINDOW 2/1d COST 2", "CL.WAIT k WINDOW 2/1d WINDOW 8/1d TIMEOUT 0", true, [][]int64{{1, 2, 0}, {0, 8, 8}}},
	} {
		for _, words := range []string{" EACH", " COMPACT EACH"} {
			answer := func(soon time.Duration) resp.Value {
				admin, c := s.Raw(), s.Raw()
				key := strings.ReplaceAll(name+words+soon.String(), " ", "_")
				of := func(call string) string {
					return strings.NewReplacer(" k ", " "+key+" ", "soon", fmt.Sprint(soon.Milliseconds(), "ms")).Replace(call)
				}
				id := kit.Do(t, c, "CLIENT ID").Int
				kit.Do(t, admin, "%s", of(test.before))
				require.NoError(t, c.Send(strings.Fields(of(test.call)+words)...))
				require.NoError(t, c.Flush())
				if test.unblock {
					require.Eventually(t, func() bool { return kit.Do(t, admin, "CLIENT UNBLOCK %d", id).Int == 1 }, 60*time.Second, time.Millisecond)
				}
				v, err := c.Receive()
				require.NoError(t, err)
				return v
			}
			soon := 20 * time.Millisecond
			v := answer(soon)
			// A busy machine may answer so late that the unit is back.
			for ; !assert.ObjectsAreEqual(test.want, eachIn(t, v)) && soon < 5*time.Second; v = answer(soon) {
				soon *= 2
			}
			assert.Equal(t, test.want, eachIn(t, v), "%s: %v", name, v)
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
