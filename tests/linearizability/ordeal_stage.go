package linearizability

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/hosts"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// stage is servers that go through rounds of faults, each on a host of its own.
type stage struct {
	*testing.T
	setup
	arrangement
	network *hosts.Network
	clock   *clock.Clock
	ticks   *ticking
	nodes   []*node
	history *history // of this round

	mutex  sync.Mutex
	shards [][]*node // the master first
	befell map[kind]int

	functions bool // half of the calls are of functions
}

// arrangement is how servers become masters and replicas.
type arrangement interface {
	// entry is whom a client asks about an object, and learn is told who answered it: see network.
	entry(client int, r *rand.Rand, about string) (addr string, sure bool)
	learn(client int, about, addr string)
	// options apply to every server, place to one that starts again.
	options() []server.Option
	place(n *node) []server.Option
	// form puts the servers into their places, the first of each shard as its master.
	form()
	// begin tells of the objects of a round.
	begin(subjects []subject)
	// handOver makes a replica the master of its shard, and nothing is lost.
	handOver(from, to *node)
	// takeOver makes a replica the master of a shard whose master the other servers do not reach.
	takeOver(from, to *node)
	// rejoin returns when a former master follows its successor.
	rejoin(former, successor *node)
	// divide has some clients stay with a master that a replica has taken over from.
	divide(former *node)
	// moveSlots moves those of some objects to another shard.
	moveSlots(from, to int, subjects []subject, r *rand.Rand)
	// settled says whether every server has its place.
	settled() bool
	// isOf says whether an object is in a shard.
	isOf(shard int) func(subject) bool
	// marker is a key of a shard.
	marker(shard int) string
}

const diskBytes = 64 << 20

// newStage starts the servers of a set-up on some of the hosts.
func newStage(t *testing.T, s setup, network *hosts.Network, first int, r *rand.Rand) *stage {
	t.Helper()
	begin := time.Now().UnixMicro() * 1000
	st := &stage{T: t, setup: s, network: network, clock: clock.New(t, begin), befell: map[kind]int{}}
	if s.shards == 1 {
		st.arrangement = newLed(st)
	} else {
		st.arrangement = newRing(st)
	}
	st.ticks = tick(st.clock, begin, func() time.Duration { return time.Duration(r.IntN(4000)) * time.Microsecond })
	t.Cleanup(st.ticks.end)
	program, err := server.DefaultProgram()
	require.NoError(t, err)
	for i := range s.servers() {
		h := network.Hosts[first+i]
		n := &node{host: h, number: i + 1}
		n.Server = server.Start(t, append(st.options(), server.Host(h.Addr), server.AppendOnly("always"),
			server.Run(st.clock.ProgramOn(n.number, program, []string{network.Preload()}, h.Words()...)),
			server.Config("dir "+h.Disk, "repl-ping-replica-period 1", "repl-backlog-size 4mb"))...)
		st.nodes = append(st.nodes, n)
	}
	t.Cleanup(st.heal) // so that servers are reached when they are stopped, also after a failure
	st.clock.RequireBy(st.nodes[0].Server)
	st.shards = slices.Collect(slices.Chunk(slices.Clone(st.nodes), 1+s.replicas))
	st.form()
	return st
}

// loadFunctions has half of the calls be of functions. A replica that takes over has them as soon as it has heard of
// them.
func (st *stage) loadFunctions() {
	st.functions = true
	for i := range st.shards {
		kit.LoadFunctions(st, st.at(i, 0).Server)
	}
	st.await("every server has the functions", func() bool {
		return !slices.ContainsFunc(st.nodes, func(n *node) bool {
			v, err := n.try("FUNCTION", "LIST")
			return err != nil || len(v.Elems) == 0
		})
	})
}

// await waits for servers to get somewhere.
func (st *stage) await(what string, reached func() bool) {
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			st.Errorf("%s: not within %s", what, patience)
			return
		}
	}
}

