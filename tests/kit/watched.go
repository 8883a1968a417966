package kit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Watched is a server on which every kind of write shows: what an append-only file,
// a replica and a snapshot would have to be told.
type Watched struct {
	*server.Server
	Conn   *resp.Conn
	Stream *server.Stream
}

// Traces reads everything that a write to a key would have changed.
func (w Watched) Traces(t testing.TB, key string) Traces {
	t.Helper()
	expiry := "PEXPIRETIME"
	if !w.Program.AtLeast(7, 0) {
		expiry = "EXISTS" // the change counter has to do for the expiry
	}
	r, err := w.Conn.Pipeline([]string{"DBSIZE"}, []string{"DUMP", key}, []string{expiry, key},
		[]string{"INFO", "persistence"}, []string{"INFO", "replication"})
	require.NoError(t, err)
	persistence, replication := server.ParseInfo(r[3].Text), server.ParseInfo(r[4].Text)
	return Traces{
		fmt.Sprint(r[0]), fmt.Sprint(r[1]), fmt.Sprint(r[2]),
		persistence["rdb_changes_since_last_save"], replication["master_repl_offset"], persistence["aof_current_size"],
	}
}

// Call sends one command on the connection that stays open.
func (w Watched) Call(t testing.TB, args ...string) resp.Value {
	t.Helper()
	v, err := w.Conn.Do(args...)
	require.NoError(t, err)
	return v
}

// StartWatched starts a server with an append-only file and something that reads its replication stream.
func StartWatched(t *testing.T, opts ...server.Option) Watched {
	t.Helper()
	opts = append(opts, server.AppendOnly("always"),
		// The link's own PINGs move the replication offset as well.
		server.Config("repl-ping-replica-period 3600"))
	s := server.Start(t, opts...)
	return Watched{s, s.Raw(), s.Stream()}
}

// Traces is everything a write to a key leaves behind.
type Traces struct {
	Keys, Dump, Expiry        string
	Changes, Offset, AOFBytes string
}
