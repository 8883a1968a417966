package migrating

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// The move of docs/migrating.md, and the way back: the replica first, then a failover, then the old master. What was
// taken stays taken at every step. This module sends replicas values. A replica of redis-cell's is sent calls, and
// decides them again.
func TestMoveReplicasFirstThenFailOver(t *testing.T) {
	cell := begin(t)
	for name, way := range map[string]struct {
		first, then  server.Option
		module       string
		oursIsMaster bool // at first
	}{"to this module": {cell, ours(t), "throttle", false}, "back to redis-cell": {ours(t), cell, "redis-cell", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := server.Start(t, way.first, topology.QuietLinks())
			next := server.Start(t, way.first, topology.QuietLinks(), server.ReplicaOf(old))
			follows := func(replica, master *server.Server, taken int64, sameValue bool) {
				t.Helper()
				topology.AwaitReplicas(t, master, replica)
				tat, ok := tatOf(t, replica.MustDo("GET", "user"))
				require.True(t, ok)
				const day = 24 * time.Hour
				assert.EqualValues(t, taken, time.Until(time.Unix(0, int64(tat))).Round(day)/day)
				if sameValue {
					assert.Equal(t, master.MustDo("GET", "user").Text, replica.MustDo("GET", "user").Text)
				}
			}
			topology.AwaitReplicas(t, old, next)
			throttle(t, old, "user", daily+" 4")

			next.Configure(way.then)
			next.Restart()
			follows(next, old, 4, way.oursIsMaster)
			throttle(t, old, "user", daily+" 3")
			follows(next, old, 7, way.oursIsMaster)

			failOver(t, old, next)
			assert.EqualValues(t, 9, remaining(t, next, "user"))
			throttle(t, next, "user", daily+" 2")
			follows(old, next, 9, !way.oursIsMaster)

			old.Configure(way.then, server.ReplicaOf(next))
			old.Restart()
			follows(old, next, 9, true)
			for _, s := range []*server.Server{old, next} {
				assert.Contains(t, s.MustDo("MODULE", "LIST").String(), fmt.Sprintf("%q", way.module))
			}
		})
	}
}

func failOver(t *testing.T, master, replica *server.Server) {
	t.Helper()
	master.MustDo("FAILOVER", "TO", "127.0.0.1", fmt.Sprint(replica.Port), "TIMEOUT", "30000")
	topology.AwaitRole(t, replica, "master")
	topology.AwaitRole(t, master, "slave")
}

// peek is remaining of a replica, which decides nothing.
func peek(t *testing.T, s *server.Server, key string) int64 {
	t.Helper()
	ints, err := s.MustDo("CL.PEEK", key, "RATE", "1/d", "BURST", "16", "COMPACT").Ints()
	require.NoError(t, err)
	return ints[3]
}

// Behind a redis-cell master, a replica of ours is sent calls. It decides them by its own clock, appends effects to
// its AOF, and passes on to replicas of its own what it was sent.
func TestOurReplicaOfARedisCellMaster(t *testing.T) {
	cell := begin(t)
	master := server.Start(t, cell, topology.QuietLinks())
	stream := master.Stream()
	replica := server.Start(t, topology.QuietLinks(), server.ReplicaOf(master), server.AppendOnly("always"))
	topology.AwaitReplicas(t, master, replica)
	// A replica's replica is sent what the master sent. Stream cannot be used for it: its markers are the replica's
	// own.
	below := replica.Raw()
	require.NoError(t, below.Send("SYNC"))
	require.NoError(t, below.Flush())
	require.NoError(t, below.SkipSnapshot())
	stream.Drain()

	allowed, limited, asks := call("user", daily+" 16"), call("user", daily+" 1"), call("user", daily+" 0")
	refund := call("user", daily+" -3")
	for _, words := range [][]string{allowed, limited, asks, refund} {
		master.MustDo(words...)
	}
	topology.AwaitReplicas(t, master, replica)
	assert.Equal(t, [][]string{allowed, limited, asks, refund}, withoutMarkers(stream.Drain()), "redis-cell replicates every call, also a limited one")

	value := replica.MustDo("GET", "user").Text
	aof := withoutMarkers(replica.AOF())
	require.Len(t, aof, 1, "%q", aof)
	assert.Equal(t, []string{"SET", "user", value, "PXAT"}, aof[0][:4])

	assert.EqualValues(t, 0, peek(t, replica, "user"), "a negative quantity gives nothing back")
	assert.EqualValues(t, 3, remaining(t, master, "user")) // one more call that asks
	require.Eventually(t, func() bool {
		return len(replica.LogLines("quantity must be an integer from 0 to")) > 0
	}, patience, 5*time.Millisecond, "the log says that a call of the master's failed")
	assert.Equal(t, "up", replica.Info("replication")["master_link_status"])

	master.MustDo("PUBLISH", "channel", "end")
	var passed [][]string
	for len(passed) == 0 || passed[len(passed)-1][0] != "PUBLISH" || passed[len(passed)-1][2] != "end" {
		v, err := below.Receive()
		require.NoError(t, err)
		var words []string
		for _, e := range v.Elems {
			words = append(words, e.Text)
		}
		if words[0] == "CL.THROTTLE" || words[0] == "PUBLISH" {
			passed = append(passed, words)
		}
	}
	assert.Equal(t, [][]string{allowed, limited, asks, refund, asks}, withoutMarkers(passed))
}

