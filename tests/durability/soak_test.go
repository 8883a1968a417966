package durability

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// How long the soak lasts: SOAK=10m, or a minute. go test needs a -timeout beyond it.
func soakDuration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SOAK")
	if text == "" {
		return time.Minute
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
// are killed; snapshots, rewrites and pauses; memory that runs out; databases that are
// flushed and swapped; other clients that write what they like to a limiter's keys.
// The server lives, no reply is malformed, its replica is equal to it in the end, and
// its memory is where it was.
func TestSoak(t *testing.T) {
	begin(t)
	duration := soakDuration(t)
	// The backlog fills up before the first measurement; Valkey's would take longer.
	master := server.Start(t, server.AppendOnly("everysec"), server.Config("repl-backlog-size 1mb"))
	replica := server.Start(t, server.ReplicaOf(master), server.WithoutModule())
	topology.AwaitReplicas(t, master, replica)

	// What a server allocates once and keeps (backlog, buffers) is there after a while.
	warmUp := startOrdeal(t, master)
	warmUp.last(min(5*time.Second, duration))
	before := memoryAtRest(t, master, replica, memory{})

	o := startOrdeal(t, master)
	o.last(duration)
	t.Logf("in %v: %s", duration, o)
	o.requireEverythingHappened()
	after := memoryAtRest(t, master, replica, before)

	t.Logf("used_memory %v before, %v after; RSS %v before, %v after", before.used, after.used, before.rss, after.rss)
	assert.Equal(t, before.pid, after.pid, "the server was replaced")
	assert.LessOrEqual(t, after.used, before.used+usedSlack, "used_memory")
	assert.LessOrEqual(t, after.rss, before.rss+rssSlack, "RSS")
}

// memory is what one process has of it.
type memory struct {
	pid       int64
	used, rss size
}

type size int64

func (s size) String() string { return fmt.Sprintf("%.1f MiB", float64(s)/(1<<20)) }

// memoryAtRest compares the copies, empties the server, and measures it once it has
// nothing left to do and is back to what it had before, or will not get there.
func memoryAtRest(t *testing.T, s, replica *server.Server, before memory) memory {
	t.Helper()
	s.MustDo("DEBUG", "SET-ACTIVE-EXPIRE", "0")
	topology.AwaitReplicas(t, s, replica)
	require.Equal(t, s.MustDo("DEBUG", "DIGEST").Text, replica.MustDo("DEBUG", "DIGEST").Text, "the replica differs")
	s.MustDo("DEBUG", "SET-ACTIVE-EXPIRE", "1")

	s.MustDo("FLUSHALL")
	awaitNoRewrite(t, s)
	topology.AwaitReplicas(t, s, replica)
	var m memory
	measure := func() bool {
		s.MustDo("MEMORY", "PURGE")
		m = memory{
			pid:  s.InfoInt("server", "process_id"),
			used: size(s.InfoInt("memory", "used_memory")),
			rss:  size(s.InfoInt("memory", "used_memory_rss")),
		}
		atRest := s.InfoInt("memory", "lazyfree_pending_objects") == 0 && s.Info("persistence")["rdb_bgsave_in_progress"] == "0"
		return atRest && (before == memory{} || m.used <= before.used+usedSlack && m.rss <= before.rss+rssSlack)
	}
	for deadline := time.Now().Add(10 * time.Second); !measure() && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	return m
}
