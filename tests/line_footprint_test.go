package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
)

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
			const times = 200
			grown := growth(t, c, func() {
				before := looks(t, s)
				for range times {
					assert.EqualValues(t, 0, asking(t, c, "CL.RENEW k ID holder TTL 1h").Elems[1].Int)
				}
				require.GreaterOrEqual(t, looks(t, s), before+times, "looks")
			})
			assert.Less(t, grown, int64(times*32), "an answer takes more than 64 bytes")
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
	grown := growth(t, c, func() {
		before := looks(t, s)
		mustDoAll(t, c, "CONFIG SET maxmemory 1", "SWAPDB 0 0")                                   // every line is looked at
		require.Eventually(t, func() bool { return looks(t, s) == before+lines }, patience, tick) // and each is held up
		mustDoAll(t, c, "CONFIG SET maxmemory 0")
		require.Eventually(t, func() bool { return looks(t, s) == before+2*lines }, patience, tick) // once more, in vain
	})
	assert.Less(t, grown, int64(lines*128), "an answer takes more than 256 bytes, and a context more than 1 KB")
}
