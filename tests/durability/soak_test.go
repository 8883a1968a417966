package durability

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// How long the soak lasts: SOAK=10m, or else what the size of the tests says. go test needs a -timeout beyond it.
func soakDuration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SOAK")
	if text == "" {
		return size.Of(2*time.Second, time.Minute)
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, "SOAK")
	return d
}

// What a server may have more of after the soak than before it. used_memory counts
// what was allocated, so it shows a leak of a byte in every call; RSS also holds what
// the allocator and the Go runtime keep for the next time.
const (
	usedSlack = 512 << 10
	rssSlack  = 16 << 20
)

// Everything that happens to a server in its life, at once: callers that come, go and
// are killed; others that wait for seconds or for years, and leave; another module that
// calls in the middle of every command; snapshots, rewrites, pauses and failovers that
// are called off; memory that runs out; databases that are flushed and swapped; other
// clients that write what they like to a limiter's keys. One server has a replica and
// an append-only file; the other has neither, and first replicas come and go.
//
// The servers live, no reply is malformed, nobody is left waiting, replicas are equal to
// them, they do nothing when nothing happens, and their memory is where it was.
func TestSoak(t *testing.T) {
	begin(t)
	duration := soakDuration(t)
	heard := server.Start(t, neighbour.Beside(t), server.ModuleArgs("top", "100"), server.AppendOnly("everysec"), server.Config("repl-backlog-size 1mb"))
	replica := server.Start(t, server.ReplicaOf(heard), server.WithoutModule())
	topology.AwaitReplicas(t, heard, replica)
	alone := server.Start(t, neighbour.Beside(t), server.ModuleArgs("top", "100"), server.Config("repl-diskless-sync yes", "repl-backlog-size 8mb", "repl-backlog-ttl 1"))

	// What a server allocates once and keeps (backlog, buffers) is there after a while.
	endureTogether(t, min(5*time.Second, duration), heard, replica, alone)
	before := [2]memory{memoryAtRest(t, heard, replica, memory{}), memoryAtRest(t, alone, nil, memory{})}

	soaks := endureTogether(t, duration, heard, replica, alone)
	after := [2]memory{memoryAtRest(t, heard, replica, before[0]), memoryAtRest(t, alone, nil, before[1])}
	for i, o := range soaks {
		t.Logf("in %v, %s: %s", duration, [2]string{"with a replica", "alone"}[i], o)
		assert.Empty(t, o.missing(), "never happened")
		t.Logf("used_memory %v before, %v after; RSS %v before, %v after", before[i].used, after[i].used, before[i].rss, after[i].rss)
		assert.Equal(t, before[i].pid, after[i].pid, "the server was replaced")
		assert.LessOrEqual(t, after[i].used, before[i].used+usedSlack, "used_memory")
		assert.LessOrEqual(t, after[i].rss, before[i].rss+rssSlack, "RSS")
	}
	if duration >= time.Minute { // every other visit, by chance
		assert.Positive(t, alone.InfoInt("stats", "sync_partial_ok"), "replicas that went on from a file")
	}
	assert.Empty(t, alone.LogLines("listens"))
}

// endureTogether has both servers endure everything for a while, and for longer if a busy machine has not come to all
// of it by then. It returns when all have stopped and gone.
func endureTogether(t *testing.T, d time.Duration, heard, replica, alone *server.Server) [2]*soak {
	t.Helper()
	const longVisit = 10 * time.Second // about, with the default delay
	const patience = 3 * time.Minute
	end := time.Now().Add(d)
	soaks := [2]*soak{startSoak(t, heard, replica), startSoak(t, alone, nil)}
	soaks[1].visit(0)
	for time.Until(end) > longVisit && !t.Failed() {
		soaks[1].visit([]time.Duration{0, time.Second, 5 * time.Second}[rand.IntN(3)])
	}
	isDone := func() bool { return len(soaks[0].missing())+len(soaks[1].missing()) == 0 || time.Since(end) > patience }
	for (time.Now().Before(end) || !isDone()) && !t.Failed() {
		time.Sleep(10 * time.Millisecond)
	}
	for _, o := range soaks {
		o.end()
		o.nest(nil)
	}
	requireIdle(t, soaks[:]...)
	for _, o := range soaks {
		o.goHome()
	}
	return soaks
}

// memory is what one process has of it.
type memory struct {
	pid       int64
	used, rss byteCount
}

type byteCount int64

func (s byteCount) String() string { return fmt.Sprintf("%.1f MiB", float64(s)/(1<<20)) }

// memoryAtRest compares the copies, where there are two, empties the server, and measures it once it has
// nothing left to do and is back to what it had before, or will not get there.
func memoryAtRest(t *testing.T, s, replica *server.Server, before memory) memory {
	t.Helper()
	if replica != nil {
		requireSame(t, s, replica)
		fillBacklog(t, s)
	}
	s.MustDo("FLUSHALL")
	topology.AwaitNoRewrite(t, s)
	if replica != nil {
		topology.AwaitReplicas(t, s, replica)
	}
	var m memory
	measure := func() bool {
		s.MustDo("MEMORY", "PURGE")
		m = memory{
			pid:  s.InfoInt("server", "process_id"),
			used: byteCount(s.InfoInt("memory", "used_memory")),
			rss:  byteCount(s.InfoInt("memory", "used_memory_rss")),
		}
		atRest := s.InfoInt("memory", "lazyfree_pending_objects") == 0 && s.Info("persistence")["rdb_bgsave_in_progress"] == "0"
		return atRest && (before == memory{} || m.used <= before.used+usedSlack && m.rss <= before.rss+rssSlack)
	}
	for deadline := time.Now().Add(10 * time.Second); !measure() && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	return m
}

// fillBacklog writes until the server's backlog is as large as it gets. How much of it a soak fills depends on how busy
// the machine is, and the rest would look like a leak in the next one.
func fillBacklog(t *testing.T, s *server.Server) {
	t.Helper()
	full := s.InfoInt("replication", "repl_backlog_size")
	filler := strings.Repeat("x", 16<<10)
	for range 2 * full / int64(len(filler)) {
		s.MustDo("SET", "filler", filler)
	}
	require.GreaterOrEqual(t, s.InfoInt("replication", "repl_backlog_histlen"), full)
}
