package topology

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Cluster is a cluster that scripts/form-cluster put together.
type Cluster struct {
	Nodes []*server.Server
	// BetweenKeys is called before each key of a slot that moves key by key, unless it is nil.
	BetweenKeys func()
	t           testing.TB
}

// StartCluster starts three masters with a replica each, which takes over from its
// master when told to, and only then.
func StartCluster(t testing.TB, opts ...server.Option) *Cluster {
	t.Helper()
	const masters, replicasEach = 3, 1
	var nodes []*server.Server
	// News, such as who is whose replica, may take half the timeout to get round. So it
	// is short; but nobody is to lose office because the machine is busy. A replica
	// counts once it has been sent something, be it a PING.
	opts = append(slices.Clone(opts), server.Cluster(), server.Config("cluster-node-timeout 2000",
		"cluster-replica-no-failover yes", "cluster-require-full-coverage no", "repl-ping-replica-period 1"))
	for range masters * (1 + replicasEach) {
		nodes = append(nodes, server.Start(t, opts...))
	}
	return ClusterOf(t, nodes...)
}

// ClusterOf makes one of nodes that are as many masters as replicas.
func ClusterOf(t testing.TB, nodes ...*server.Server) *Cluster {
	t.Helper()
	c := &Cluster{Nodes: nodes, t: t}
	c.Form()
	c.AwaitAgreement()
	return c
}

// Form makes a cluster of the nodes, the way docker-compose.yml has it made. Nodes that
// are one already stay as they are.
func (c *Cluster) Form() {
	c.t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(c.t, err)
	c.run(filepath.Join(root, "scripts", "form-cluster"), c.addrs()...)
}

// CLI runs redis-cli.
func (c *Cluster) CLI(args ...string) {
	c.t.Helper()
	c.run(c.cli(), args...)
}

func (c *Cluster) cli() string {
	c.t.Helper()
	cli, err := server.CLIPath()
	require.NoError(c.t, err)
	return cli
}

func (c *Cluster) run(program string, args ...string) {
	c.t.Helper()
	command := exec.CommandContext(c.t.Context(), program, args...)
	command.Env = append(os.Environ(), "CLI="+c.cli())
	out, err := command.CombinedOutput()
	require.NoError(c.t, err, "%s %q\n%s", program, args, out)
}

func (c *Cluster) addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// AwaitAgreement returns when all nodes find the cluster well, agree on who owns
// which slot and who has a replica, and every replica is connected to its master.
func (c *Cluster) AwaitAgreement() {
	c.t.Helper()
	agree := func() bool {
		owners := c.owners(c.Nodes[0])
		for _, n := range c.Nodes {
			for _, r := range c.ranges(n) {
				if len(r.servers) != 2 {
					return false
				}
			}
			state := server.ParseInfo(n.MustDo("CLUSTER", "INFO").Text)
			link := n.Info("replication")
			if state["cluster_state"] != "ok" || state["cluster_slots_ok"] != "16384" || !slices.Equal(owners, c.owners(n)) ||
				link["role"] == "slave" && link["master_link_status"] != "up" {
				return false
			}
		}
		return true
	}
	if assert.Eventually(c.t, agree, patience, 20*time.Millisecond, "the nodes do not agree") {
		return
	}
	for _, n := range c.Nodes {
		c.t.Logf("the node on port %d:\n%s%s%s", n.Port, n.MustDo("CLUSTER", "INFO").Text, n.MustDo("CLUSTER", "NODES").Text, n.MustDo("INFO", "replication").Text)
	}
	c.t.FailNow()
}

// slotRange is a run of slots and the ports of its servers, the master first.
type slotRange struct {
	first, last int64
	servers     []int
}

// ranges is what a node knows of who has which slots.
func (c *Cluster) ranges(n *server.Server) []slotRange {
	var ranges []slotRange
	for _, v := range n.MustDo("CLUSTER", "SLOTS").Elems {
		r := slotRange{first: v.Elems[0].Int, last: v.Elems[1].Int}
		for _, s := range v.Elems[2:] {
			r.servers = append(r.servers, int(s.Elems[1].Int))
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// owners is the port of each slot's master, as a node sees it; 0 for no master.
func (c *Cluster) owners(n *server.Server) []int {
	owners := make([]int, 16384)
	for _, r := range c.ranges(n) {
		for slot := r.first; slot <= r.last; slot++ {
			owners[slot] = r.servers[0]
		}
	}
	return owners
}

// Masters are the nodes that own slots, in the order of the slots.
func (c *Cluster) Masters() []*server.Server {
	c.t.Helper()
	var masters []*server.Server
	for _, port := range c.owners(c.Nodes[0]) {
		if n := c.at(port); n != nil && !slices.Contains(masters, n) {
			masters = append(masters, n)
		}
	}
	return masters
}

// Slots are the slots of a master, in order.
func (c *Cluster) Slots(master *server.Server) []int {
	c.t.Helper()
	var slots []int
	for slot, port := range c.owners(c.Nodes[0]) {
		if port == master.Port {
			slots = append(slots, slot)
		}
	}
	return slots
}

// Owner is the master of a slot.
func (c *Cluster) Owner(slot int) *server.Server {
	c.t.Helper()
	owner := c.at(c.owners(c.Nodes[0])[slot])
	require.NotNil(c.t, owner, "slot %d has no owner", slot)
	return owner
}

// ReplicaOf is the one replica of a master.
func (c *Cluster) ReplicaOf(master *server.Server) *server.Server {
	c.t.Helper()
	for _, n := range c.Nodes {
		if link := n.Info("replication"); link["role"] == "slave" && link["master_port"] == strconv.Itoa(master.Port) {
			return n
		}
	}
	require.Failf(c.t, "no replica", "of the master on port %d", master.Port)
	return nil
}

func (c *Cluster) at(port int) *server.Server {
	for _, n := range c.Nodes {
		if n.Port == port {
			return n
		}
	}
	return nil
}

// ID is the name by which the cluster knows a node.
func (c *Cluster) ID(n *server.Server) string { return n.MustDo("CLUSTER", "MYID").Text }

// Slot is the slot of a key.
func (c *Cluster) Slot(key string) int { return int(c.Nodes[0].MustDo("CLUSTER", "KEYSLOT", key).Int) }

// Client is a standard cluster client. It follows redirections, and sends no command
// twice for any other reason.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                    c.addrs(),
		MaxRetries:               -1,
		MaxRedirects:             16,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// field finds a value in the array of names and values that stands for a map in RESP2.
func field(elems []resp.Value, name string) string {
	for i := 0; i+1 < len(elems); i += 2 {
		if elems[i].Text == name {
			return elems[i+1].Text
		}
	}
	return ""
}