// withoutMarkers leaves out PUBLISH, by which tests find out how far servers have got.
func withoutMarkers(commands [][]string) (rest [][]string) {
	for _, words := range commands {
		if !strings.EqualFold(words[0], "PUBLISH") {
			rest = append(rest, words)
		}
	}
	return rest
}

// After many calls, a replica of ours has what its redis-cell master has, except for the time between the two
// decisions.
func TestOurReplicaOfARedisCellMasterIsNeverFarOff(t *testing.T) {
	cell := begin(t)
	master := server.Start(t, cell, topology.QuietLinks())
	replica := server.Start(t, topology.QuietLinks(), server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, replica)
	c := master.Raw()
	const keys, calls = 50, 5000
	var commands [][]string
	for i := range calls {
		commands = append(commands, call(fmt.Sprint("user", i%keys), "15 30 600"))
	}
	_, err := c.Pipeline(commands...)
	require.NoError(t, err)
	topology.AwaitReplicas(t, master, replica)
	var most time.Duration
	for i := range keys {
		key := fmt.Sprint("user", i)
		a, ok := tatOf(t, master.MustDo("GET", key))
		require.True(t, ok)
		b, ok := tatOf(t, replica.MustDo("GET", key))
		require.True(t, ok)
		most = max(most, time.Duration(max(a, b)-min(a, b)))
	}
	t.Logf("on %s: after %d calls the times of master and replica are at most %v apart", master.Program, calls, most)
	assert.Less(t, most, 20*time.Second, "one unit")
}

// An AOF of redis-cell's holds calls. They are decided anew when it is read, all at one time: a bucket that has filled
// in between comes back emptied. After BGREWRITEAOF it holds values.
func TestAOFOfRedisCellIsDecidedAnewUnlessItWasRewritten(t *testing.T) {
	cell := begin(t)
	for _, c := range []struct {
		name     string
		preamble string
		rewrite  bool
		load     func(*testing.T) server.Option
		want     int64
	}{
		{"by redis-cell itself", "yes", false, func(*testing.T) server.Option { return cell }, 0},
		{"by this module", "yes", false, ours, 0},
		{"rewritten before", "yes", true, ours, 9},
		{"rewritten before, without an RDB preamble", "no", true, ours, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixNano()
			wall := clock.New(t, now)
			s := startUnder(t, wall, now, cell, server.AppendOnly("always"), server.Config("aof-use-rdb-preamble "+c.preamble))
			throttle(t, s, "user", daily+" 16")
			wall.Set(now + int64(10*24*time.Hour))
			throttle(t, s, "user", daily+" 1")
			require.EqualValues(t, 9, remaining(t, s, "user"))
			if c.rewrite {
				rewrite(t, s)
			}
			s.Configure(c.load(t))
			s.Restart()
			assert.Equal(t, c.want, remaining(t, s, "user"))
		})
	}
}

func rewrite(t *testing.T, s *server.Server) {
	t.Helper()
	s.MustDo("BGREWRITEAOF")
	topology.AwaitNoRewrite(t, s)
}

