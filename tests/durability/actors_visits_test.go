package durability

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// visit has a first replica come to a server that has none, and go again, amid everything
// else. By default the server forks for it after a delay, and the backlog is there from
// the beginning on. Now and then a second replica starts from a snapshot that the server
// saves in that time, and goes on in the backlog. Both end with the server's bytes.
func (o *soak) visit(delay time.Duration) {
	t := o.t
	t.Helper()
	o.insist("CONFIG", "SET", "repl-diskless-sync-delay", fmt.Sprint(int(delay.Seconds())))
	replicas := []*server.Server{o.startVisitor()}
	time.Sleep(time.Duration(rand.Int64N(int64(delay)/2 + int64(time.Second)/2)))
	if rand.IntN(2) == 0 {
		require.Eventually(t, func() bool { return t.Failed() || !o.insist("SAVE").IsError() }, time.Minute, 5*time.Millisecond)
		replicas = append(replicas, o.startVisitor(server.Dir(o.copyOfSnapshot())))
	}
	for _, r := range replicas {
		require.Eventually(t, func() bool { return t.Failed() || r.Info("replication")["master_link_status"] == "up" },
			time.Minute, 5*time.Millisecond, "the link of port %d", r.Port)
	}
	if t.Failed() {
		return
	}
	time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
	o.atRest(func() { requireSame(t, o.s, replicas...) })
	for _, r := range replicas {
		r.Stop()
		assert.Empty(t, r.LogLines("unknown command"))
	}
	require.Eventually(t, func() bool { return o.info("replication", "repl_backlog_active") == "0" }, time.Minute, 5*time.Millisecond)
	o.count.visits.Add(1)
}

// startVisitor starts a replica in the default configuration, with or without the module.
func (o *soak) startVisitor(opts ...server.Option) *server.Server {
	opts = append(opts, server.ReplicaOf(o.s), server.Config("repl-diskless-sync yes", "repl-diskless-sync-delay 5"))
	if rand.IntN(2) == 0 {
		opts = append(opts, server.WithoutModule())
	}
	return server.Start(o.t, opts...)
}

// copyOfSnapshot is a folder for a replica, with the server's last snapshot.
func (o *soak) copyOfSnapshot() (dir string) {
	const name = "dump.rdb"
	b, err := os.ReadFile(filepath.Join(o.s.Dir, name))
	require.NoError(o.t, err)
	dir = o.t.TempDir()
	require.NoError(o.t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	return dir
}

// atRest does something while nobody else does.
func (o *soak) atRest(do func()) {
	o.gate.Lock()
	defer o.gate.Unlock()
	do()
}

// requireSame is that replicas hold what their master does, to which no caller writes. The
// module may still: what was given back in a pause is written after it.
func requireSame(t *testing.T, s *server.Server, replicas ...*server.Server) {
	t.Helper()
	s.MustDo("DEBUG", "SET-ACTIVE-EXPIRE", "0")
	defer s.MustDo("DEBUG", "SET-ACTIVE-EXPIRE", "1")
	offset := func() int64 { return s.InfoInt("replication", "master_repl_offset") }
	for {
		topology.AwaitReplicas(t, s, replicas...)
		from := offset()
		want := s.MustDo("DEBUG", "DIGEST").Text
		have := make([]string, len(replicas))
		for i, r := range replicas {
			have[i] = r.MustDo("DEBUG", "DIGEST").Text
		}
		if offset() != from {
			continue
		}
		for i, r := range replicas {
			if want != have[i] {
				require.Empty(t, differences(t, s, r), "the replica on port %d differs", r.Port)
				require.Equal(t, want, have[i], "the replica on port %d differs", r.Port)
			}
		}
		return
	}
}

// differences names some keys that two servers do not have alike, also those that have expired and are still there. It
// changes nothing, so it looks for the names that the soak uses: a command that tells the names of keys would remove
// some.
func differences(t *testing.T, s, r *server.Server) (names []string) {
	t.Helper()
	for db := range 2 {
		a, b := s.Raw(), r.Raw()
		keys := []string{"DEBUG", "DIGEST-VALUE", "nested:joint", "nested:leases"}
		for i := range soakKeys {
			keys = append(keys, fmt.Sprintf("key:%d", i))
		}
		for i := range 50 {
			keys = append(keys, fmt.Sprintf("nested:%d", i), fmt.Sprintf("leases:%d", i), fmt.Sprintf("windows:%d", i), fmt.Sprintf("far:%d", i))
		}
		of := func(c *resp.Conn, commands ...[]string) resp.Value {
			replies, err := c.Pipeline(append([][]string{{"SELECT", strconv.Itoa(db)}}, commands...)...)
			require.NoError(t, err)
			return replies[1]
		}
		have, want := of(b, keys).Elems, of(a, keys).Elems
		for i, key := range keys[2:] {
			if want[i].Text != have[i].Text && len(names) < 10 {
				names = append(names, fmt.Sprintf("%s in database %d is %s, %s there", key, db, of(a, []string{"DEBUG", "OBJECT", key}), of(b, []string{"DEBUG", "OBJECT", key})))
			}
		}
	}
	return names
}
