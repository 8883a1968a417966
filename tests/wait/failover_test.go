package wait_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// A planned failover sends callers in line away with an error. Their slots stay taken on
// both sides, and the new master takes callers where the old one left off.
func TestCallersAreSentAwayByAFailover(t *testing.T) {
	t.Parallel()
	old := server.Start(t, topology.QuietLinks())
	next := server.Start(t, topology.QuietLinks(), server.ReplicaOf(old))
	topology.AwaitReplicas(t, old, next)
	l := kit.StandInLine(t, old, 4, time.Hour, 1)
	require.NoError(t, l.Conns[0].Close()) // one slot is on its way back
	l.AwaitWaiting(3)
	require.False(t, kit.Do(t, l.Admin, "FAILOVER").IsError())
	for _, i := range []int{1, 2, 3} {
		v, _ := l.Receive(i)
		assert.True(t, strings.HasPrefix(v.Text, "UNBLOCKED "), "%v", v)
	}
	topology.AwaitRole(t, next, "master")
	topology.AwaitRole(t, old, "slave")
	topology.AwaitReplicas(t, next, old)
	topology.RequireCopies(t, next, old)
	a := kit.Ask(t, next.Raw(), "CL.LIMIT key %s MAXWAIT 1d", l.Limit())
	assert.EqualValues(t, 0, a.Limited)
	assert.GreaterOrEqual(t, a.WaitMs, int64(4*3_600_000-60_000), "behind those who were sent away")
	topology.AwaitReplicas(t, next, old)
	topology.RequireCopies(t, next, old)
}