// The calls stay in the file until it is rewritten, and so are decided anew at every start.
func TestAOFIsDecidedAnewAtEveryStartUntilItIsRewritten(t *testing.T) {
	cell := begin(t)
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	wall := clock.New(t, now)
	s := startUnder(t, wall, now, cell, server.AppendOnly("always"))
	throttle(t, s, "user", daily+" 16")
	s.Configure(ours(t))
	for range 2 {
		now += int64(15 * 24 * time.Hour)
		wall.Set(now)
		s.Restart()
		require.EqualValues(t, 0, remaining(t, s, "user"))
	}
	rewrite(t, s)
	now += int64(15 * 24 * time.Hour)
	wall.Set(now)
	s.Restart()
	assert.EqualValues(t, 15, remaining(t, s, "user"))
}

// Calls that this module refuses do not keep the server from reading the file. What they gave back stays taken.
func TestNegativeQuantitiesInAnAOFAreSkipped(t *testing.T) {
	cell := begin(t)
	s := server.Start(t, cell, server.AppendOnly("always"))
	throttle(t, s, "user", daily+" 10")
	throttle(t, s, "user", daily+" -6")
	throttle(t, s, "user", daily+" +2")
	throttle(t, s, "other", daily+" 1")
	require.EqualValues(t, 10, remaining(t, s, "user"))
	s.Configure(ours(t))
	s.Restart()
	assert.EqualValues(t, 6, remaining(t, s, "user"), "neither -6 nor +2 is a number to this module")
	assert.EqualValues(t, 15, remaining(t, s, "other"), "and the rest was read")
}

// An RDB holds values, so a server that saves nothing else moves without a loss.
func TestRDBOfRedisCellIsContinued(t *testing.T) {
	cell := begin(t)
	s := server.Start(t, cell)
	throttle(t, s, "user", daily+" 6")
	s.MustDo("SAVE")
	s.Configure(ours(t))
	s.Restart()
	assert.EqualValues(t, 10, remaining(t, s, "user"))
}

// What this module appends to its AOF, redis-cell need not decide.
func TestRedisCellReadsOurFiles(t *testing.T) {
	cell := begin(t)
	s := server.Start(t, server.AppendOnly("always"))
	throttle(t, s, "user", daily+" 6")
	s.MustDo("CL.LIMIT", "stack", "RATE", "5/m", "RATE", "100/h")
	s.Configure(cell)
	s.Restart()
	assert.EqualValues(t, 10, remaining(t, s, "user"))
	assert.EqualValues(t, 1, s.MustDo("EXISTS", "stack").Int)
}

// Over maxmemory redis-cell goes on, and writes; this module is refused.
func TestFullMemoryRefusesOursAndNotRedisCell(t *testing.T) {
	cell := begin(t)
	theirs, our := server.Start(t, cell), server.Start(t)
	for _, s := range []*server.Server{theirs, our} {
		throttle(t, s, "user", daily)
		s.MustDo("CONFIG", "SET", "maxmemory", "1")
	}
	throttle(t, theirs, "user", daily)
	throttle(t, theirs, "new", daily)
	for _, quantity := range []string{"1", "0"} {
		assert.Contains(t, our.Do(call("user", daily+" "+quantity)...).Text, "OOM command not allowed")
	}
}

// What monitoring sees of the one and the other.
func TestNamesInMonitoring(t *testing.T) {
	cell := begin(t)
	theirs, our := server.Start(t, cell), server.Start(t)
	for _, c := range []struct {
		s           *server.Server
		name, flags string
	}{
		{theirs, "redis-cell", "*[\"write\" \"module\"]"},
		{our, "throttle", "*[\"write\" \"denyoom\" \"module\" \"fast\"]"},
	} {
		throttle(t, c.s, "user", daily)
		modules := c.s.MustDo("MODULE", "LIST").String()
		assert.Contains(t, modules, fmt.Sprintf("%q", c.name))
		assert.Contains(t, c.s.MustDo("INFO", "modules").Text, "module:name="+c.name+",ver=")
		assert.Contains(t, c.s.MustDo("INFO", "commandstats").Text, "cmdstat_cl.throttle:calls=1,")
		info := c.s.MustDo("COMMAND", "INFO", "cl.throttle").Elems[0]
		assert.Contains(t, info.String(), "cl.throttle")
		for _, flag := range []string{"denyoom", "fast"} {
			assert.Equal(t, strings.Contains(c.flags, flag), strings.Contains(info.Elems[2].String(), flag), "%s of %s", flag, c.name)
		}
		assert.Equal(t, c.name == "throttle", strings.Contains(c.s.MustDo("INFO", "everything").Text, "# throttle"))
		c.s.MustDo("ACL", "SETUSER", "app", "on", "nopass", "~*", "+cl.throttle")
	}
}

