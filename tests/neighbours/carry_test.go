package neighbours_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
)

// The commands of these tests are those of the test build, which do to their keys what they are
// told: several keys at once, and sorted sets.

// A call with several keys changes all of them or none, tells replicas in one transaction, and
// knows its keys before it is run.
func TestACallCarriesSeveralKeys(t *testing.T) {
	t.Parallel()
	s, replica := kit.StartCarrying(t, server.Config("notify-keyspace-events KEA"))
	stream := s.Stream()
	c := s.Raw()
	keys := strings.Fields("a b c d e f g h")
	all := strings.Join(keys, " ")
	stream.Drain()
	assert.EqualValues(t, 0, kit.Do(t, c, "CL.PROBE 8 %s one", all).Int)
	var names []string
	for _, command := range stream.Drain() {
		names = append(names, command[0])
	}
	assert.Equal(t, strings.Fields("MULTI SET SET SET SET SET SET SET SET EXEC"), names)
	kit.RequireReplica(t, s, replica, keys...)
	for _, key := range keys {
		assert.Equal(t, "one", kit.Do(t, c, "GET %s", key).Text)
		assert.Positive(t, kit.Do(t, c, "PTTL %s", key).Int)
	}
	assert.EqualValues(t, 3, kit.Do(t, c, "CL.PROBE 3 a d h longer").Int)
	assert.EqualValues(t, 2, kit.Do(t, c, "CL.PROBE 3 x b c -").Int)
	kit.RequireReplica(t, s, replica, append(keys, "x")...)
	assert.Equal(t, "longer", kit.Do(t, c, "GET h").Text)
	assert.EqualValues(t, 0, kit.Do(t, c, "EXISTS b c x").Int)

	kit.Do(t, c, "RPUSH list 1")
	before := s.InfoInt("replication", "master_repl_offset")
	assert.Contains(t, kit.Do(t, c, "CL.PROBE 3 a list new two").Text, "WRONGTYPE")
	for _, call := range []string{"CL.PROBE 9 a b", "CL.PROBE 0 a", "CL.PROBE x a", "CL.PROBE -1 a b", "CL.PROBE 3 a b"} {
		assert.True(t, kit.Do(t, c, "%s", call).IsError(), call)
	}
	assert.Equal(t, before, s.InfoInt("replication", "master_repl_offset"), "nothing changed")
	assert.Equal(t, "longer", kit.Do(t, c, "GET a").Text)

	assert.Equal(t, []string{"k1", "k2"}, kit.TextsOf(s.MustDo("COMMAND", "GETKEYS", "CL.PROBE", "2", "k1", "k2", "v")))
	s.MustDo("ACL", "SETUSER", "half", "on", ">secret", "+cl.probe", "~k1")
	half := s.Raw()
	kit.Do(t, half, "AUTH half secret")
	assert.Contains(t, kit.Do(t, half, "CL.PROBE 2 k1 k2 v").Text, "NOPERM")
	assert.False(t, kit.Do(t, half, "CL.PROBE 1 k1 v").IsError())
}

// While a call adds its keys, calls of another module on any of them are refused; what it does to
// other keys stands.
func TestKeysOfACallAreAddedUndisturbed(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	s.Program.NeedsCountedKeys(t)
	replica := server.Start(t, server.WithoutModule(), server.ReplicaOf(s))
	require.Eventually(t, func() bool { return replica.Info("replication")["master_link_status"] == "up" }, 60*time.Second, 5*time.Millisecond)
	c := s.Raw()
	for _, nested := range []string{"CL.THROTTLE b 99 1 1d", "CL.THROTTLE other 99 1 1d", "CL.REFUND a RATE 1/1d", "CL.PROBE 2 b other two"} {
		t.Run(nested, func(t *testing.T) {
			neighbour.Do(t, s, "")
			kit.Do(t, c, "FLUSHALL")
			kit.Do(t, c, "CL.THROTTLE a 9 1 1d")
			neighbour.Do(t, s, nested)
			assert.EqualValues(t, 1, kit.Do(t, c, "CL.PROBE 3 a b c 1").Int)
			times := s.MustDo("NEIGHBOUR.SEEN").Elems[0].Int
			assert.Positive(t, times)
			neighbour.Do(t, s, "")
			if nested == "CL.THROTTLE other 99 1 1d" {
				assert.Equal(t, 100-times, kit.Do(t, c, "CL.THROTTLE other 99 1 1d 0").Elems[2].Int, "each call on it has taken its unit")
			}
			kit.RequireReplica(t, s, replica, "a", "b", "c", "other")
		})
	}
}

