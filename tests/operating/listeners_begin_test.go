package operating_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// By default a master waits this long for further replicas before it forks for the first.
// The backlog exists from the first one's PSYNC on.
func defaultSyncDelay() server.Option {
	return server.Config("repl-diskless-sync yes", "repl-diskless-sync-delay 5")
}

// awaitUnnoticed returns when the module takes the server to be alone and has about a second
// until it looks again.
func awaitUnnoticed(t *testing.T, s *server.Server) {
	t.Helper()
	s.MustDo("CONFIG", "SET", "hz", "100")
	awaitAlone(t, s)
	s.MustDo("CONFIG", "SET", "hz", "1")
}

// beginToListen is a replica that the server has not forked for yet.
func beginToListen(t *testing.T, s *server.Server) *resp.Conn {
	t.Helper()
	c := s.Raw()
	require.False(t, kit.Do(t, c, "REPLCONF capa eof").IsError())
	require.NoError(t, c.Send("PSYNC", "?", "-1"))
	require.NoError(t, c.Flush())
	require.Eventually(t, func() bool { return s.Info("replication")["connected_slaves"] == "1" }, 60*time.Second, time.Millisecond)
	require.Equal(t, "1", s.Info("replication")["repl_backlog_active"])
	return c
}

// firstInBacklog is the name of the command that a write is in a backlog which the module
// has had no time to notice. It is the module's own where the module took nobody to listen.
func firstInBacklog(t *testing.T, s *server.Server) string {
	t.Helper()
	awaitUnnoticed(t, s)
	waiting := beginToListen(t, s)
	defer waiting.Close()
	r := s.Info("replication")
	s.MustDo("CL.THROTTLE", "probe", "1000", "1", "60")
	var offset int64
	_, err := fmt.Sscan(r["master_repl_offset"], &offset)
	require.NoError(t, err)
	reader := s.Raw()
	defer reader.Close()
	v, err := reader.Do("PSYNC", r["master_replid"], fmt.Sprint(offset+1))
	require.NoError(t, err)
	require.Contains(t, v.Text, "CONTINUE")
	for {
		v, err := reader.Receive()
		require.NoError(t, err)
		require.NotEmpty(t, v.Elems)
		if name := strings.ToUpper(v.Elems[0].Text); name != "SELECT" && name != "PING" {
			return name
		}
	}
}

// requireOnlyCounted is that writes are only counted again. One try may come too late to
// see it: the module looks on its own time.
func requireOnlyCounted(t *testing.T, s *server.Server) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 60*time.Second; {
		if firstInBacklog(t, s) == "CL.THROTTLE" {
			return
		}
	}
	require.Fail(t, "writes are replicated although nobody listens any more")
}

func requireNothingSaid(t *testing.T, s *server.Server) {
	t.Helper()
	assert.Empty(t, s.LogLines("listens"))
}

// A first replica in the default configuration is sent everything and is no reason for
// a warning, and when it has left, nobody listens any more.
func TestFirstReplicaComesAndGoes(t *testing.T) {
	t.Parallel()
	master := server.Start(t, topology.QuietLinks(), soonAlone(), defaultSyncDelay())
	needsKnownVersion(t, master)
	for range size.Of(1, 2) {
		l := kit.StartLoad(t, master, allowedCall, nil)
		awaitAlone(t, master)
		replica := server.Start(t, topology.QuietLinks(), server.WithoutModule(), server.ReplicaOf(master))
		require.Eventually(t, func() bool { return kit.LinkIsUp(replica) }, 60*time.Second, time.Millisecond)
		l.Await(t, 1000)
		l.Stop()
		topology.AwaitReplicas(t, master, replica)
		require.NotEmpty(t, topology.RequireCopies(t, master, replica))
		assert.Empty(t, replica.LogLines("unknown command"))
		replica.Stop()
		requireNothingSaid(t, master)
		requireOnlyCounted(t, master)
		master.MustDo("CONFIG", "SET", "hz", "100")
	}
}

