package neighbours_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
)

// A turn in which another module gives back a lease goes on with the callers in that line, and sets no timer for a turn
// of their own.
func TestATurnGoesOnWithALineThatAnotherModuleChangesInIt(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	c := s.Raw()
	turns := func() int { return kit.Number(t, s.Info("throttle")["throttle_turns"]) }
	const times = 10
	before := turns()
	for range times {
		kit.MustDoAll(t, c, "CL.LEASE k SLOTS 1 TTL 1d ID holder", "CL.LEASE l SLOTS 1 TTL 1d ID holder")
		first := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1d ID w TIMEOUT 0")
		second := kit.WaitForLease(t, s, 2, "CL.LEASE l SLOTS 1 TTL 1d ID w TIMEOUT 0")
		kit.Do(t, c, "NEIGHBOUR.ON leased k CL.RELEASE l ID holder")
		kit.Do(t, c, "CL.RELEASE k ID holder")
		kit.RequireAdmitted(t, first)
		kit.RequireAdmitted(t, second)
		kit.MustDoAll(t, c, "NEIGHBOUR.DO", "DEL k l")
	}
	assert.Equal(t, before+times, turns())
}
