package neighbours_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// requireCharged makes a limit and runs calls that charge it one unit each. The key never expires, as PERSIST leaves
// it, before each of them.
func requireCharged(t *testing.T, s *server.Server, calls ...string) {
	t.Helper()
	admin, c := s.Raw(), s.Raw() // the latter has sent nothing yet
	kit.MustDoAll(t, admin, "DEL key", "CL.LIMIT key RATE 1/1d BURST 9")
	units := int64(0)
	for _, call := range calls {
		kit.Do(t, admin, "PERSIST key") // each call has given it an expiry
		v := kit.Do(t, c, "%s", call)
		require.False(t, v.IsError(), "%q of %q: %v", call, calls, v)
		for _, inTransaction := range v.Elems {
			assert.False(t, inTransaction.IsError(), "%q of %q: %v", call, calls, inTransaction)
		}
		units += int64(strings.Count(call, "CL."))
	}
	assert.Equal(t, 8-units, kit.Ask(t, admin, "CL.PEEK key RATE 1/1d BURST 9").Remaining, "%q", calls)
}

const (
	chargeKey         = "CL.LIMIT key RATE 1/1d BURST 9"
	chargeKeyByScript = "EVAL return(redis.call('CL.LIMIT','key','RATE','1/1d','BURST','9')) 0"
)

// Beside another module, a call that is nested in the command that adds its key changes nothing, and an expiry shows
// that a key is an older one. Calls that clients send are not nested: they change keys without an expiry, too.
func TestClientsChangeKeysThatNeverExpireBesideANeighbour(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	for _, calls := range [][]string{{chargeKey}, {chargeKey, chargeKey, chargeKey}, {chargeKey, "MULTI", chargeKey, "EXEC", chargeKey}} {
		requireCharged(t, s, calls...)
	}
}

// A master and a file have no user, and some servers crash when they are asked for it. Their calls are not nested
// either: redis-cell sends its calls as they are.
func TestCallsOfAMasterAndAFileChangeKeysThatNeverExpireBesideANeighbour(t *testing.T) {
	t.Parallel()
	master := neighbour.Start(t, server.AppendOnly("always"))
	replica := neighbour.Start(t, server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, replica)
	c := master.Raw()
	kit.MustDoAll(t, c, chargeKey, "PERSIST key")
	for range 3 {
		kit.MustDoAll(t, c, "NEIGHBOUR.PROPAGATE "+chargeKey, "NEIGHBOUR.PROPAGATE PERSIST key")
	}
	topology.AwaitReplicas(t, master, replica)
	master.Restart()
	for where, s := range map[string]*server.Server{"by a replica": replica, "from a file": master} {
		assert.EqualValues(t, 5, kit.Ask(t, s.Raw(), "CL.PEEK key RATE 1/1d BURST 9").Remaining, where)
	}
	assert.Empty(t, replica.LogLines("sending an error to its"))
}

// A module may send replicas calls that would wait. A replica that waited would follow its master no longer, and Valkey
// 9.1 crashes.
func TestCallsOfAMasterDoNotWait(t *testing.T) {
	t.Parallel()
	master := neighbour.Start(t)
	replica := neighbour.Start(t, server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, replica) // or it would not be sent the calls
	c := master.Raw()
	kit.MustDoAll(t, c, "CL.LIMIT window WINDOW 1/1d", "CL.LEASE leases SLOTS 1 TTL 1d ID a", "CL.LIMIT rate RATE 1/1d",
		"NEIGHBOUR.PROPAGATE CL.WAIT window WINDOW 1/1d TIMEOUT 0", "NEIGHBOUR.PROPAGATE CL.WAIT rate RATE 1/1d TIMEOUT 0",
		"NEIGHBOUR.PROPAGATE CL.LEASE leases SLOTS 1 TTL 1d ID b TIMEOUT 0", "SET after x")
	topology.AwaitReplicas(t, master, replica)
	assert.Equal(t, "x", replica.MustDo("GET", "after").Text)
}