// Every way of saving a snapshot while a backlog is there that the module has not noticed: a
// replica that starts from the file is given a partial resync, and is sent what came
// after. It must understand all of it.
func TestReplicaThatStartsFromAFileMissesNothing(t *testing.T) {
	t.Parallel()
	for name, save := range map[string][]string{
		"SAVE":                     {"SAVE"},
		"BGSAVE":                   {"BGSAVE"},
		"FLUSHALL":                 {"FLUSHALL"},
		"FLUSHALL in transaction":  {"MULTI", "CL.THROTTLE a 9 1 1h", "CL.LIMIT b RATE 2/h", "FLUSHALL", "EXEC"},
		"BGSAVE in transaction":    {"MULTI", "CL.THROTTLE a 9 1 1h", "CL.LIMIT b RATE 2/h", "BGSAVE", "EXEC"},
		"SAVE after a transaction": {"MULTI", "CL.THROTTLE a 9 1 1h", "CL.LIMIT b RATE 2/h", "EXEC", "SAVE"},
		"FLUSHALL in script":       {"EVAL redis.call('CL.THROTTLE','a','9','1','1h')redis.call('FLUSHALL') 0"},
		"DEBUG RELOAD":             {"DEBUG RELOAD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// With a save point, FLUSHALL saves too.
			master := server.Start(t, topology.QuietLinks(), soonAlone(), defaultSyncDelay(), server.Config("save 86400 1000000"))
			c := master.Raw()
			calls := []string{"CL.THROTTLE a 9 1 1h", "CL.THROTTLE a 9 1 1h", "CL.LIMIT b RATE 2/h", "CL.REFUND b RATE 2/h", "CL.LIMIT c WINDOW 5/h FIXED 9/365d"}
			kit.MustDoAll(t, c, calls...)
			awaitUnnoticed(t, master)
			defer beginToListen(t, master).Close()

			kit.MustDoAll(t, c, "CL.THROTTLE a 9 1 1h")
			kit.MustDoAll(t, c, save...)
			kit.MustDoAll(t, c, calls...)
			dir := t.TempDir()
			var snapshot []byte
			require.Eventually(t, func() bool { // BGSAVE may take its time
				var err error
				snapshot, err = os.ReadFile(filepath.Join(master.Dir, "dump.rdb"))
				return err == nil
			}, 60*time.Second, time.Millisecond)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "dump.rdb"), snapshot, 0o644))

			replica := server.Start(t, topology.QuietLinks(), server.WithoutModule(), server.Dir(dir), server.ReplicaOf(master))
			require.Eventually(t, func() bool { return kit.LinkIsUp(replica) }, 60*time.Second, time.Millisecond)
			require.EqualValues(t, 1, master.InfoInt("stats", "sync_partial_ok"), "the replica did not go on from its file")
			topology.AwaitReplicas(t, master, replica)
			require.NotEmpty(t, topology.RequireCopies(t, master, replica))
			assert.Empty(t, replica.LogLines("unknown command"))
			requireNothingSaid(t, master)
		})
	}
}

// An append-only file that is switched on during a BGSAVE begins when that is over.
func TestAppendOnlyFileSwitchedOnDuringABGSAVEMissesNothing(t *testing.T) {
	t.Parallel()
	s := server.Start(t, soonAlone(), defaultSyncDelay())
	needsKnownVersion(t, s)
	l := kit.StartLoad(t, s, allowedCall, nil)
	l.Await(t, 5000)
	awaitAlone(t, s)
	s.MustDo("CONFIG", "SET", "rdb-key-save-delay", "2000") // us; some 1000 keys
	s.MustDo("BGSAVE")
	awaitAlone(t, s) // again: a fork is taken for a listener
	s.MustDo("CONFIG", "SET", "appendonly", "yes")
	require.EqualValues(t, 1, s.InfoInt("persistence", "aof_rewrite_scheduled"), "BGSAVE was over too soon")
	s.MustDo("CONFIG", "SET", "rdb-key-save-delay", "0")
	topology.AwaitNoRewrite(t, s)
	l.Await(t, 1000)
	l.Stop()
	want := topology.Read(t, s)
	require.NotEmpty(t, want)
	for _, command := range s.AOF() {
		require.False(t, strings.HasPrefix(command[0], "CL."), "the file holds %q", command)
	}
	s.Configure(server.AppendOnly("always"))
	s.Restart()
	topology.RequireEqual(t, want, topology.Read(t, s), "after a restart")
	requireNothingSaid(t, s)
	s.MustDo("CONFIG", "SET", "appendonly", "no")
	requireOnlyCounted(t, s)
}
