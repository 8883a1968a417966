package commands_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/stack"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// startMany skips servers that are not told of keys behind a number.
func startMany(t *testing.T, opts ...server.Option) *server.Server {
	t.Helper()
	s := server.Start(t, opts...)
	s.Program.NeedsCountedKeys(t)
	return s
}

// manyNames are the fields of CL.MLIMIT's reply: those of the others, and the key.
var manyNames = append(kit.StandingNames[:len(kit.StandingNames):len(kit.StandingNames)], "key")

// integersIn reads the values of a reply, with or without the names of the fields.
func integersIn(v resp.Value) (n []int64, err error) {
	elems := v.Elems
	if len(elems) == len(manyNames) {
		return v.Ints()
	}
	if len(elems) != 2*len(manyNames) {
		return nil, fmt.Errorf("%v is no reply of %d fields", v, len(manyNames))
	}
	for i, name := range manyNames {
		if elems[2*i].Text != name || elems[2*i+1].Kind != resp.Integer {
			return nil, fmt.Errorf("pair %d of %v is not %s and an integer", i, v, name)
		}
		n = append(n, elems[2*i+1].Int)
	}
	return n, nil
}

func askMany(t kit.Tester, c *resp.Conn, command string, args ...any) []int64 {
	t.Helper()
	v := kit.Do(t, c, command, args...)
	n, err := integersIn(v)
	require.NoError(t, err, command)
	return n
}

// Every key is known before the call runs: to clients that route it, to ACL and to the server.
func TestServerKnowsEachKeyOfMLimit(t *testing.T) {
	t.Parallel()
	s := startMany(t)
	assert.Equal(t, []string{"k1", "k2", "k3"}, kit.TextsOf(s.MustDo("COMMAND", "GETKEYS", "CL.MLIMIT", "3", "k1", "k2", "k3", "RATE", "5/s")))
	assert.Equal(t, []string{"k1", "k2"}, kit.TextsOf(s.MustDo("COMMAND", "GETKEYS", "CL.SETTLE", "2", "k1", "k2", "SLOTS", "ID", "a")))
	assert.True(t, s.Do("COMMAND", "GETKEYS", "CL.MLIMIT", "3", "k1").IsError())
	info := s.MustDo("COMMAND", "INFO", "cl.mlimit").Elems[0].Elems
	assert.ElementsMatch(t, []string{"write", "denyoom", "module", "fast", "movablekeys"}, kit.TextsOf(info[2]))
	spec := info[8].Elems[0].String()
	for _, part := range []string{"RW", "access", "update", `*["type" "index" "spec" *["index" 1]]`, `*["type" "keynum" "spec" *["keynumidx" 0 "firstkey" 1 "keystep" 1]]`} {
		assert.Contains(t, spec, part)
	}
}

// The longest values that there are, of eight keys at once: each of eight windows is charged in each of the 65 slots of 100 days that it touches. They
// are the same that a call for one key writes.
func TestMLimitWritesTheLongestValuesOfEightKeys(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	virtual := clock.New(t, at)
	s := virtual.Start()
	s.Program.NeedsCountedKeys(t)
	c := s.Raw()
	var limits string
	for i := range stack.MaxLimits {
		limits += fmt.Sprintf(" WINDOW %d/6400d", math.MaxInt64-i)
	}
	for range 70 {
		at += int64(99 * 24 * time.Hour)
		virtual.Set(at)
		assert.Zero(t, askMany(t, c, "CL.MLIMIT 8 a b c d e f g h%s COST %d", limits, int64(1)<<56)[0])
		assert.Zero(t, kit.Do(t, c, "CL.LIMIT one%s COST %d COMPACT", limits, int64(1)<<56).Elems[0].Int)
	}
	want := kit.Do(t, c, "GET one").Text
	assert.Len(t, want, stack.MaxEncodedLen)
	for _, name := range strings.Fields("a b c d e f g h") {
		assert.Equal(t, want, kit.Do(t, c, "GET %s", name).Text, name)
	}
}

