package neighbours_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// debugged runs a script to its end in the debugger of scripts, and returns what it returned.
func debugged(t *testing.T, s *server.Server, mode, script string, keys ...string) resp.Value {
	t.Helper()
	c := s.Raw()
	defer c.Close()
	require.Equal(t, "OK", kit.Do(t, c, "SCRIPT DEBUG %s", mode).Text)
	require.NoError(t, c.Send(append([]string{"EVAL", script, "2"}, keys...)...))
	require.NoError(t, c.Flush())
	_, err := c.Receive() // stopped at the first line
	require.NoError(t, err)
	require.NoError(t, c.Send("continue"))
	require.NoError(t, c.Flush())
	end, err := c.Receive()
	require.NoError(t, err)
	assert.Equal(t, `*["<endsession>"]`, end.String())
	result, err := c.Receive()
	require.NoError(t, err)
	return result
}

// SCRIPT DEBUG YES runs the next script in a forked child, where Go has no thread but the one that forked.
func TestNoCommandRunsInAForkedChild(t *testing.T) {
	server.NeedsServer(t, "SCRIPT DEBUG")
	t.Parallel()
	s := server.Start(t)
	waiting := s.Raw()
	for _, line := range []string{"CL.LEASE line SLOTS 1 TTL 1h ID 1", "CL.LEASE line SLOTS 1 TTL 1h ID 2 TIMEOUT 1h"} {
		require.NoError(t, waiting.Send(strings.Fields(line)...))
	}
	require.NoError(t, waiting.Flush())
	kit.AwaitField(t, s.Raw(), "leases_waiting", 1)
	calls := []string{
		"CL.THROTTLE key 15 1 3600", "CL.LIMIT key RATE 1/h", "CL.MLIMIT 2 key other RATE 1/h", "CL.PEEK key RATE 1/h", "CL.LEASES line", "CL.INSPECT line",
		"CL.LEASE other SLOTS 1 TTL 1h ID 3", "CL.TOP",
	}
	const refused = "ERR commands of throttle do not run in a forked child of the server, such as that of SCRIPT DEBUG YES: use SCRIPT DEBUG SYNC, which needs none"
	for _, call := range calls {
		script := "redis.call('DEL', KEYS[1])\n" + // whom events wake
			"local words = {}\nfor word in string.gmatch('" + call + "', '%S+') do table.insert(words, word) end\n" +
			"local reply = redis.pcall(unpack(words))\nreturn {type(reply) == 'table' and reply.err or 'no error'}"
		result := debugged(t, s, "YES", script, "line", "key")
		require.Len(t, result.Elems, 1, "%s: %s", call, result)
		assert.Contains(t, result.Elems[0].Text, refused, call)
	}
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "key").Int, "what happened in a child")

	result := debugged(t, s, "SYNC", "return {'remaining', redis.call('CL.THROTTLE', KEYS[1], 15, 1, 3600)[3]}", "key", "other")
	assert.Equal(t, `*["remaining" 15]`, result.String())
}
