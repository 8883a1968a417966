package durability

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/topology"
)

// A slot moves to another node while callers of CL.WAIT wait for a key in it. The node that
// took the call answers it, at its time. The new node has the reservations with the key, so
// it serves nobody in between. A caller that leaves gives nothing back: the key is elsewhere.
func TestCallersThatWaitAreAnsweredByTheOldNodeOfTheirSlot(t *testing.T) {
	begin(t)
	cluster := topology.StartCluster(t)
	cluster.InEachWay(t, func(t *testing.T, way topology.Way) {
		// The first caller's turn must not come before the slot has moved.
		for ahead := 8; !moveUnderAWaitingLine(t, cluster, way, ahead); ahead *= 2 {
			t.Logf("moving the slot took longer than %d seconds; once more", ahead)
		}
	}, topology.Failover) // which sends callers away
}

// moveUnderAWaitingLine has three callers wait behind so many reservations, one second
// each, while the slot moves. ok is false when that took too long to say anything.
func moveUnderAWaitingLine(t *testing.T, c *topology.Cluster, way topology.Way, ahead int) (ok bool) {
	c.AwaitAgreement()
	masters := c.Masters()
	from, to := masters[0], masters[1]
	tag, slot := c.TagAmongLowest(from)
	key := fmt.Sprintf("{%s}:line:%d", tag, ahead)

	const limit = "RATE 1/s BURST 1"
	reserve, wait := fmt.Sprintf("CL.LIMIT %s %s MAXWAIT 1d", key, limit), fmt.Sprintf("CL.WAIT %s %s TIMEOUT 1d", key, limit)
	admin, there := from.Raw(), to.Raw()
	firstNs := kit.NowIn(t, admin)
	for range ahead {
		require.Zero(t, kit.Ask(t, admin, "%s", reserve).Limited)
	}
	var callers []*resp.Conn
	for i := range 3 {
		callers = append(callers, from.Raw())
		kit.Send(t, callers[i], wait)
		kit.AwaitWaiting(t, admin, i+1)
	}
	turnNs := func(place int) int64 { return firstNs + int64(ahead+place)*int64(time.Second) }

	way.Pass(c, slot, from, to)
	if kit.NowIn(t, admin) >= turnNs(0) {
		for _, caller := range callers {
			_ = caller.Close() // they may have been answered meanwhile
		}
		kit.AwaitWaiting(t, admin, 0)
		return false
	}
	require.Same(t, to, c.Owner(slot))
	assert.True(t, strings.HasPrefix(kit.Do(t, from.Raw(), "%s", wait).Text, "MOVED "), "a new call belongs to the new node")
	require.NoError(t, callers[1].Close())
	kit.AwaitWaiting(t, admin, 2)

	newcomer := kit.Ask(t, there, "%s", reserve)
	require.Zero(t, newcomer.Limited)
	assert.GreaterOrEqual(t, kit.NowIn(t, there)+newcomer.WaitMs*int64(time.Millisecond), turnNs(3), "behind all who wait, and the one who left")

	for _, place := range []int{0, 2} {
		v, err := callers[place].Receive()
		require.NoError(t, err)
		nowNs := kit.NowIn(t, admin)
		a, err := kit.StandingIn(v)
		require.NoError(t, err)
		require.Zero(t, a.Limited)
		assert.GreaterOrEqual(t, nowNs, turnNs(place), "caller %d came before its turn", place)
		t.Logf("caller %d answered %v after its turn at the earliest", place, time.Duration(nowNs-turnNs(place)).Round(time.Millisecond))
	}
	assert.Zero(t, from.MustDo("CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)).Int, "the old node writes nothing any more")
	return true
}

// Callers in turn have reserved nothing. The old node sends them away, and lets nobody in: the key would be on both.
// On the new node the key is held as before, and they may wait there.
func TestCallersInTurnAreSentAwayByTheOldNodeOfTheirSlot(t *testing.T) {
	begin(t)
	cluster := topology.StartCluster(t)
	cluster.InEachWay(t, func(t *testing.T, way topology.Way) {
		masters := cluster.Masters()
		from, to := masters[0], masters[1]
		tag, slot := cluster.TagAmongLowest(from)
		kinds, callers := map[string]kit.KindOfWait{}, map[string]*resp.Conn{}
		waiting := map[string]int{} // by the field that counts them
		for name, kind := range kit.WaitsInTurn {
			on := strings.NewReplacer(" k ", fmt.Sprintf(" {%s}:%s ", tag, name))
			kind.Take, kind.Wait, kind.GiveBack = on.Replace(kind.Take), on.Replace(kind.Wait), on.Replace(kind.GiveBack)
			kinds[name], callers[name] = kind, from.Raw()
			require.False(t, kit.Do(t, from.Raw(), "%s", kind.Take).IsError())
			waiting[kind.Field]++
			kind.WaitAs(t, from, callers[name], waiting[kind.Field])
		}
		way.Pass(cluster, slot, from, to)
		for name, caller := range callers {
			assert.Equal(t, "TRYAGAIN The slot of this key has moved to another node while the caller waited", kit.ReceiveSoon(t, caller).Text, name)
		}
		assert.Zero(t, from.MustDo("CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)).Int, "the old node writes nothing any more")
		for _, kind := range kinds {
			again := to.Raw()
			kind.WaitAs(t, to, again, 1)
			kit.Do(t, to.Raw(), "%s", kind.GiveBack)
			kit.RequireAdmitted(t, again)
		}
		to.MustDo("FLUSHALL")
	}, topology.Failover) // which sends callers away
}
