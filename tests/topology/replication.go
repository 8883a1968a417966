package topology

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// patience bounds every wait for servers to agree; it is never waited out.
const patience = 60 * time.Second

// QuietLinks are options for a master whose replication offset moves only with its
// data: its links' own PINGs move it too, and come once an hour. Replicas need them
// as well, so as not to take the silence for the end of the link.
func QuietLinks() server.Option {
	return server.Config("repl-ping-replica-period 3600", "repl-timeout 7200")
}

// AwaitReplicas returns when every replica, directly or through another, has applied
// all that the master has written. Writes that go on keep it waiting.
func AwaitReplicas(t testing.TB, master *server.Server, replicas ...*server.Server) {
	t.Helper()
	await := func(reached func(link map[string]string) bool) {
		for _, r := range replicas {
			require.Eventually(t, func() bool {
				link := r.Info("replication")
				return link["master_link_status"] == "up" && reached(link)
			}, patience, 5*time.Millisecond, "the replica on port %d does not catch up", r.Port)
		}
	}
	await(func(map[string]string) bool { return true })
	// A replica that has just read its snapshot looks up to date, but is sent nothing
	// before it has said so. This is replicated, and changes nothing.
	master.MustDo("PUBLISH", "topology", "await")
	await(func(link map[string]string) bool {
		return link["slave_repl_offset"] == master.Info("replication")["master_repl_offset"]
	})
}

// AwaitRole returns when a server calls itself master or slave.
func AwaitRole(t testing.TB, s *server.Server, role string) {
	t.Helper()
	require.Eventually(t, func() bool { return s.Info("replication")["role"] == role },
		patience, 5*time.Millisecond, "the server on port %d does not become %s", s.Port, role)
}

// AwaitNoRewrite returns when the append-only file is not being rewritten, and the last time went well.
func AwaitNoRewrite(t testing.TB, s *server.Server) {
	t.Helper()
	require.Eventually(t, func() bool {
		p := s.Info("persistence")
		return p["aof_rewrite_in_progress"] == "0" && p["aof_rewrite_scheduled"] == "0" && p["aof_last_bgrewrite_status"] == "ok"
	}, patience, 5*time.Millisecond)
}
