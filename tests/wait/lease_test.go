package wait_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// A lease that lapses wakes the first in line at its instant, without anybody calling.
func TestALapseWakesAtItsInstant(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	// A lease of slots on a connection that then waits for another. The server runs both calls at once, so the lease
	// has hardly lapsed before somebody waits for it.
	leaseAndWait := func(slots int, ttl time.Duration) (waiting *resp.Conn, from int64) {
		from = kit.NowIn(t, c) - int64(kit.ClockSkew)
		waiting = s.Raw()
		lease := fmt.Sprintf("CL.LEASE k SLOTS %d TTL %dms ID short", slots, ttl.Milliseconds())
		wait := fmt.Sprintf("CL.LEASE k SLOTS %d TTL 1h ID w TIMEOUT 1m", slots)
		require.NoError(t, waiting.Send(strings.Fields(lease)...))
		require.NoError(t, waiting.Send(strings.Fields(wait)...))
		require.NoError(t, waiting.Flush())
		require.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
		return waiting, from
	}
	// The connection waits for a minute. The line is looked at once in five minutes anyway.
	letIn := func(waiting *resp.Conn) (at int64) {
		require.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
		return time.Now().UnixNano() + int64(kit.ClockSkew)
	}
	for _, others := range []int{0, 1} { // the key may go with the lease, or stay
		kit.Do(t, c, "DEL k")
		for i := range others {
			kit.AskLease(t, c, "CL.LEASE k SLOTS %d TTL 1h ID other%d", others+1, i)
		}
		waiting, from := leaseAndWait(others+1, 300*time.Millisecond)
		assert.GreaterOrEqual(t, letIn(waiting), from+int64(300*time.Millisecond), "not before")
	}
}

// More leases lapse at once than a call looks at. The first in line is told how many slots that leaves it, or waits for
// the next lapse.
func TestManyLeasesLapseAtOnceBeforeALine(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	const soon, later = 200, 400
	for _, lapse := range []int64{15, 16, 17, 40} {
		for _, test := range []struct {
			slots, waitsMs int64
		}{{lapse + 1, soon}, {2, later}} {
			kit.Do(t, c, "DEL k")
			nowMs := kit.NowIn(t, c) / int64(time.Millisecond)
			zadd := fmt.Sprintf("ZADD k %d last", nowMs+1_800_000)
			if test.waitsMs == later {
				zadd += fmt.Sprintf(" %d later", nowMs+later)
			}
			for i := range lapse {
				zadd += fmt.Sprintf(" %d lapses%d", nowMs+soon, i)
			}
			kit.Do(t, c, "%s", zadd)
			reply := kit.AskLease(t, c, "CL.LEASE k SLOTS %d TTL 1h ID new TIMEOUT 0", test.slots) // on a busy machine it may come too late to wait
			assert.GreaterOrEqual(t, kit.NowIn(t, c)/int64(time.Millisecond), nowMs+test.waitsMs)
			reply.WaitMs = 0
			assert.Equal(t, kit.NewLeased(0, test.slots, test.slots-2, -1, 3_600_000, 0), reply, "%d lapse", lapse)
		}
	}
}

// The first in line is let in as soon as the key is gone, also when it is a caller behind it whose time is over that
// makes the server see that.
func TestAKeyThatExpiresWhenSomebodyGivesUpWakes(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	kit.Do(t, c, "DEBUG SET-ACTIVE-EXPIRE 0") // the server sees that a key has expired when somebody opens it
	kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
	first := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID first TIMEOUT 0")
	second := kit.WaitForLease(t, s, 2, "CL.LEASE k SLOTS 1 TTL 1h ID second TIMEOUT 500ms")
	kit.Do(t, c, "PEXPIRE k 1")
	assert.EqualValues(t, 1, kit.ReceiveLease(t, second).Limited)
	v, err := first.ReceiveWithin(10 * time.Second) // the line is looked at every five minutes anyway
	require.NoError(t, err)
	l, err := kit.LeasedIn(v)
	require.NoError(t, err)
	assert.EqualValues(t, 0, l.Limited)
}

// The lease ahead lapses before the time of the caller is over, though by less than a timer's millisecond.
func TestASlotThatIsFreeBeforeTheTimeIsOverIsTaken(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	const pairs = 200
	conns := make([]*resp.Conn, pairs)
	for i := range conns {
		conns[i] = s.Raw()
		key := fmt.Sprint("slots", i)
		require.NoError(t, conns[i].Send("CL.LEASE", key, "SLOTS", "1", "TTL", "100ms", "ID", "a", "COMPACT"))
		require.NoError(t, conns[i].Send("CL.LEASE", key, "SLOTS", "1", "TTL", "1m", "TIMEOUT", "101ms", "ID", "b", "COMPACT"))
		require.NoError(t, conns[i].Flush())
	}
	for i, c := range conns {
		for call := range 2 {
			v, err := c.Receive()
			require.NoError(t, err)
			require.Len(t, v.Elems, 6, "%v", v)
			assert.Zero(t, v.Elems[0].Int, "pair %d, call %d: %v", i, call+1, v)
		}
	}
}
