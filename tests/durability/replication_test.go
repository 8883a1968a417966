package durability

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// replicated is what every server of a replicated database is started with here. The
// backlog holds what is written while a link is down.
func replicated(opts ...server.Option) []server.Option {
	return append(opts, topology.QuietLinks(), server.Config("repl-backlog-size 256mb", "client-output-buffer-limit replica 0 0 0"))
}

// A master under random calls, a replica with the module, one without, and whatever
// happens to the replicas: in the end all hold the same bytes and expiries.
func TestReplicasStayEqual(t *testing.T) {
	begin(t)
	calls := size.Of[int64](10_000, 100_000)
	master := server.Start(t, replicated()...)
	with := server.Start(t, replicated(server.ReplicaOf(master))...)
	without := server.Start(t, replicated(server.ReplicaOf(master), server.WithoutModule())...)
	replicas := []*server.Server{with, without}
	topology.AwaitReplicas(t, master, replicas...)

	stats := func(field string) int64 { return master.InfoInt("stats", field) }
	for _, event := range []struct {
		name string
		// meanwhile happens in the middle of the calls.
		meanwhile func(*testing.T, *traffic)
	}{
		{"nothing else happens", func(*testing.T, *traffic) {}},
		{"a replica stands still for seconds", func(_ *testing.T, tr *traffic) {
			without.Pause()
			for since := time.Now(); time.Since(since) < 2*time.Second; {
				tr.await(1)
			}
			without.Resume()
		}},
		{"the links are cut", func(t *testing.T, tr *traffic) {
			full, partial := stats("sync_full"), stats("sync_partial_ok")
			require.EqualValues(t, 2, master.MustDo("CLIENT", "KILL", "TYPE", "replica").Int)
			require.Eventually(t, func() bool { return stats("sync_partial_ok") == partial+2 }, time.Minute, 5*time.Millisecond)
			assert.Equal(t, full, stats("sync_full"), "a partial resynchronization was meant")
		}},
		{"a replica is killed and started again", func(_ *testing.T, tr *traffic) {
			with.Kill()
			tr.await(calls / 10)
			with.Restart()
		}},
		{"a replica of a replica is added", func(t *testing.T, _ *traffic) {
			further := server.Start(t, replicated(server.ReplicaOf(without), server.WithoutModule())...)
			replicas = append(replicas, further)
		}},
	} {
		t.Run(event.name, func(t *testing.T) {
			tr := startTraffic(t, master)
			tr.await(calls / 2)
			event.meanwhile(t, tr)
			tr.await(calls / 2)
			tr.stop()
			topology.AwaitReplicas(t, master, replicas...)
			state := topology.RequireCopies(t, master, replicas...)
			requireWorthComparing(t, state)
			t.Logf("%d calls, %d of them allowed; %d keys equal on %d servers",
				tr.answered(), tr.allowed.Load(), len(state), 1+len(replicas))
		})
	}
}

// What is denied, refused or only asked costs neither the network nor the disk.
func TestCallsThatTakeNothingAreNotReplicated(t *testing.T) {
	begin(t)
	master := server.Start(t, replicated(server.AppendOnly("always"))...)
	replica := server.Start(t, replicated(server.ReplicaOf(master), server.AppendOnly("always"))...)
	short := limit{"9 1 1h", 10, time.Hour}
	c := master.Raw()
	_, err := c.Pipeline(short.call("empty", 10), short.call("half", 5), []string{"SET", "foreign", "bar"})
	require.NoError(t, err)
	topology.AwaitReplicas(t, master, replica)
	topology.AwaitNoRewrite(t, replica) // one follows a replica's first synchronization

	// measure returns the master's replication offset and the sizes of both files.
	measure := func() [3]int64 {
		return [3]int64{
			master.InfoInt("replication", "master_repl_offset"),
			master.InfoInt("persistence", "aof_current_size"),
			replica.InfoInt("persistence", "aof_current_size"),
		}
	}
	before := measure()
	require.Positive(t, before[1])
	for range 1000 {
		replies, err := c.Pipeline(
			short.call("empty", 1), short.call("half", 6), short.call("half", 11), // denied
			short.call("empty", 0), short.call("half", 0), short.call("unused", 0), // peeks
			short.call("unused", 11),                                            // more than there can be
			short.call("foreign", 1), []string{"CL.THROTTLE", "half", "9", "1"}) // errors
		require.NoError(t, err)
		for i, v := range replies {
			require.Equal(t, i >= 7, v.IsError(), "reply %d: %v", i, v)
		}
	}
	assert.Equal(t, before, measure())
	_, err = c.Do(short.call("half", 1)...)
	require.NoError(t, err)
	topology.AwaitReplicas(t, master, replica)
	for i, n := range measure() {
		assert.Greater(t, n, before[i], "an allowed call shows")
	}
}

// A replica takes no calls, not even those that only ask: the command is one that
// writes. A master cut off from its replicas can be told to take none either.
func TestReplicasAndLonelyMastersRefuseCalls(t *testing.T) {
	begin(t)
	master := server.Start(t, server.Config("min-replicas-to-write 1"))
	replica := server.Start(t, server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, replica)
	require.Eventually(t, func() bool { return !master.Do(hourly.call("key", 1)...).IsError() }, time.Minute, 10*time.Millisecond)
	for _, quantity := range []int64{0, 1} {
		v := replica.Do(hourly.call("key", quantity)...)
		assert.True(t, v.IsError() && strings.HasPrefix(v.Text, "READONLY "), "%v", v)
	}
	replica.Stop()
	for _, quantity := range []int64{0, 1} {
		require.Eventually(t, func() bool {
			return strings.HasPrefix(master.Do(hourly.call("key", quantity)...).Text, "NOREPLICAS ")
		}, time.Minute, 10*time.Millisecond)
	}
}
