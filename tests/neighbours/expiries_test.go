package neighbours_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// A key that another module adds again, expired already, is absent once it stays away. A call that meets it 16 times is
// refused and changes nothing: another module cannot keep the server busy with it.
func TestACallIsRefusedIfItsKeyExpiresAgainAndAgain(t *testing.T) {
	t.Parallel()
	s, c := kit.StartKeepingExpired(t)
	for _, call := range writtenInto {
		if strings.Contains(call, "FIXED") {
			continue // the end of its window comes nearer
		}
		kit.Forget(t, c)
		want := ofADay(kit.Do(t, c, "%s", call))
		for _, times := range []int64{1, 2, 15, 16, 10_000} {
			kit.Forget(t, c)
			kit.Do(t, c, "NEIGHBOUR.EXPIRED b %d", times)
			v := kit.Do(t, c, "%s", call)
			assert.Equal(t, min(times, 16), s.InfoInt("stats", "expired_keys"), "%s, %d times", call, times)
			if times < 16 {
				assert.Equal(t, want, ofADay(v), "%s, %d times", call, times)
				continue
			}
			assert.Equal(t, "WRONGTYPE Operation against a key holding the wrong kind of value", v.Text, "%s, %d times", call, times)
			kit.Do(t, c, "NEIGHBOUR.EXPIRED b 0")
			assert.EqualValues(t, 0, kit.Do(t, c, "EXISTS a b c d").Int, "%s, %d times", call, times)
		}
	}
}

// Another module may add a key of a call, expired already, while the call adds another one. It is replaced if it stays
// away once it has been removed. If it comes back 16 times, the call does without it, tells nobody that it was written,
// and adds the keys behind it.
func TestACallAddsTheOthersIfAKeyExpiresAgainAndAgain(t *testing.T) {
	t.Parallel()
	s, c := kit.StartKeepingExpired(t, server.Config("notify-keyspace-events Eg$z"))
	replica := server.Start(t, server.WithoutModule(), server.ReplicaOf(s))
	require.Eventually(t, func() bool { return kit.LinkIsUp(replica) }, kit.Patience, kit.Tick)
	heard := kit.ListenToEvents(t, s)
	for call, wrote := range map[string]string{"CL.MLIMIT 3 a b c RATE 1/1d BURST 9": "set", "CL.MLIMIT 3 a b c SLOTS 9 TTL 1d ID y": "zadd"} {
		for times, isAdded := range map[int64]bool{0: true, 1: true, 2: true, 15: true, 16: false, 10_000: false} {
			kit.Forget(t, c)
			heard.Drain(t)
			kit.Do(t, c, "NEIGHBOUR.ON new a NEIGHBOUR.EXPIRED b %d", times)
			v := kit.Do(t, c, "%s", call)
			assert.True(t, kit.IsLetThrough(v), "%s, %d times: %v", call, times, v)
			assert.Equal(t, min(times, 16), s.InfoInt("stats", "expired_keys"), "%s, %d times", call, times)
			kit.Do(t, c, "NEIGHBOUR.EXPIRED b 0")
			var written []string
			for _, key := range []string{"a", "b", "c"} {
				if key == "b" && !isAdded {
					assert.EqualValues(t, 0, kit.Do(t, c, "EXISTS b").Int, "%s, %d times", call, times)
					continue
				}
				assert.Positive(t, kit.Do(t, c, "PTTL %s", key).Int, "%s, %d times: %s expires", call, times, key)
				written = append(written, wrote+" "+key, "expire "+key)
			}
			assert.Equal(t, written, heard.Drain(t), "%s, %d times", call, times)
			kit.RequireReplica(t, s, replica, "a", "b", "c")
		}
	}
}