// Nothing of the keys changes when one of them, or a word, is wrong.
func TestMLimitThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	w.Program.NeedsCountedKeys(t)
	kit.Do(t, w.Conn, "RPUSH list 1")
	kit.Do(t, w.Conn, "SET text hello")
	kit.Do(t, w.Conn, "ZADD set 1 a")
	kit.Do(t, w.Conn, "CL.LIMIT used RATE 2/365d COST 1")
	kit.Do(t, w.Conn, "CL.LIMIT full RATE 2/365d COST 2")
	w.Stream.Drain()
	before := []kit.Traces{w.Traces(t, "new"), w.Traces(t, "used"), w.Traces(t, "full")}
	for _, keys := range []string{"new used list", "list new used", "new text used", "new set used", "new used new"} {
		for _, options := range []string{"", " FORCE", " ANY", " STRICT BAN 1h"} {
			v := kit.Do(t, w.Conn, "CL.MLIMIT 3 %s RATE 2/365d%s", keys, options)
			assert.True(t, v.IsError(), keys)
		}
	}
	for _, call := range []string{
		"CL.MLIMIT 4 new used RATE 2/365d", "CL.MLIMIT 9 new used RATE 2/365d", "CL.MLIMIT x new RATE 1/s", "CL.MLIMIT 2 new used RATE 2/365d NEXT",
		"CL.MLIMIT 2 new used RATE 2/365d RATTE", "CL.MLIMIT 3 new used other RATE 1/365d NEXT RATE 1/365d",
	} {
		assert.True(t, kit.Do(t, w.Conn, "%s", call).IsError(), call)
	}
	// Nor when the call is limited, or asks for nothing.
	for _, call := range []string{
		"CL.MLIMIT 2 new full RATE 2/365d", "CL.MLIMIT 2 full new RATE 2/365d COST 9", "CL.MLIMIT 2 new used RATE 2/365d COST 0",
		"CL.MLIMIT 1 full RATE 2/365d ANY", "CL.MLIMIT 2 new full RATE 2/365d UPTO COST 4", "CL.MLIMIT 2 new full RATE 2/365d MAXWAIT 1m",
	} {
		askMany(t, w.Conn, "%s", call)
	}
	assert.Equal(t, before, []kit.Traces{w.Traces(t, "new"), w.Traces(t, "used"), w.Traces(t, "full")})
	assert.Empty(t, w.Stream.Drain())
}

// Replicas are told all that a call changes in one transaction, or in the one that it is part of.
func TestMLimitIsReplicatedAsOne(t *testing.T) {
	server.NeedsServer(t, "replication")
	t.Parallel()
	s := startMany(t)
	stream := s.Stream()
	c := s.Raw()
	names := func() (names []string) {
		for _, command := range stream.Drain() {
			names = append(names, strings.Join(command[:min(len(command), 2)], " "))
		}
		return names
	}
	askMany(t, c, "CL.MLIMIT 3 a b c RATE 5/h")
	assert.Equal(t, []string{"MULTI", "SET a", "SET b", "SET c", "EXEC"}, names())
	askMany(t, c, "CL.MLIMIT 3 a b c RATE 5/h TAKE 0 NEXT RATE 5/h NEXT RATE 5/h")
	assert.Equal(t, []string{"MULTI", "SET b", "SET c", "EXEC"}, names())
	askMany(t, c, "CL.MLIMIT 3 a b c RATE 5/h ANY")
	assert.Equal(t, []string{"SET a"}, names(), "one key needs no transaction")
	askMany(t, c, "CL.MLIMIT 3 a b c RATE 1/h NEXT RATE 5/h NEXT RATE 5/h BAN 1h")
	assert.Equal(t, []string{"SET a"}, names(), "the key that decided is banned")

	kit.Do(t, c, "MULTI")
	kit.Do(t, c, "CL.MLIMIT 2 d e RATE 5/h")
	kit.Do(t, c, "CL.MLIMIT 2 f g RATE 5/h")
	kit.Do(t, c, "CL.MLIMIT 2 a h RATE 5/h")
	replies := kit.Do(t, c, "EXEC").Elems
	require.Len(t, replies, 3)
	n, err := integersIn(replies[2])
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 0, 1}, []int64{n[0], n[1], n[10]}, "the ban of a")
	assert.Equal(t, []string{"MULTI", "SET d", "SET e", "SET f", "SET g", "EXEC"}, names())

	v, err := c.Do("EVAL", "redis.call('CL.MLIMIT', 2, KEYS[1], KEYS[2], 'RATE', '5/h'); return redis.call('CL.MLIMIT', '2', KEYS[1], KEYS[2], 'RATE', '5/h', 'COMPACT')", "2", "i", "j")
	require.NoError(t, err)
	n, err = v.Ints()
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 1, 5, 3, -1, 1_440_000, 720_000, 1, 0, 0, 1}, n)
	assert.Equal(t, []string{"MULTI", "SET i", "SET j", "SET i", "SET j", "EXEC"}, names())
}

