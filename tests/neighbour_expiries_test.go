package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// startKeepingExpired starts a server beside another module, on which keys that have expired stay until somebody opens them.
func startKeepingExpired(t *testing.T, opts ...server.Option) (s *server.Server, c *resp.Conn) {
	t.Helper()
	s = neighbour.Start(t, opts...)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("DEBUG keeps expired keys since Redis 7.0")
	}
	c = s.Raw()
	do(t, c, "DEBUG SET-ACTIVE-EXPIRE 0")
	return s, c
}

// forget ends what the other module does and removes all keys.
func forget(t *testing.T, c *resp.Conn) {
	t.Helper()
	mustDoAll(t, c, "NEIGHBOUR.DO", "NEIGHBOUR.EXPIRED b 0", "FLUSHALL", "CONFIG RESETSTAT")
}

// A key that another module adds again, expired already, is absent once it stays away. A call that meets it 16 times is refused and changes
// nothing: another module cannot keep the server busy with it.
func TestACallIsRefusedIfItsKeyExpiresAgainAndAgain(t *testing.T) {
	t.Parallel()
	s, c := startKeepingExpired(t)
	for _, call := range writtenInto {
		if strings.Contains(call, "FIXED") {
			continue // the end of its window comes nearer
		}
		forget(t, c)
		want := ofADay(do(t, c, "%s", call))
		for _, times := range []int64{1, 2, 15, 16, 10_000} {
			forget(t, c)
			do(t, c, "NEIGHBOUR.EXPIRED b %d", times)
			v := do(t, c, "%s", call)
			assert.Equal(t, min(times, 16), s.InfoInt("stats", "expired_keys"), "%s, %d times", call, times)
			if times < 16 {
				assert.Equal(t, want, ofADay(v), "%s, %d times", call, times)
				continue
			}
			assert.Equal(t, "WRONGTYPE Operation against a key holding the wrong kind of value", v.Text, "%s, %d times", call, times)
			do(t, c, "NEIGHBOUR.EXPIRED b 0")
			assert.EqualValues(t, 0, do(t, c, "EXISTS a b c d").Int, "%s, %d times", call, times)
		}
	}
}

// Another module may add a key of a call, expired already, while the call adds another one. It is replaced if it stays away once it has
// been removed. If it comes back 16 times, the call does without it, tells nobody that it was written, and adds the keys behind it.
func TestACallAddsTheOthersIfAKeyExpiresAgainAndAgain(t *testing.T) {
	t.Parallel()
	s, c := startKeepingExpired(t, server.Config("notify-keyspace-events Eg$z"))
	replica := server.Start(t, server.WithoutModule(), server.ReplicaOf(s))
	require.Eventually(t, func() bool { return linkIsUp(replica) }, patience, tick)
	heard := listenToEvents(t, s)
	for call, wrote := range map[string]string{"CL.MLIMIT 3 a b c RATE 1/1d BURST 9": "set", "CL.MLIMIT 3 a b c SLOTS 9 TTL 1d ID y": "zadd"} {
		for times, isAdded := range map[int64]bool{0: true, 1: true, 2: true, 15: true, 16: false, 10_000: false} {
			forget(t, c)
			heard.drain(t)
			do(t, c, "NEIGHBOUR.ON new a NEIGHBOUR.EXPIRED b %d", times)
			v := do(t, c, "%s", call)
			assert.True(t, isLetThrough(v), "%s, %d times: %v", call, times, v)
			assert.Equal(t, min(times, 16), s.InfoInt("stats", "expired_keys"), "%s, %d times", call, times)
			do(t, c, "NEIGHBOUR.EXPIRED b 0")
			var written []string
			for _, key := range []string{"a", "b", "c"} {
				if key == "b" && !isAdded {
					assert.EqualValues(t, 0, do(t, c, "EXISTS b").Int, "%s, %d times", call, times)
					continue
				}
				assert.Positive(t, do(t, c, "PTTL %s", key).Int, "%s, %d times: %s expires", call, times, key)
				written = append(written, wrote+" "+key, "expire "+key)
			}
			assert.Equal(t, written, heard.drain(t), "%s, %d times", call, times)
			requireReplica(t, s, replica, "a", "b", "c")
		}
	}
}
