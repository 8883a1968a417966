package line_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
)

// A database that is emptied or swapped wakes the lines of its own keys, and no others.
func TestALineIsNotLookedAtForOtherDatabases(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	admin := s.Raw()
	kit.AskLease(t, admin, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
	waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 0")
	want := kit.Looks(t, s)
	kit.MustDoAll(t, admin, "SELECT 5", "FLUSHDB", "SET other value", "FLUSHDB", "SWAPDB 5 6", "SELECT 0")
	kit.StillWaits(t, waiting)
	assert.Equal(t, want, kit.Looks(t, s))
	kit.MustDoAll(t, admin, "SWAPDB 0 0")
	require.Eventually(t, func() bool { return kit.Looks(t, s) == want+1 }, kit.Patience, kit.Tick)
	kit.MustDoAll(t, admin, "FLUSHDB")
	kit.RequireAdmitted(t, waiting)
}

// When something happens that lets in a caller from each of many lines, or has all of them looked at, the server goes
// on with its clients in between, however many lines there are. What one caller has sent behind its call runs before
// the last of them is let in.
func TestManyLinesThatAreWokenDoNotHoldUpTheServer(t *testing.T) {
	t.Parallel()
	const lines = 150
	for name, wake := range map[string]string{"flushed": "FLUSHALL", "stepped": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, stepBy := kit.StartWithSteps(t, neighbour.Beside(t))
			admin := s.Raw()
			conns := make([]*resp.Conn, lines)
			for i := range conns {
				kit.AskLease(t, admin, "CL.LEASE k%d SLOTS 2 TTL 30m ID holder", i)
				kit.AskLease(t, admin, "CL.LEASE k%d SLOTS 2 TTL 2h ID long", i) // or keys would expire in any order, which wakes their lines
				conns[i] = kit.WaitForLease(t, s, i+1, "CL.LEASE k%d SLOTS 2 TTL 30m ID w TIMEOUT 0", i)
				require.NoError(t, conns[i].Send("RPUSH", "log", "served"))
				require.NoError(t, conns[i].Flush())
			}
			neighbour.On(t, s, "leased", fmt.Sprint("k", lines-1), "RPUSH log last")
			if wake == "" {
				stepBy(step)
			} else {
				kit.Do(t, admin, "%s", wake)
			}
			for _, c := range conns {
				kit.RequireAdmitted(t, c)
				_, err := c.ReceiveWithin(kit.Patience)
				require.NoError(t, err)
			}
			log := kit.TextsOf(kit.Do(t, admin, "LRANGE log 0 -1"))
			require.Len(t, log, lines+1)
			assert.Equal(t, "served", log[0], "nobody was served before all were let in")
		})
	}
}
