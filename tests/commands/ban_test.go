package commands_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// A ban is replicated like any other state: a replica without the module has the same bytes and
// the same expiry, and while the key is banned nothing is written at all.
func TestBansAreReplicatedAndThenWriteNothing(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	replica := server.Start(t, server.WithoutModule(), server.ReplicaOf(w.Server))
	for _, call := range []string{
		"CL.BAN bare 1h", "CL.LIMIT rate RATE 1/h", "CL.BAN rate 1h", "CL.LIMIT stack RATE 1/h WINDOW 5/m", "CL.BAN stack 1h",
		"CL.LIMIT denied RATE 1/h", "CL.LIMIT denied RATE 1/h BAN 1d", "CL.BAN lifted 1h", "CL.BAN lifted 0", "CL.BAN prolonged 1h", "CL.BAN prolonged 2h",
		"CL.LIMIT kept RATE 1/d", "PERSIST kept", "CL.BAN kept 1h", "CL.BAN kept 0",
	} {
		require.False(t, kit.Do(t, w.Conn, "%s", call).IsError(), call)
	}
	keys := []string{"bare", "rate", "stack", "denied", "lifted", "prolonged", "kept"}
	state := func(s *server.Server) (all []string) {
		for _, key := range keys {
			all = append(all, key, s.Do("DUMP", key).String())
			if s.Program.AtLeast(7, 0) {
				all = append(all, s.Do("PEXPIRETIME", key).String())
			}
		}
		return all
	}
	want := state(w.Server)
	require.Eventually(t, func() bool { return assert.ObjectsAreEqual(want, state(replica)) }, 60*time.Second, 5*time.Millisecond)
	assert.EqualValues(t, -1, kit.Do(t, w.Conn, "PTTL kept").Int, "a key without expiry keeps it so")
	assert.EqualValues(t, 0, kit.Do(t, w.Conn, "EXISTS lifted").Int)

	for _, key := range []string{"bare", "rate", "stack", "denied", "prolonged"} {
		before := w.Traces(t, key)
		for _, call := range []string{
			"CL.THROTTLE %s 9 1 1h", "CL.LIMIT %s RATE 10/h COST 0", "CL.LIMIT %s WINDOW 5/m BAN 1s", "CL.PEEK %s FIXED 5/m",
			"CL.WAIT %s RATE 1/1ms TIMEOUT 0", "CL.LIMIT %s RATE 10/h STRICT", "CL.BAN %s 1ms",
		} {
			v := kit.Do(t, w.Conn, call, key)
			require.False(t, v.IsError(), "%s: %v", call, v)
			if !strings.HasPrefix(call, "CL.BAN") {
				limited := v.Elems[0]
				if limited.Text == "limited" {
					limited = v.Elems[1]
				}
				assert.EqualValues(t, 1, limited.Int, call)
			}
		}
		assert.Equal(t, before, w.Traces(t, key), key)
	}
}
