package server

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
)

// Stream receives what the server sends to its replicas, command by command. The server
// takes it for a replica.
type Stream struct {
	s       *Server
	conn    *resp.Conn
	markers atomic.Int64
}

// Stream attaches to the server as a replica.
func (s *Server) Stream() *Stream {
	s.t.Helper()
	st := &Stream{s: s, conn: s.Raw()}
	require.NoError(s.t, st.conn.Send("SYNC"))
	require.NoError(s.t, st.conn.Flush())
	require.NoError(s.t, st.conn.SkipSnapshot())
	return st
}

// Drain returns the commands that were replicated since the last Drain, in order and
// as they came, except those that keep up the link (PING, REPLCONF, SELECT).
func (st *Stream) Drain() [][]string {
	st.s.t.Helper()
	// PUBLISH is replicated and changes no data: it marks how far to read.
	const channel = "stream-marker"
	marker := fmt.Sprint(st.markers.Add(1))
	st.s.MustDo("PUBLISH", channel, marker)
	var commands [][]string
	for {
		v, err := st.conn.Receive()
		require.NoError(st.s.t, err)
		command := make([]string, len(v.Elems))
		for i, e := range v.Elems {
			command[i] = e.Text
		}
		require.NotEmpty(st.s.t, command, "replicated: %v", v)
		switch strings.ToUpper(command[0]) {
		case "PING", "REPLCONF", "SELECT":
			continue
		case "PUBLISH":
			if command[1] == channel && command[2] == marker {
				return commands
			}
		}
		commands = append(commands, command)
	}
}
