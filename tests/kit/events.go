package kit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// events are the keyspace events on one connection until the marker that is published
// after them.
type events struct {
	c *resp.Conn
	s *server.Server
}

// Drain returns the events so far, each as event and key.
func (e events) Drain(t *testing.T) (all []string) {
	t.Helper()
	e.s.MustDo("PUBLISH", "marker", "")
	for {
		v, err := e.c.Receive()
		require.NoError(t, err)
		require.Len(t, v.Elems, 4, "%v", v)
		channel, key := v.Elems[2].Text, v.Elems[3].Text
		if channel == "marker" {
			return all
		}
		all = append(all, strings.TrimPrefix(channel, "__keyevent@0__:")+" "+key)
	}
}

// ListenToEvents subscribes to the keyspace events of database 0.
func ListenToEvents(t *testing.T, s *server.Server) events {
	t.Helper()
	c := s.Raw()
	require.NoError(t, c.Send("PSUBSCRIBE", "__keyevent@0__:*", "marker"))
	require.NoError(t, c.Flush())
	for range 2 {
		_, err := c.Receive()
		require.NoError(t, err)
	}
	return events{c, s}
}