// Each key is notified of as its own call would be; "limited" and "shadowed" are about the key that
// decided.
func TestMLimitNotifiesOfEachKey(t *testing.T) {
	t.Parallel()
	s := startMany(t, server.Config("notify-keyspace-events EA"))
	listener := kit.ListenToEvents(t, s)
	c := s.Raw()
	events := func(call string) []string {
		t.Helper()
		kit.Do(t, c, "%s", call)
		return slices.DeleteFunc(listener.Drain(t), func(event string) bool { return strings.HasPrefix(event, "new ") })
	}
	assert.Equal(t, []string{"set a", "expire a", "set b", "expire b"}, events("CL.MLIMIT 2 a b FIXED 3/365d"))
	assert.Equal(t, []string{"set a", "set b"}, events("CL.MLIMIT 2 a b FIXED 3/365d"))
	assert.Equal(t, []string{"limited b"}, events("CL.MLIMIT 3 c b a FIXED 2/365d"))
	assert.Equal(t, []string{"set c", "expire c"}, events("CL.MLIMIT 3 c b a FIXED 2/365d ANY"))
	assert.Equal(t, []string{"set a", "set c", "shadowed c"}, events("CL.MLIMIT 2 a c FIXED 9/365d NEXT FIXED 1/365d SHADOW FIXED 9/365d TAKE 2"))
	assert.Equal(t, []string{"set b", "expire b", "limited b"}, events("CL.MLIMIT 2 a b FIXED 9/365d NEXT FIXED 2/365d BAN 1000d"))
}

// A fault in a decision changes none of the keys.
func TestMLimitThatPanicsChangesNothing(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	s.Program.NeedsCountedKeys(t)
	c := s.Raw()
	assert.Contains(t, kit.Do(t, c, "CL.MLIMIT 3 a fault:panic b RATE 5/s").Text, "internal error")
	assert.EqualValues(t, 0, s.MustDo("DBSIZE").Int)
	assert.EqualValues(t, 1, s.InfoInt("throttle", "throttle_errors_internal"))
	assert.Equal(t, int64(0), askMany(t, c, "CL.MLIMIT 3 a b c RATE 5/s")[0])
}

// Callers that wait on a key see what other calls reserve on it together with others, and the other
// way round: all of them are one queue.
func TestMLimitReservesBehindCallersThatWait(t *testing.T) {
	t.Parallel()
	s := startMany(t)
	c := s.Raw()
	waiting := s.Raw()
	kit.Ask(t, c, "CL.LIMIT a RATE 1/h BURST 1")
	require.NoError(t, waiting.Send("CL.WAIT", "a", "RATE", "1/h", "BURST", "1", "TIMEOUT", "0"))
	require.NoError(t, waiting.Flush())
	require.Eventually(t, func() bool { return s.InfoInt("throttle", "throttle_waiting") == 1 }, 60*time.Second, time.Millisecond)
	n := askMany(t, c, "CL.MLIMIT 2 b a RATE 1/h BURST 1 MAXWAIT 1d")
	assert.Equal(t, int64(0), n[0])
	assert.Greater(t, n[8], int64(7_100_000), "behind the caller that waits")
	assert.LessOrEqual(t, n[8], int64(7_200_000))
	b := kit.Ask(t, c, "CL.PEEK b RATE 1/h BURST 1")
	assert.Greater(t, b.RetryAfterMs, int64(10_700_000), "b is charged as of that slot, too")
}

// While a call adds its keys, calls of another module on any of them are refused, and two that
// change the same keys end with the same bytes on a replica.
func TestMLimitAddsItsKeysUndisturbed(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	s.Program.NeedsCountedKeys(t)
	replica := server.Start(t, server.WithoutModule(), server.ReplicaOf(s))
	require.Eventually(t, func() bool { return replica.Info("replication")["master_link_status"] == "up" }, 60*time.Second, 5*time.Millisecond)
	c := s.Raw()
	for _, nested := range []string{"CL.THROTTLE b 99 1 1d", "CL.THROTTLE other 99 1 1d", "CL.MLIMIT 3 b other a RATE 1/1d BURST 100", "CL.REFUND a RATE 1/1d BURST 100"} {
		t.Run(nested, func(t *testing.T) {
			neighbour.Do(t, s, "")
			kit.Do(t, c, "FLUSHALL")
			kit.Do(t, c, "CL.THROTTLE a 99 1 1d")
			neighbour.Do(t, s, nested)
			assert.Equal(t, int64(0), askMany(t, c, "CL.MLIMIT 3 a b c RATE 1/1d BURST 100")[0])
			neighbour.Do(t, s, "")
			kit.RequireReplica(t, s, replica, "a", "b", "c", "other")
		})
	}
}
