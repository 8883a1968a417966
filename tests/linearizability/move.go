package linearizability

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// moveSlot moves the keys of a slot to another master of a cluster, one by one.
func moveSlot(t testing.TB, r *rand.Rand, c *topology.Cluster, slot int, from, to *server.Server) {
	c.BeginMove(slot, from, to)
	time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond) // calls come in between, with luck
	begun := time.Now()
	for {
		left := from.MustDo("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(slot), "100").Elems
		if len(left) == 0 {
			break
		}
		for _, key := range left {
			v := from.Do("MIGRATE", to.Host, strconv.Itoa(to.Port), key.Text, "0", "5000", "REPLACE")
			// Until then the other may be short of memory.
			require.False(t, v.IsError() && time.Since(begun) > patience, "MIGRATE of %s: %v", key.Text, v)
		}
	}
	for _, node := range append([]*server.Server{to}, c.Masters()...) {
		node.MustDo("CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", c.ID(to))
	}
}
