package operating_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// While nobody listens the module only counts its writes (module/listeners.c). These
// servers find that out quickly: they look a hundred times a second, and give up
// their backlog a second after the last replica left.
func soonAlone() server.Option { return server.Config("hz 100", "repl-backlog-ttl 1") }

// allowedCall is a call that is let through and whose key lasts.
func allowedCall(random *rand.Rand) []string {
	key := fmt.Sprint("key", random.IntN(500))
	switch random.IntN(3) {
	case 0:
		return []string{"CL.LIMIT", "stack" + key, "RATE", "100/d", "BURST", "1000000", "FIXED", "1000000000/365d"}
	case 1:
		return []string{"CL.LIMIT", "window" + key, "WINDOW", "1000000000/d"}
	}
	return []string{"CL.THROTTLE", key, "1000000", "100", "1d", "1"}
}

// awaitAlone returns when the server has no backlog and has had the time to notice.
func awaitAlone(t *testing.T, s *server.Server) {
	t.Helper()
	require.Eventually(t, func() bool { return s.Info("replication")["repl_backlog_active"] == "0" }, 60*time.Second, 5*time.Millisecond)
	// Whether it has noticed does not show. If it has not, this test tests less.
	time.Sleep(200 * time.Millisecond)
}

// needsKnownVersion leaves out builds of a server's development, whose version is 255: there everybody is always taken
// to be listening.
func needsKnownVersion(t *testing.T, s *server.Server) {
	t.Helper()
	if s.Program.Major == 255 {
		t.Skip("a development version of the server")
	}
}

func TestReplicaThatComesInTheMiddleMissesNothing(t *testing.T) {
	t.Parallel()
	for name, diskless := range map[string]string{"with a file": "no", "diskless": "yes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := []server.Option{topology.QuietLinks(), soonAlone(), server.Config("repl-diskless-sync " + diskless)}
			master := server.Start(t, opts...)
			replica := server.Start(t, opts...)
			for round := range 3 {
				l := kit.StartLoad(t, master, allowedCall, nil)
				awaitAlone(t, master)
				replica.MustDo("REPLICAOF", "127.0.0.1", fmt.Sprint(master.Port))
				require.Eventually(t, func() bool { return kit.LinkIsUp(replica) }, 60*time.Second, time.Millisecond)
				l.Await(t, 1000)
				l.Stop()
				topology.AwaitReplicas(t, master, replica)
				state := topology.RequireCopies(t, master, replica)
				require.NotEmpty(t, state, "round %d", round)
				replica.MustDo("REPLICAOF", "NO", "ONE")
			}
			assert.Empty(t, master.LogLines("somebody listens who did not begin with a fork"))
		})
	}
}

func TestAppendOnlyFileSwitchedOnInTheMiddleMissesNothing(t *testing.T) {
	t.Parallel()
	s := server.Start(t, soonAlone())
	l := kit.StartLoad(t, s, allowedCall, nil)
	awaitAlone(t, s)
	s.MustDo("CONFIG", "SET", "appendonly", "yes")
	l.Await(t, 1000)
	topology.AwaitNoRewrite(t, s)
	l.Await(t, 1000)
	l.Stop()
	want := topology.Read(t, s)
	require.NotEmpty(t, want)
	s.Configure(server.AppendOnly("always"))
	s.Restart()
	topology.RequireEqual(t, want, topology.Read(t, s), "after a restart")
	assert.Empty(t, s.LogLines("somebody listens"))
}

func TestPromotedReplicaFeedsItsOwn(t *testing.T) {
	t.Parallel()
	opts := []server.Option{topology.QuietLinks(), soonAlone()}
	old := server.Start(t, opts...)
	promoted := server.Start(t, append(opts, server.ReplicaOf(old))...)
	below := server.Start(t, append(opts, server.ReplicaOf(promoted), server.WithoutModule())...)
	topology.AwaitReplicas(t, old, promoted, below)
	l := kit.StartLoad(t, old, allowedCall, nil)
	l.Await(t, 2000)
	l.Stop()
	topology.AwaitReplicas(t, old, promoted, below)
	promoted.MustDo("REPLICAOF", "NO", "ONE")
	l = kit.StartLoad(t, promoted, allowedCall, nil)
	l.Await(t, 2000)
	later := server.Start(t, append(opts, server.ReplicaOf(promoted))...)
	require.Eventually(t, func() bool { return kit.LinkIsUp(later) }, 60*time.Second, time.Millisecond)
	l.Await(t, 2000)
	l.Stop()
	topology.AwaitReplicas(t, promoted, below, later)
	topology.RequireCopies(t, promoted, below, later)
}

