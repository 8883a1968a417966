package tests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
)

// A database that is emptied or swapped wakes the lines of its own keys, and no others.
func TestALineIsNotLookedAtForOtherDatabases(t *testing.T) {
	t.Parallel()
	s := startCheckBuild(t)
	admin := s.Raw()
	askLease(t, admin, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
	waiting := waitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 0")
	want := looks(t, s)
	mustDoAll(t, admin, "SELECT 5", "FLUSHDB", "SET other value", "FLUSHDB", "SWAPDB 5 6", "SELECT 0")
	stillWaits(t, waiting)
	assert.Equal(t, want, looks(t, s))
	mustDoAll(t, admin, "SWAPDB 0 0")
	require.Eventually(t, func() bool { return looks(t, s) == want+1 }, patience, tick)
	mustDoAll(t, admin, "FLUSHDB")
	requireAdmitted(t, waiting)
}

// When something happens that lets in a caller from each of many lines, or has all of them looked at, the server goes on with its clients in between,
// however many lines there are. What one caller has sent behind its call runs before the last of them is let in.
func TestManyLinesThatAreWokenDoNotHoldUpTheServer(t *testing.T) {
	t.Parallel()
	const lines = 150
	for name, wake := range map[string]string{"flushed": "FLUSHALL", "stepped": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, stepBy := startWithSteps(t, neighbour.Beside(t))
			admin := s.Raw()
			conns := make([]*resp.Conn, lines)
			for i := range conns {
				askLease(t, admin, "CL.LEASE k%d SLOTS 2 TTL 30m ID holder", i)
				askLease(t, admin, "CL.LEASE k%d SLOTS 2 TTL 2h ID long", i) // or keys would expire in any order, which wakes their lines
				conns[i] = waitForLease(t, s, i+1, "CL.LEASE k%d SLOTS 2 TTL 30m ID w TIMEOUT 0", i)
				require.NoError(t, conns[i].Send("RPUSH", "log", "served"))
				require.NoError(t, conns[i].Flush())
			}
			neighbour.On(t, s, "leased", fmt.Sprint("k", lines-1), "RPUSH log last")
			if wake == "" {
				stepBy(step)
			} else {
				do(t, admin, "%s", wake)
			}
			for _, c := range conns {
				requireAdmitted(t, c)
				_, err := c.ReceiveWithin(patience)
				require.NoError(t, err)
			}
			log := textsOf(do(t, admin, "LRANGE log 0 -1"))
			require.Len(t, log, lines+1)
			assert.Equal(t, "served", log[0], "nobody was served before all were let in")
		})
	}
}
