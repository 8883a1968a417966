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

// A caller in line keeps its slot. One that comes while the key is banned is turned away.
func TestABanLeavesThoseWhoWaitTheirSlots(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := kit.StandInLine(t, s, 2, 200*time.Millisecond, 2)
	require.EqualValues(t, 3_600_000, kit.Do(t, l.Admin, "CL.BAN key 1h").Int)
	a := kit.Ask(t, l.Admin, "CL.WAIT key %s TIMEOUT 0", l.Limit())
	assert.Equal(t, []int64{1, 0}, []int64{a.Limited, a.Rule})
	require.NoError(t, l.Conns[0].Close())
	l.AwaitWaiting(1)
	for i := range 2 {
		if i == 1 {
			v, _ := l.Receive(1)
			require.False(t, v.IsError(), "%v", v)
		}
	}
	assert.EqualValues(t, 0, kit.Ask(t, l.Admin, "CL.PEEK key %s", l.Limit()).Rule, "giving back leaves the ban")
}

// An ACL user needs write access to the key.
func TestBanNeedsTheKey(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("permissions to read or write keys since Redis 7.0")
	}
	s.MustDo("ACL", "SETUSER", "reader", "on", ">secret", "+cl.ban", "%R~a:*", "~b:*")
	c := s.Raw()
	kit.Do(t, c, "AUTH reader secret")
	assert.Contains(t, kit.Do(t, c, "CL.BAN a:1 10s").Text, "NOPERM")
	assert.EqualValues(t, 10_000, kit.Do(t, c, "CL.BAN b:1 10s").Int)
	keys := s.MustDo("COMMAND", "GETKEYS", "CL.BAN", "b:1", "10").Elems
	require.Len(t, keys, 1)
	assert.Equal(t, "b:1", keys[0].Text)
}
