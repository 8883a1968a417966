package linearizability

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// moveSlot moves the keys of a slot to another master of a cluster, one by one.
func moveSlot(t testing.TB, r *rand.Rand, c *topology.Cluster, slot int, from, to *server.Server) {
	number := strconv.Itoa(slot)
	ok := func(node *server.Server, words ...string) resp.Value {
		v := node.Do(words...)
		assert.False(t, v.IsError(), "%q: %v", words, v)
		return v
	}
	keys := func() []resp.Value { return ok(from, "CLUSTER", "GETKEYSINSLOT", number, "100").Elems }
	ok(to, "CLUSTER", "SETSLOT", number, "IMPORTING", c.ID(from))
	ok(from, "CLUSTER", "SETSLOT", number, "MIGRATING", c.ID(to))
	time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond) // calls come in between, with luck
	begun := time.Now()
	for left := keys(); len(left) > 0; left = keys() {
		for _, key := range left {
			v := from.Do("MIGRATE", to.Host, strconv.Itoa(to.Port), key.Text, "0", "5000", "REPLACE")
			if v.IsError() && time.Since(begun) > patience { // until then the other may be short of memory
				t.Errorf("MIGRATE of %s: %v", key.Text, v)
				return
			}
		}
	}
	ok(to, "CLUSTER", "SETSLOT", number, "NODE", c.ID(to))
	for _, node := range c.Masters() {
		if node != to {
			ok(node, "CLUSTER", "SETSLOT", number, "NODE", c.ID(to))
		}
	}
}