// There can only be one cl.throttle. The second module is not loaded, whichever it is; the server does not start with
// both in its configuration.
func TestBothModulesCannotBeLoaded(t *testing.T) {
	cell := begin(t)
	theirs, our := server.Start(t, cell), server.Start(t)
	cellPath := os.Getenv("REDIS_CELL_SO")
	ourPath, err := server.ModulePath()
	require.NoError(t, err)

	assert.True(t, theirs.Do("MODULE", "LOAD", ourPath).IsError())
	assert.NotEmpty(t, theirs.LogLines("cl.throttle"), theirs.LogTail())
	t.Logf("log: %q", theirs.LogLines("throttle"))
	throttle(t, theirs, "user", daily)

	assert.True(t, our.Do("MODULE", "LOAD", cellPath).IsError())
	t.Logf("log: %q", our.LogLines("cell"))
	throttle(t, our, "user", daily)

	for _, second := range []string{ourPath, cellPath} {
		first := map[string]string{ourPath: cellPath, cellPath: ourPath}[second]
		_, err := server.TryStart(t, server.Module(first), server.Config("loadmodule "+second))
		require.Error(t, err)
		assert.Contains(t, err.Error(), "Can't load module from "+second)
	}
}

// Without a restart: one is unloaded and the other loaded, on connections made anew. Calls in between are refused as
// unknown.
func TestSwapWithoutARestart(t *testing.T) {
	cell := begin(t)
	s := server.Start(t, cell, server.AppendOnly("always"))
	ourPath, err := server.ModulePath()
	require.NoError(t, err)
	throttle(t, s, "user", daily+" 6")
	s.MustDo("MODULE", "UNLOAD", "redis-cell")
	assert.Contains(t, s.Do(call("user", daily)...).Text, "unknown command")
	s.MustDo("MODULE", "LOAD", ourPath)
	assert.EqualValues(t, 10, remaining(t, s, "user"))
	rewrite(t, s)
	s.Configure(ours(t))
	s.Restart()
	assert.EqualValues(t, 10, remaining(t, s, "user"))
}

// A replica or a file of redis-cell's needs redis-cell, or this module, everywhere: a server without either does not
// know the calls.
func TestServerWithoutAModuleCannotFollowRedisCell(t *testing.T) {
	cell := begin(t)
	master := server.Start(t, cell, topology.QuietLinks(), server.AppendOnly("always"))
	bare := server.Start(t, topology.QuietLinks(), server.WithoutModule(), server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, bare)
	throttle(t, master, "user", daily)
	topology.AwaitReplicas(t, master, bare)
	assert.EqualValues(t, 0, bare.MustDo("EXISTS", "user").Int, "the call is not known")

	master.Configure(server.WithoutModule())
	require.Error(t, master.TryRestart())
	assert.Regexp(t, `(?i)reading the append only file .*unknown command 'cl\.throttle'|unknown command 'cl\.throttle' reading the append only file`, master.Log())
}

// Dragonfly, by its source, stores the theoretical arrival time in nanoseconds, and an expiry in milliseconds that is
// rounded up. Such keys are continued.
func TestValuesOfDragonflysFormAreContinued(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	full := time.Now().Add(6*24*time.Hour - time.Hour)
	s.MustDo("SET", "user", fmt.Sprint(full.UnixNano()), "PXAT", fmt.Sprint(full.UnixMilli()+1))
	assert.EqualValues(t, 10, remaining(t, s, "user"))
	assert.EqualValues(t, 9, throttle(t, s, "user", daily+" 1")[2])
	// Before 1.34 it was in milliseconds: an instant of 1970, so the bucket is full.
	s.MustDo("SET", "old", fmt.Sprint(full.UnixMilli()), "PXAT", fmt.Sprint(full.UnixMilli()))
	assert.EqualValues(t, 16, remaining(t, s, "old"))
}
