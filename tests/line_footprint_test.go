package tests

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// usedMemory is the least of several readings: the server makes the buffers of its connections larger and smaller.
func usedMemory(t *testing.T, c *resp.Conn) int64 {
	t.Helper()
	var readings []int
	for range 20 {
		readings = append(readings, number(t, server.ParseInfo(do(t, c, "INFO memory").Text)["used_memory"]))
	}
	return int64(slices.Min(readings))
}

// Each time that a line is looked at, the module asks the server whether it takes a write, and frees the answers.
func TestLooksAtALineLeaveNoMemoryBehind(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *server.Server{
		"a server":              func(t *testing.T) *server.Server { return startCheckBuild(t) },
		"beside another module": func(t *testing.T) *server.Server { return neighbour.Start(t) },
		"ZADD is renamed":       func(t *testing.T) *server.Server { return startCheckBuild(t, server.Config(`rename-command ZADD ""`)) },
		"the slot is being moved": func(t *testing.T) *server.Server {
			n := startTwoNodes(t)
			n.beginMove()
			return n.to
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			c := s.Raw()
			asking(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
			waiting := s.Raw()
			do(t, waiting, "ASKING") // an error where there is no cluster
			waitsInTurn["lease"].waitAs(t, s, waiting, 1)
			const times = 500
			look := func() int64 {
				t.Helper()
				before := looks(t, s)
				for range times {
					assert.EqualValues(t, 0, asking(t, c, "CL.RENEW k ID holder TTL 1h").Elems[1].Int)
				}
				require.GreaterOrEqual(t, looks(t, s), before+times, "looks")
				return usedMemory(t, c)
			}
			look()
			before := look()
			// An answer takes more than 64 bytes.
			assert.Less(t, look()-before, int64(times*32), "used_memory")
		})
	}
}

// Nor do those that find that the server has no memory for a write, for which it is asked by a context of its own.
func TestLinesHeldUpByFullMemoryLeaveNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s := startCheckBuild(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("an older server cannot be asked")
	}
	c := s.Raw()
	const lines = 20
	for i := range lines {
		askLease(t, c, "CL.LEASE k%d SLOTS 1 TTL 1h ID holder", i)
		waitForLease(t, s, i+1, "CL.LEASE k%d SLOTS 1 TTL 1h ID w TIMEOUT 0", i)
	}
	// Each line finds that the server is full, and is then held up.
	hold := func() int64 {
		t.Helper()
		before := looks(t, s)
		mustDoAll(t, c, "CONFIG SET maxmemory 1", "SWAPDB 1 2")
		require.Eventually(t, func() bool { return looks(t, s) == before+lines }, patience, tick)
		used := usedMemory(t, c)
		mustDoAll(t, c, "CONFIG SET maxmemory 0")
		require.Eventually(t, func() bool { return looks(t, s) == before+2*lines }, patience, tick) // once more, in vain
		return used
	}
	hold()
	before := hold()
	assert.Less(t, hold()-before, int64(lines*512), "used_memory: a context takes more than 1 KB")
}