// The look at INFO, ten times a second by default, gives its memory back. So does loading the module.
func TestALookForListenersLeavesNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Config("hz 500", "repl-backlog-ttl 1"))
	uptime := func() int64 { return s.InfoInt("server", "uptime_in_seconds") }
	usedMemory := func() int64 { return s.InfoInt("memory", "used_memory") }
	// The server makes the buffers of a connection larger and smaller, by 15 KB, when it likes. What is left behind
	// stays.
	comesDownTo := func(most int64, what string) {
		t.Helper()
		lowest := int64(math.MaxInt64)
		assert.Eventually(t, func() bool {
			lowest = min(lowest, usedMemory())
			return lowest < most
		}, 60*time.Second, 10*time.Millisecond, what)
		t.Logf("%s: used_memory is %d bytes below the bound", what, most-lowest)
	}
	pass := func(seconds int64) {
		from := uptime()
		require.Eventually(t, func() bool { return uptime() >= from+seconds }, 60*time.Second, 50*time.Millisecond)
	}
	pass(1)
	before := usedMemory()
	pass(4)
	// Some 2,000 looks: one field of each left behind would be 32 KB, and an INFO has 20.
	comesDownTo(before+(8<<10), "looks")

	path, err := server.ModulePath()
	require.NoError(t, err)
	reload := func() {
		for range 20 {
			s.MustDo("MODULE", "UNLOAD", "throttle")
			s.MustDo("MODULE", "LOAD", path)
		}
	}
	reload()
	before = usedMemory()
	reload()
	comesDownTo(before+(20<<10), "20 times loaded")
}

// A replica that has lost its link goes on where it was, so the module keeps replicating effects as long as the backlog
// is there.
func TestReplicaThatReconnectsMissesNothing(t *testing.T) {
	t.Parallel()
	master := server.Start(t, topology.QuietLinks(), server.Config("hz 100", "repl-backlog-ttl 3600"))
	replica := server.Start(t, topology.QuietLinks(), server.WithoutModule(), server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, replica)
	replica.Pause()
	master.MustDo("CLIENT", "KILL", "TYPE", "replica")
	require.Eventually(t, func() bool { return master.Info("replication")["connected_slaves"] == "0" }, 60*time.Second, time.Millisecond)
	require.Equal(t, "1", master.Info("replication")["repl_backlog_active"])
	time.Sleep(200 * time.Millisecond) // as in awaitAlone: for the module to look, which does not show
	kit.MustDoAll(t, master.Raw(), "CL.THROTTLE a 9 1 1h", "CL.LIMIT b RATE 2/h")
	replica.Resume()
	require.Eventually(t, func() bool { return kit.LinkIsUp(replica) && master.InfoInt("stats", "sync_partial_ok") == 1 }, 60*time.Second, 5*time.Millisecond)
	topology.AwaitReplicas(t, master, replica)
	require.Len(t, topology.RequireCopies(t, master, replica), 2)
	assert.Empty(t, replica.LogLines("unknown command"))
}

// The module has seen nothing of what came while it was not loaded.
func TestReplicaThatCameWhileTheModuleWasUnloadedMissesNothing(t *testing.T) {
	t.Parallel()
	master := server.Start(t, topology.QuietLinks(), soonAlone())
	awaitUnnoticed(t, master)
	master.MustDo("MODULE", "UNLOAD", "throttle")
	replica := server.Start(t, topology.QuietLinks(), server.WithoutModule(), server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, replica)
	path, err := server.ModulePath()
	require.NoError(t, err)
	kit.MustDoAll(t, master.Raw(), "MODULE LOAD "+path, "CL.THROTTLE a 9 1 1h")
	topology.AwaitReplicas(t, master, replica)
	require.Len(t, topology.RequireCopies(t, master, replica), 1)
	assert.Empty(t, replica.LogLines("unknown command"))
}

