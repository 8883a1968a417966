package linearizability

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// ring is a cluster. Its replicas take over by themselves, while they are allowed to. A client asks the node that
// answered it last about the same object, or any node.
type ring struct {
	*stage
	cluster *topology.Cluster
	markers []string
	shardOf map[string]int // of the objects of a round, by their names

	known sync.Map // from client and object to an address
}

func newRing(st *stage) *ring { return &ring{stage: st} }

func (c *ring) options() []server.Option {
	options := []server.Option{server.Cluster(), server.Config("cluster-node-timeout 1000", "cluster-replica-no-failover yes",
		"cluster-require-full-coverage no", "cluster-allow-replica-migration no")}
	program, err := server.DefaultProgram()
	require.NoError(c, err)
	if !program.AtLeast(7, 2) {
		// The server overwrites its file of nodes where it lies. If that outgrows its block on a full disk, the server
		// ends and does not start again.
		options = append(options, server.Config("cluster-config-file "+filepath.Join(c.TempDir(), "nodes.conf")))
	}
	return options
}

// place is no option: a cluster node knows its place.
func (c *ring) place(*node) []server.Option { return nil }

func (c *ring) form() {
	var servers []*server.Server
	for _, n := range c.nodes {
		servers = append(servers, n.Server)
	}
	c.cluster = topology.ClusterOf(c.T, servers...)
	whose := func(s *server.Server) *node {
		return c.nodes[slices.IndexFunc(c.nodes, func(n *node) bool { return n.Server == s })]
	}
	for i, master := range c.cluster.Masters() {
		c.shards[i] = []*node{whose(master), whose(c.cluster.ReplicaOf(master))}
	}
}

// begin looks up which objects and markers are in which shard.
func (c *ring) begin(subjects []subject) {
	c.known.Clear()
	owners := make([]int, 16384)
	for i := range c.shards {
		for _, slot := range c.cluster.Slots(c.at(i, 0).Server) {
			owners[slot] = i
		}
	}
	c.shardOf = map[string]int{}
	for _, s := range subjects {
		c.shardOf[s.name()] = owners[c.cluster.Slot(s.name())]
	}
	c.markers = make([]string, len(c.shards))
	for name, found := 0, 0; found < len(c.shards); name++ {
		marker := fmt.Sprint("marker:", name)
		if shard := owners[c.cluster.Slot(marker)]; c.markers[shard] == "" {
			c.markers[shard] = marker
			found++
		}
	}
}

// failed finds the flags of a node that others do not reach, among others such as nofailover.
var failed = regexp.MustCompile(`[ ,]fail\??[ ,]`)

// settled also wants all to agree on who has which slot.
func (c *ring) settled() bool {
	for i := range c.shards {
		if master := c.at(i, 0); !master.leads() || !c.at(i, 1).follows(master) {
			return false
		}
	}
	var first string
	for _, n := range c.nodes {
		slots, err := n.try("CLUSTER", "SLOTS")
		nodes, errNodes := n.try("CLUSTER", "NODES")
		state, errState := n.try("CLUSTER", "INFO")
		first = cmp.Or(first, slots.String())
		if errors.Join(err, errNodes, errState) != nil || slots.String() != first || failed.MatchString(nodes.Text) ||
			server.ParseInfo(state.Text)["cluster_state"] != "ok" {
			return false
		}
	}
	return true
}

// handOver has a replica take over, once it has heard from its master again: see topology.Failover.
func (c *ring) handOver(from, to *node) {
	id := c.cluster.ID(from.Server)
	heard := func() string {
		nodes, _ := to.try("CLUSTER", "NODES")
		return topology.LastPong(nodes.Text, id)
	}
	last := heard()
	c.await("the replica hears from its master", func() bool { now := heard(); return now != "" && now != last })
	c.await("CLUSTER FAILOVER", func() bool {
		to.does("CLUSTER", "FAILOVER")
		for until := time.Now().Add(6 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
			if to.leads() && from.follows(to) {
				return true
			}
		}
		return false
	})
}

func (c *ring) takeOver(_, to *node) {
	c.await("the replica may take over", func() bool { return to.does("CONFIG", "SET", "cluster-replica-no-failover", "no") })
	c.await("the replica takes over", to.leads)
	c.await("the replica may not take over", func() bool { return to.does("CONFIG", "SET", "cluster-replica-no-failover", "yes") })
}

func (c *ring) rejoin(former, successor *node) {
	c.await("a former master follows", func() bool { return former.follows(successor) })
}

func (c *ring) divide(*node) {} // clients learn of a new master one by one

// moveSlots moves those of a shard's objects, one key after the other.
func (c *ring) moveSlots(from, to int, subjects []subject, r *rand.Rand) {
	for _, i := range r.Perm(len(subjects)) {
		if name := subjects[i].name(); c.shardOf[name] == from {
			moveSlot(c.T, r, c.cluster, c.cluster.Slot(name), c.at(from, 0).Server, c.at(to, 0).Server)
			c.shardOf[name] = to
		}
	}
}

func (c *ring) isOf(shard int) func(subject) bool {
	return func(s subject) bool { return c.shardOf[s.name()] == shard }
}

func (c *ring) marker(shard int) string { return c.markers[shard] }

func (c *ring) entry(client int, r *rand.Rand, about string) (string, bool) {
	if addr, ok := c.known.Load(fmt.Sprint(client, " ", about)); ok {
		return addr.(string), true
	}
	return c.nodes[r.IntN(len(c.nodes))].Addr(), false
}

func (c *ring) learn(client int, about, addr string) {
	if key := fmt.Sprint(client, " ", about); addr == "" {
		c.known.Delete(key)
	} else {
		c.known.Store(key, addr)
	}
}
