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

const lineLimit = "RATE 1/s BURST 1"

// moveUnderAWaitingLine has three callers wait behind so many reservations, one second
// each, while the slot moves. ok is false when that took too long to say anything.
func moveUnderAWaitingLine(t *testing.T, c *topology.Cluster, way topology.Way, ahead int) (ok bool) {
	c.AwaitAgreement()
	masters := c.Masters()
	from, to := masters[0], masters[1]
	tag, slot := c.TagAmongLowest(from)
	key := fmt.Sprintf("{%s}:line:%d", tag, ahead)

	firstNs := serverTime(t, from)
	for range ahead {
		requireAllowed(t, from.MustDo(lineCall("CL.LIMIT", key, "MAXWAIT")...))
	}
	admin := from.Raw()
	var callers []*resp.Conn
	for i := range 3 {
		caller := from.Raw()
		callers = append(callers, caller)
		require.NoError(t, caller.Send(lineCall("CL.WAIT", key, "TIMEOUT")...))
		require.NoError(t, caller.Flush())
		kit.AwaitWaiting(t, admin, i+1)
	}
	turnNs := func(place int) int64 { return firstNs + int64(ahead+place)*int64(time.Second) }

	way.Pass(c, slot, from, to)
	if serverTime(t, from) >= turnNs(0) {
		for _, caller := range callers {
			_ = caller.Close() // they may have been answered meanwhile
		}
		kit.AwaitWaiting(t, admin, 0)
		return false
	}
	require.Same(t, to, c.Owner(slot))
	assert.True(t, strings.HasPrefix(from.Do(lineCall("CL.WAIT", key, "TIMEOUT")...).Text, "MOVED "), "a new call belongs to the new node")
	require.NoError(t, callers[1].Close())
	kit.AwaitWaiting(t, admin, 2)

	newcomer := to.MustDo(lineCall("CL.LIMIT", key, "MAXWAIT")...)
	requireAllowed(t, newcomer)
	assert.GreaterOrEqual(t, serverTime(t, to)+fieldOf(t, newcomer, "wait_ms")*int64(time.Millisecond), turnNs(3), "behind all who wait, and the one who left")

	for _, place := range []int{0, 2} {
		v, err := callers[place].Receive()
		require.NoError(t, err)
		nowNs := serverTime(t, from)
		requireAllowed(t, v)
		assert.GreaterOrEqual(t, nowNs, turnNs(place), "caller %d came before its turn", place)
		t.Logf("caller %d answered %v after its turn at the earliest", place, time.Duration(nowNs-turnNs(place)).Round(time.Millisecond))
	}
	assert.Zero(t, from.MustDo("CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)).Int, "the old node writes nothing any more")
	return true
}

func lineCall(command, key, patience string) []string {
	return append(append([]string{command, key}, strings.Fields(lineLimit)...), patience, "1d")
}

func requireAllowed(t *testing.T, v resp.Value) {
	t.Helper()
	allowed, err := allowedIn(v)
	require.NoError(t, err)
	require.True(t, allowed, "%v", v)
}

// fieldOf is an integer of a reply of names and values.
func fieldOf(t *testing.T, v resp.Value, name string) int64 {
	t.Helper()
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if v.Elems[i].Text == name {
			return v.Elems[i+1].Int
		}
	}
	require.Fail(t, "no field "+name, "%v", v)
	return 0
}
