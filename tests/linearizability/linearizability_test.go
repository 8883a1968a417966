package linearizability

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

var callsFlag = flag.Int("calls", 0, "how many calls each of the eight clients makes; by default 200, or 100 with -short")

// scene is a clock, a random source and a load on the servers that a test starts.
type scene struct {
	*testing.T
	r     *rand.Rand
	clock *clock.Clock
	ticks *ticking
	load  *load
}

func newScene(t *testing.T) *scene {
	s := &scene{T: t, r: chance.New(t)}
	begin := time.Now().UnixMicro() * 1000
	s.clock = clock.New(t, begin)
	r := rand.New(rand.NewPCG(s.r.Uint64(), 0))
	s.ticks = tick(s.clock, begin, func() time.Duration { return time.Duration(r.IntN(2000)) * time.Microsecond })
	t.Cleanup(s.ticks.end)
	return s.on(t, "")
}

// on is the scene with another load, on keys with a hash tag.
func (s *scene) on(t *testing.T, tag string) *scene {
	other := *s
	program, err := server.DefaultProgram()
	require.NoError(t, err)
	other.T = t
	other.load = &load{t: t, seed: s.r.Uint64(), subjects: subjects(s.r, program.IsDev(), tag), clients: 8, calls: cmp.Or(*callsFlag, size.Of(100, 200))}
	return &other
}

// run runs the load at a server, beside what a test does.
func (s *scene) run(at *server.Server, does func()) *history {
	s.load.goTo(at.Addr())
	s.load.history = s.ticks.record()
	s.load.during = make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		defer close(s.load.during)
		does()
	}()
	s.load.run()
	<-stopped
	s.ticks.rest()
	return s.load.history
}

func nothing() {}

// often does something some times, with pauses of up to d before each.
func (s *scene) often(times int, d time.Duration, f func()) func() {
	return func() {
		for range times {
			time.Sleep(time.Duration(s.r.Int64N(int64(d))))
			f()
		}
	}
}

func (s *scene) requireLinearizable(h *history) {
	failed, undecided := h.check()
	require.Empty(s, undecided, "the checker did not finish within %s", patience)
	s.Logf("%d operations on %d objects, %d of them without a reply", len(h.operations), len(s.load.subjects), h.unknown)
	if !assert.Empty(s, failed, "no order of the calls explains the replies") {
		show(s.T, h, failed[0])
	}
}

// show logs what is known of the history of an object up to where no order explains it.
func show(t *testing.T, h *history, name string) {
	list := func(operations []porcupine.Operation) {
		for _, op := range operations {
			out := op.Output.(*outcome)
			t.Logf("%d to %d: client %d, node %d: %v: %v %v", op.Call, op.Return, op.ClientId, out.node, op.Input, out.reply,
				map[[2]bool]string{{true, false}: "no reply", {false, true}: "refused"}[[2]bool{out.unknown, out.refused}])
		}
	}
	order, states, rest := h.longest(name)
	t.Logf("an order that explains %d operations:", len(order))
	list(order[max(0, len(order)-30):])
	for _, state := range states {
		t.Logf("then it is %d, by clocks that are ahead by %v, node %d leads and %d did: %v", state.nowNs, state.ahead, state.master, state.former, state.object)
	}
	t.Log("the first that are not in it:")
	list(rest[:min(len(rest), 15)])
}

func TestConcurrentCallsAreLinearizable(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.load.crashes = 80
	s.requireLinearizable(s.run(s.clock.Start(), nothing))
}

// Callers with and without the module share keys: one order explains the replies to all of them.
func TestConcurrentCallsOfCommandsAndFunctionsAreLinearizable(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	s := newScene(t)
	s.load.crashes = 80
	s.load.callFunctions(func() bool { return true })
	at := s.clock.Start()
	kit.LoadFunctions(t, at)
	s.requireLinearizable(s.run(at, nothing))
}

func TestCallsOfAServerThatPausesAreLinearizable(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	at := s.clock.Start()
	control := at.Raw()
	s.requireLinearizable(s.run(at, s.often(20, 20*time.Millisecond, func() {
		length := time.Duration(1+s.r.IntN(10)) * time.Millisecond
		if s.r.IntN(2) == 0 {
			at.Pause()
			time.Sleep(length)
			at.Resume()
			return
		}
		_, err := control.Do("CLIENT", "PAUSE", strconv.FormatInt(length.Milliseconds(), 10), []string{"WRITE", "ALL"}[s.r.IntN(2)])
		assert.NoError(t, err)
	})))
}

// What was answered was in the file before.
func TestCallsOfAServerThatIsKilledAreLinearizable(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	at := s.clock.Start(server.AppendOnly("always"))
	s.requireLinearizable(s.run(at, s.often(5, 100*time.Millisecond, func() {
		at.Kill()
		assert.NoError(t, at.TryRestart())
	})))
}