// While a key is added, calls on a key of the same name in another database are none of its business.
func TestTheKeyThatIsAddedIsThatOfItsDatabase(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	c := s.Raw()
	for _, call := range []string{"CL.THROTTLE k 9 1 1d", "CL.LEASE k SLOTS 9 TTL 1h ID a"} {
		kit.Do(t, c, "FLUSHALL")
		neighbour.Do(t, s, "EVAL redis.call('SELECT','1');return(redis.call('CL.THROTTLE','k','99','1','1d')) 0")
		require.False(t, kit.Do(t, c, "%s", call).IsError(), call)
		times := neighbour.Seen(t, s)
		assert.Positive(t, times)
		neighbour.Do(t, s, "")
		kit.Do(t, c, "SELECT 1")
		assert.Equal(t, 100-times, kit.Do(t, c, "CL.THROTTLE k 99 1 1d 0").Elems[2].Int, "each call has taken its unit")
		kit.Do(t, c, "SELECT 0")
	}
}

// A sorted set is seen as far as a decision about members that lapse needs it, and changes
// member by member; replicas without the module end with the same set and expiry.
func TestACallCarriesASortedSet(t *testing.T) {
	t.Parallel()
	s, replica := kit.StartCarrying(t, server.Config("notify-keyspace-events Egz"))
	e := kit.ListenToEvents(t, s)
	c := s.Raw()
	nowMs := kit.NowIn(t, c) / int64(time.Millisecond)
	probe := func(call string, args ...any) []int64 {
		t.Helper()
		integers, err := kit.Do(t, c, call, args...).Ints()
		require.NoError(t, err, call)
		kit.RequireReplica(t, s, replica, "set")
		return integers
	}
	far := nowMs + 10_000_000
	assert.Equal(t, []int64{0, 0, -1, -1}, probe("CL.PROBEMEMBERS set %d 0 MEMBERS one", far))
	assert.Equal(t, []int64{1, 0, far, -1, far}, probe("CL.PROBEMEMBERS set %d 0 members two one", far+5), "one is removed")
	assert.Equal(t, []int64{1, 0, far + 5, far + 5}, probe("CL.PROBEMEMBERS set %d 0 MEMBERS two", far+9), "moved")
	assert.EqualValues(t, far+9, kit.Do(t, c, "PEXPIRETIME set").Int)
	for i := range 20 {
		kit.Do(t, c, "ZADD set %d gone%d", nowMs-100+int64(i), i)
	}
	assert.Equal(t, []int64{21, 16, far + 9, -1}, probe("CL.PROBEMEMBERS set %d 3 MEMBERS three", far))
	assert.Equal(t, []int64{19, 16, far, far}, probe("CL.PROBEMEMBERS set %d 16 MEMBERS three", far))
	e.Drain(t)
	assert.Equal(t, []int64{3, 1, far, far, far + 9}, probe("CL.PROBEMEMBERS set 0 1 MEMBERS three two"))
	assert.Equal(t, []string{"zrem set", "del set"}, e.Drain(t))
	assert.EqualValues(t, 0, kit.Do(t, c, "EXISTS set").Int, "an empty set is deleted")
	assert.Equal(t, []int64{0, 0, -1, -1}, probe("CL.PROBEMEMBERS set 0 1 MEMBERS three"))

	kit.Do(t, c, "SET text 1")
	assert.Contains(t, kit.Do(t, c, "CL.PROBEMEMBERS text 1 1 MEMBERS a").Text, "WRONGTYPE")
	kit.Do(t, c, "ZADD limiter 1 a")
	assert.Contains(t, kit.Do(t, c, "CL.LIMIT limiter RATE 1/s").Text, "WRONGTYPE")
	assert.EqualValues(t, 1, kit.Do(t, c, "ZCARD limiter").Int)
}