// A module that lets its calls block (K) waits in line, as nobody.
func TestACallOfAnotherModuleWaits(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	if !s.Program.AtLeast(7, 2) {
		t.Skip("calls of modules that may block")
	}
	c := s.Raw()
	kit.Do(t, c, "NEIGHBOUR.FORMAT !Kv")
	for _, tt := range []struct{ limits, take, wait, free, waiting string }{
		{"WINDOW 1/1d", "CL.LIMIT", "CL.WAIT", "CL.REFUND key WINDOW 1/1d", "throttle_waiting"},
		{"SLOTS 1 TTL 1d ID x", "CL.LEASE", "CL.LEASE", "CL.RELEASE key ID x", "throttle_leases_waiting"},
	} {
		kit.MustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL", tt.take+" key "+tt.limits)
		neighbour.On(t, s, "set", "other", strings.ReplaceAll(tt.wait+" key "+tt.limits+" TIMEOUT 0", "ID x", "ID y"))
		kit.Do(t, c, "SET other 1")
		assert.EqualValues(t, 1, neighbour.Seen(t, s))
		waiting := func() int64 { return s.InfoInt("throttle", tt.waiting) }
		assert.EqualValues(t, 1, waiting(), tt.wait)
		kit.Do(t, c, "NEIGHBOUR.DO")
		kit.Do(t, c, "%s", tt.free)
		require.Eventually(t, func() bool { return waiting() == 0 }, kit.Patience, time.Millisecond, tt.wait)
	}
}

// What a script calls is nested in it, also where the server serves others meanwhile and reads its clock, and in a
// file, where what a script calls is run as if it were nested in nothing.
func TestScriptsChangeNoKeyThatNeverExpiresBesideANeighbour(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t, server.AppendOnly("always"), server.Config("lua-time-limit 1"))
	c := s.Raw()
	kit.MustDoAll(t, c, chargeKey, "PERSIST key")
	want := kit.Do(t, c, "GET key").Text
	charge := strings.TrimSuffix(strings.TrimPrefix(chargeKeyByScript, "EVAL "), " 0")
	for name, script := range map[string]string{
		"at once": charge,
		"late":    "local sum = 0; for i = 1, 2000000 do sum = sum + i end; " + charge,
		"twice":   strings.Replace(charge, "return", "redis.pcall('GET', 'key'); return", 1),
	} {
		assert.Contains(t, s.Do("EVAL", script, "0").Text, "key is being created", name)
	}
	kit.Do(t, c, "NEIGHBOUR.PROPAGATE EVAL redis.call('SET','said',cjson.encode(redis.pcall('CL.LIMIT','key','RATE','1/1d','BURST','9'))) 0")
	s.Restart()
	assert.Contains(t, kit.Do(t, s.Raw(), "GET said").Text, "key is being created", "the script ran from the file")
	assert.Equal(t, want, kit.Do(t, s.Raw(), "GET key").Text)
}

// Parts of the server that are modules, as Redis 8 and Valkey 9 have them, listen to no keys: beside them alone
// scripts, too, change such keys.
func TestScriptsChangeKeysThatNeverExpireWithoutANeighbour(t *testing.T) {
	t.Parallel()
	if os.Getenv("THROTTLE_NEIGHBOURS") != "" {
		t.Skip("THROTTLE_NEIGHBOURS names neighbours for every server")
	}
	t.Run("loaded at the start", func(t *testing.T) {
		t.Parallel()
		requireCharged(t, server.Start(t), chargeKeyByScript, chargeKeyByScript)
	})
	t.Run("loaded later", func(t *testing.T) {
		t.Parallel()
		s := server.Start(t, server.WithoutModule())
		path, err := server.ModulePath()
		require.NoError(t, err)
		for range 2 {
			s.MustDo("MODULE", "LOAD", path)
			requireCharged(t, s, chargeKeyByScript)
			s.MustDo("MODULE", "UNLOAD", "throttle")
		}
	})
}

// A module that is loaded again hears of keys that expire, as it did before: what another module writes to the key
// meanwhile is not taken for absent.
func TestAModuleThatIsLoadedAgainSeesWhatANeighbourWrites(t *testing.T) {
	t.Parallel()
	s, _ := kit.StartKeepingExpired(t)
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	const rounds = 2
	ran := int64(0)
	for range rounds {
		s.MustDo("MODULE", "UNLOAD", "throttle")
		s.MustDo("MODULE", "LOAD", path)
		c := s.Raw()
		for call, stored := range storedBy {
			for _, write := range neighbourWrites {
				kit.MustDoAll(t, c, append([]string{"NEIGHBOUR.DO", "FLUSHALL"}, keyStates["b has expired"]...)...)
				kit.Do(t, c, "NEIGHBOUR.ON expired b %s", write)
				v := kit.Do(t, c, "%s", call)
				ran += kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int
				kit.Do(t, c, "NEIGHBOUR.DO")
				if kit.IsLetThrough(v) {
					assert.True(t, stored.is(kit.Do(t, c, "%s", stored.question)), "%s: %s has stored nothing", write, call)
				}
			}
		}
	}
	// On a busy machine PEXPIRE may find the key expired already, and delete it.
	assert.Greater(t, ran, int64(rounds*len(storedBy)*len(neighbourWrites)/2))
}