// awaitPlaces waits until every server has its place, and may be promoted: until a replica that was sent everything
// anew has rewritten its file, a restart would find it as it was before.
func (st *stage) awaitPlaces() {
	st.await("every server has its place", st.settled)
	st.await("files are complete", func() bool {
		return !slices.ContainsFunc(st.nodes, func(n *node) bool {
			return n.info("persistence", "aof_rewrite_in_progress") != "0" || n.info("persistence", "aof_rewrite_scheduled") != "0"
		})
	})
}

// node is the number of the server at an address.
func (st *stage) node(addr string) int {
	return 1 + slices.IndexFunc(st.nodes, func(n *node) bool { return n.Addr() == addr })
}

// patience is long for a call that may wait in line, because a caller that leaves gives its slot back. Other calls are
// given up sooner than some faults end.
func (st *stage) patience(c *call, r *rand.Rand) time.Duration {
	if c != nil && (c.words[0] == "CL.WAIT" || c.wait != nil) {
		return patience
	}
	return time.Duration(300+r.IntN(2000)) * time.Millisecond
}

// refuses says whether a server turns a call away before it decides it: it has no memory, or cannot write its file.
func (st *stage) refuses(word string) bool {
	return slices.Contains([]string{"OOM", "MISCONF"}, word)
}

// at is the server that has a place now.
func (st *stage) at(shard, place int) *node {
	st.mutex.Lock()
	defer st.mutex.Unlock()
	return st.shards[shard][place]
}

// other is the second server of a fault between two. It goes by places, as the first does, so they are never the same
// server.
func (st *stage) other(f fault) *node { return st.at(f.other/(1+st.replicas), f.other%(1+st.replicas)) }

// lead makes a server the first of its shard.
func (st *stage) lead(n *node) {
	st.mutex.Lock()
	defer st.mutex.Unlock()
	for _, shard := range st.shards {
		if i := slices.Index(shard, n); i >= 0 {
			shard[0], shard[i] = shard[i], shard[0]
		}
	}
}

// others are the servers of all shards, except n.
func (st *stage) others(n *node) (others []*node) {
	for _, other := range st.nodes {
		if other != n {
			others = append(others, other)
		}
	}
	return others
}

// cut makes two servers lose touch, or only the first no longer hear the second.
func (st *stage) cut(n, other *hosts.Host, bothWays bool) {
	st.network.Cut(other, n)
	if bothWays {
		st.network.Cut(n, other)
	}
}

func (st *stage) join(n, other *hosts.Host) {
	st.network.Join(other, n)
	st.network.Join(n, other)
}

// start starts a server that has ended, in its place.
func (st *stage) start(n *node) {
	n.Configure(st.place(n)...)
	if err := n.TryRestart(); err != nil {
		st.Error(err)
	}
}

// heal undoes every cut between the servers and their clients. Other hosts of the network belong to the other set-up.
func (st *stage) heal() {
	var mine []*hosts.Host
	for _, n := range st.nodes {
		mine = append(mine, n.host)
	}
	st.network.Heal(mine...)
}

// copies says whether the replicas of every shard hold what their master does.
func (st *stage) copies() bool {
	for i := range st.shards {
		want, err := st.at(i, 0).try("DEBUG", "DIGEST")
		for place := 1; place <= st.replicas; place++ {
			have, errReplica := st.at(i, place).try("DEBUG", "DIGEST")
			if err != nil || errReplica != nil || want.IsError() || want.Text != have.Text {
				return false
			}
		}
	}
	return true
}

// rest waits until the servers have recovered from everything, and judges them.
func (st *stage) rest() {
	st.heal()
	st.awaitPlaces()
	st.await("replicas hold what their masters do", st.copies)
	st.await("nobody waits in line", func() bool {
		return !slices.ContainsFunc(st.nodes, func(n *node) bool {
			return n.info("throttle", "throttle_waiting") != "0" || n.info("throttle", "throttle_leases_waiting") != "0"
		})
	})
	for _, n := range st.nodes {
		if report := n.CrashReport(); report != "" {
			st.Errorf("server %d: %s", n.number, report)
		}
	}
}

func (st *stage) String() string {
	if st.setup.shards == 1 {
		return fmt.Sprintf("a master with %d replicas", st.replicas)
	}
	return fmt.Sprintf("%d masters with %d replica each", st.setup.shards, st.replicas)
}