func TestCallsThroughPlannedFailoversAreLinearizable(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	master := s.clock.Start()
	if !master.Program.AtLeast(7, 0) {
		t.Skip("FAILOVER, as it is used here, is of Redis 7.0 and later")
	}
	replica := s.clock.Start(server.ReplicaOf(master))
	awaitReplica(t, master)
	s.requireLinearizable(s.run(master, s.often(4, 50*time.Millisecond, func() {
		v := master.Do("FAILOVER", "TO", "127.0.0.1", strconv.Itoa(replica.Port))
		if !assert.False(t, v.IsError(), "%v", v) {
			return
		}
		assert.Eventually(t, func() bool { return role(replica) == "master" && role(master) == "slave" }, patience, time.Millisecond)
		master, replica = replica, master
		s.load.goTo(master.Addr())
		awaitReplica(t, master)
	})))
}

func role(s *server.Server) string { return s.Info("replication")["role"] }

func awaitReplica(t *testing.T, master *server.Server) {
	assert.Eventually(t, func() bool {
		info := master.Info("replication")
		return strings.Contains(info["slave0"], "state=online") && info["master_failover_state"] == "no-failover"
	}, patience, time.Millisecond)
}

// Keys move to another node and back, one by one, while clients follow MOVED and ASK.
func TestCallsInAClusterWhoseSlotsMoveAreLinearizable(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := topology.StartCluster(t, server.Run(s.clock.Program()))
	s.clock.RequireBy(c.Nodes[0])
	masters := c.Masters()
	s.requireLinearizable(s.run(masters[0], s.often(30, 30*time.Millisecond, func() {
		slot := c.Slot(s.load.subjects[s.r.IntN(len(s.load.subjects))].name())
		from := c.Owner(slot)
		to := masters[s.r.IntN(len(masters))]
		if from != to {
			moveSlot(t, s.r, c, slot, from, to)
		}
	})))
}

// A slot changes hands in each way that the server has, key by key also there and back again, or to the replica of its
// master. Who has it then holds what its replica does, and nobody else has a key of it.
func TestCallsOfASlotThatChangesHandsAreLinearizable(t *testing.T) {
	t.Parallel()
	all := newScene(t)
	c := topology.StartCluster(t, server.Run(all.clock.Program()))
	all.clock.RequireBy(c.Nodes[0])
	c.InEachWay(t, func(t *testing.T, way topology.Way) {
		masters := c.Masters()
		from, to := masters[0], masters[1]
		tag, slot := c.TagAmongLowest(from)
		s := all.on(t, "{"+tag+"}")
		c.BetweenKeys = func() { // calls find some keys here and some there
			sofar := s.load.history.size()
			assert.Eventually(t, func() bool { return s.load.history.size() > sofar+20 }, patience, time.Millisecond)
		}
		s.requireLinearizable(s.run(from, s.often(1, 30*time.Millisecond, func() {
			way.Pass(c, slot, from, to)
			if way.Name == "key by key" {
				way.Pass(c, slot, to, from)
				way.Pass(c, slot, from, to)
			}
		})))
		c.AwaitAgreement()
		owner := c.Owner(slot)
		require.NotSame(t, from, owner, "the slot stayed where it was")
		topology.AwaitReplicas(t, owner, c.ReplicaOf(owner))
		topology.RequireCopies(t, owner, c.ReplicaOf(owner))
		for _, master := range c.Masters() {
			if master != owner {
				assert.Zero(t, master.MustDo("CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)).Int, "keys left behind")
			}
		}
	})
}

// A replica that takes over from a dead master may lack what was written last, of every key, and nothing else.
func TestAReplicaThatTakesOverForgetsTheLastWritesAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.requireLinearizable(s.takeOver(true, false))
}

// takeOver kills a master in the middle and lets its replica take over, which is noted or not, and may lose all.
func (s *scene) takeOver(noted, losesAll bool) *history {
	master := s.clock.Start()
	link := topology.LinkTo(s, master)
	replica := s.clock.Start(server.Config(fmt.Sprint("replicaof 127.0.0.1 ", link.Port)))
	topology.AwaitReplicas(s, master, replica)
	control := master.Raw()
	s.load.clients = 4 // the checker looks at all ways of forgetting
	return s.run(master, func() {
		history := s.load.history
		s.often(5, 10*time.Millisecond, func() {
			began := history.now()
			_, err := control.Do("SET", "marker", "") // WAIT is about what its own connection has written
			assert.NoError(s, err)
			if v, err := control.Do("WAIT", "1", "5000"); assert.NoError(s, err) && v.Int == 1 {
				history.note(0, &replication{}, began, &outcome{})
			}
		})()
		link.Hold() // so that there is something to forget
		written := master.InfoInt("replication", "master_repl_offset")
		assert.Eventually(s, func() bool { return master.InfoInt("replication", "master_repl_offset") > written }, patience, time.Millisecond)
		began := history.now()
		master.Kill()
		assert.Equal(s, "OK", replica.Do("REPLICAOF", "NO", "ONE").Text)
		link.Release()
		if losesAll {
			replica.MustDo("FLUSHALL")
		}
		if noted {
			history.note(0, &succession{}, began, &outcome{})
		}
		s.load.goTo(replica.Addr())
	})
}
