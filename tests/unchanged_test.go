package tests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// watched is a server on which every kind of write shows: what an append-only file,
// a replica and a snapshot would have to be told.
type watched struct {
	*server.Server
	conn   *resp.Conn
	stream *server.Stream
}

func startWatched(t *testing.T, opts ...server.Option) watched {
	t.Helper()
	opts = append(opts, server.AppendOnly("always"),
		// The link's own PINGs move the replication offset as well.
		server.Config("repl-ping-replica-period 3600"))
	s := server.Start(t, opts...)
	return watched{s, s.Raw(), s.Stream()}
}

// traces is everything a write to a key leaves behind.
type traces struct {
	Keys, Dump, Expiry        string
	Changes, Offset, AOFBytes string
}

func (w watched) traces(t testing.TB, key string) traces {
	t.Helper()
	expiry := "PEXPIRETIME"
	if !w.Program.AtLeast(7, 0) {
		expiry = "EXISTS" // the change counter has to do for the expiry
	}
	r, err := w.conn.Pipeline([]string{"DBSIZE"}, []string{"DUMP", key}, []string{expiry, key},
		[]string{"INFO", "persistence"}, []string{"INFO", "replication"})
	require.NoError(t, err)
	persistence, replication := server.ParseInfo(r[3].Text), server.ParseInfo(r[4].Text)
	return traces{
		fmt.Sprint(r[0]), fmt.Sprint(r[1]), fmt.Sprint(r[2]),
		persistence["rdb_changes_since_last_save"], replication["master_repl_offset"], persistence["aof_current_size"],
	}
}

// do sends one command on the connection that stays open.
func (w watched) do(t testing.TB, args ...string) resp.Value {
	t.Helper()
	v, err := w.conn.Do(args...)
	require.NoError(t, err)
	return v
}
