package line_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
)

// Each time that a line is looked at, the module asks the server whether it takes a write, and frees the answers.
func TestLooksAtALineLeaveNoMemoryBehind(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *server.Server{
		"a server":              func(t *testing.T) *server.Server { return kit.StartCheckBuild(t) },
		"beside another module": func(t *testing.T) *server.Server { return neighbour.Start(t) },
		"ZADD is renamed": func(t *testing.T) *server.Server {
			return kit.StartCheckBuild(t, server.Config(`rename-command ZADD ""`))
		},
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
			kit.Do(t, waiting, "ASKING") // an error where there is no cluster
			kit.WaitsInTurn["lease"].WaitAs(t, s, waiting, 1)
			const times = 200
			grown := kit.Growth(t, c, func() {
				before := kit.Looks(t, s)
				for range times {
					assert.EqualValues(t, 0, asking(t, c, "CL.RENEW k ID holder TTL 1h").Elems[1].Int)
				}
				require.GreaterOrEqual(t, kit.Looks(t, s), before+times, "looks")
			})
			assert.Less(t, grown, int64(times*32), "an answer takes more than 64 bytes")
		})
	}
}

// Nor do those that find that the server has no memory for a write, for which it is asked by a context of its own.
func TestLinesHeldUpByFullMemoryLeaveNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("an older server cannot be asked")
	}
	c := s.Raw()
	const lines = 20
	for i := range lines {
		kit.AskLease(t, c, "CL.LEASE k%d SLOTS 1 TTL 1h ID holder", i)
		kit.WaitForLease(t, s, i+1, "CL.LEASE k%d SLOTS 1 TTL 1h ID w TIMEOUT 0", i)
	}
	grown := kit.Growth(t, c, func() {
		before := kit.Looks(t, s)
		kit.MustDoAll(t, c, "CONFIG SET maxmemory 1", "SWAPDB 0 0")                                           // every line is looked at
		require.Eventually(t, func() bool { return kit.Looks(t, s) == before+lines }, kit.Patience, kit.Tick) // and each is held up
		kit.MustDoAll(t, c, "CONFIG SET maxmemory 0")
		require.Eventually(t, func() bool { return kit.Looks(t, s) == before+2*lines }, kit.Patience, kit.Tick) // once more, in vain
	})
	assert.Less(t, grown, int64(lines*128), "an answer takes more than 256 bytes, and a context more than 1 KB")
}