// In a cluster, slots move to nodes that may not have the module.
func TestInAClusterEveryWriteIsReplicatedAsAnEffect(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Cluster(), topology.QuietLinks(), soonAlone(), defaultSyncDelay())
	var slots []string
	for slot := range 16384 {
		slots = append(slots, fmt.Sprint(slot))
	}
	s.MustDo(append([]string{"CLUSTER", "ADDSLOTS"}, slots...)...)
	require.Eventually(t, func() bool { return strings.Contains(s.MustDo("CLUSTER", "INFO").Text, "cluster_state:ok") }, 60*time.Second, 5*time.Millisecond)
	assert.Equal(t, "SET", firstInBacklog(t, s))
}

// The save points go by this counter.
func TestChangesAreCountedAlsoWhenNobodyListens(t *testing.T) {
	t.Parallel()
	s := server.Start(t, soonAlone())
	needsKnownVersion(t, s)
	awaitAlone(t, s)
	c := s.Raw()
	changes := func() int64 { return s.InfoInt("persistence", "rdb_changes_since_last_save") }
	before := changes()
	for _, command := range []string{
		"CL.THROTTLE a 9 1 1h", "CL.THROTTLE a 9 1 1h", "CL.LIMIT b RATE 2/h", "CL.LIMIT c WINDOW 5/h FIXED 9/365d", "CL.REFUND b RATE 2/h",
		"CL.WAIT d RATE 1/h TIMEOUT 1s", "CL.LEASE f SLOTS 2 TTL 1h ID a", "CL.LEASE f SLOTS 2 TTL 2h ID a", "CL.LEASE f SLOTS 2 TTL 1h ID b", "CL.RENEW f ID a TTL 1h",
		"CL.RELEASE f ID a", "CL.RELEASE f ID b", // these change one key each
		"MULTI", "CL.THROTTLE a 9 1 1h", "CL.LIMIT b RATE 2/h", "EXEC",
		"CL.PEEK a RATE 1/h", "CL.THROTTLE a 9 1 1h 0", "CL.LIMIT d RATE 1/h", "CL.RELEASE f ID a", "CL.RENEW f ID a TTL 1h", "CL.LEASES f", "CL.INSPECT a", "CL.INSPECT f", // these none
	} {
		require.False(t, kit.Do(t, c, "%s", command).IsError(), command)
	}
	v, err := c.Do("EVAL", "for i = 1, 10 do redis.call('CL.THROTTLE', KEYS[1], 99, 1, '1h') end", "1", "e")
	require.NoError(t, err)
	require.False(t, v.IsError())
	assert.EqualValues(t, 12+2+10, changes()-before)
}

// Where nobody listens, no effect is made, which takes a quarter of a call. It shows where the server has no command
// for the effect: the change is counted all the same, as soon as the module has seen that nobody listens.
func TestEffectsAreMadeForListenersOnly(t *testing.T) {
	t.Parallel()
	s := server.Start(t, soonAlone(), server.Config(`rename-command SET ""`))
	needsKnownVersion(t, s)
	c := s.Raw()
	changes := func() int64 { return s.InfoInt("persistence", "rdb_changes_since_last_save") }
	require.Eventually(t, func() bool {
		before := changes()
		kit.Ask(t, c, "CL.LIMIT key FIXED 1000000/365d")
		return changes() == before+1
	}, 60*time.Second, 5*time.Millisecond)
}

// An effect whose command has another name is lost without an error, so the log tells of it.
func TestARenamedEffectIsNamedInTheLog(t *testing.T) {
	t.Parallel()
	const warning = "has another name here"
	assert.Empty(t, server.Start(t).LogLines(warning))
	for _, effect := range []string{"SET", "DEL", "ZADD", "ZREM", "PEXPIREAT"} {
		t.Run(effect, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, server.Config("rename-command "+effect+" other"))
			lines := s.LogLines(warning)
			require.Len(t, lines, 1)
			assert.Contains(t, lines[0], effect+" "+warning)
			assert.False(t, kit.Do(t, s.Raw(), "CL.THROTTLE key 15 30 60 1").IsError())
		})
	}
}
