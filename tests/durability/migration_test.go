package durability

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// load is callers that hammer keys of one slot, all of which begin with a prefix.
type load interface {
	await()                      // returns when enough calls more were answered
	settle(owner *server.Server) // ends it, and judges what the owner of the slot holds
}

// whileASlotMoves starts callers and has their slot change hands, by each way that the server has to move one, and by a
// replica that takes over from its master. Key by key it moves there and back and there.
func whileASlotMoves(t *testing.T, start func(t *testing.T, c *topology.Cluster, from *server.Server, prefix string) load) {
	t.Helper()
	begin(t)
	cluster := topology.StartCluster(t)
	cluster.InEachWay(t, func(t *testing.T, way topology.Way) {
		masters := cluster.Masters()
		from, to := masters[0], masters[1]
		tag, slot := cluster.TagAmongLowest(from)
		l := start(t, cluster, from, strings.ReplaceAll(way.Name, " ", "-")+"{"+tag+"}")
		l.await()
		way.Pass(cluster, slot, from, to)
		if way.Name == "key by key" {
			way.Pass(cluster, slot, to, from)
			way.Pass(cluster, slot, from, to)
		}
		l.await()
		cluster.AwaitAgreement()
		owner := cluster.Owner(slot)
		require.NotSame(t, from, owner, "the slot stayed where it was")
		l.settle(owner)
		replica := cluster.ReplicaOf(owner)
		topology.AwaitReplicas(t, owner, replica)
		topology.RequireCopies(t, owner, replica)
		for _, master := range cluster.Masters() {
			if master != owner {
				assert.Zero(t, master.MustDo("CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)).Int, "keys left behind")
			}
		}
	})
}
