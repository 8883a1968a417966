package neighbours_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// lapsedMembers are members for ZADD that have all lapsed.
func lapsedMembers(from, to int) (words string) {
	for i := from; i < to; i++ {
		words += fmt.Sprintf(" 1700000000000 lapsed%d", i)
	}
	return words
}

// inScript has a script make a call, which counts as none of a client: it reads copies of values.
func inScript(t *testing.T, c *resp.Conn, call string) resp.Value {
	t.Helper()
	v, err := c.Do(append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, strings.Fields(call)...)...)
	require.NoError(t, err, call)
	return v
}

func dumpOf(t *testing.T, c *resp.Conn, keys ...string) (values []string) {
	t.Helper()
	for _, key := range keys {
		values = append(values, kit.Do(t, c, "DUMP %s", key).Text)
	}
	return values
}

// A value that the server may still be adding is copied by a command of the server's, before which another module may
// run. The call changes nothing then, whatever that one makes of the keys.
func TestANeighbourWritesWhileAValueIsCopied(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		c := neighbour.Start(t, opts...).Raw()
		prepare := func() {
			kit.MustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL", "SET a 1700000000000000000", "SET b 1700000000000000000")
		}
		ran := int64(0)
		for _, write := range neighbourWrites {
			for _, call := range writtenInto {
				prepare()
				kit.Do(t, c, "NEIGHBOUR.BEFORE GET %s", write)
				inScript(t, c, call)
				times := kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int
				ran += times
				if kit.Do(t, c, "NEIGHBOUR.DO"); strings.HasPrefix(write, "CL.") {
					continue // what those write goes by the clock
				}
				have := dumpOf(t, c, "a", "b", "c", "d")
				prepare()
				for range times {
					kit.Do(t, c, "%s", write)
				}
				assert.Equal(t, dumpOf(t, c, "a", "b", "c", "d"), have, "%s, %d times before %s", write, times, call)
			}
		}
		assert.Greater(t, ran, int64(200))
	})
}

// What a script or a module does to a key with an expiry is decided by what the key holds, also where another module
// writes between the moment at which the value is copied and the call. Each write but those of ours is the same twice.
func TestANeighbourWritesWhileAValueWithAnExpiryIsCopied(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		c := neighbour.Start(t, opts...).Raw()
		prepare := func() {
			kit.MustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL", "CL.LIMIT a RATE 1/1d BURST 9", "CL.LIMIT b RATE 1/1d BURST 9", "PEXPIREAT a 4000000000000", "PEXPIREAT b 4000000000000")
		}
		peeks := func() (all []string) {
			for _, key := range []string{"a", "b", "c", "d"} {
				v := kit.Do(t, c, "CL.PEEK %s RATE 1/1d BURST 9 COMPACT", key)
				if len(v.Elems) > 3 {
					v = v.Elems[3]
				}
				all = append(all, v.String(), kit.Do(t, c, "TYPE %s", key).Text)
			}
			return all
		}
		ran := int64(0)
		for _, write := range append([]string{"CL.LIMIT b RATE 1/1d BURST 9 COST 3", "CL.LIMIT a RATE 1/1d BURST 9 COST 3"}, neighbourWrites...) {
			for _, skipped := range []int{0, 1} {
				for _, call := range append([]string{"CL.MLIMIT 3 a b c RATE 1/1d BURST 9", "CL.LIMIT b RATE 1/1d BURST 9 COST 2", "CL.MLIMIT 2 b a RATE 1/1d BURST 9 COST 7"}, writtenInto...) {
					prepare()
					kit.MustDoAll(t, c, "NEIGHBOUR.BEFORE GET "+write, fmt.Sprintf("NEIGHBOUR.SKIP %d", skipped))
					v := inScript(t, c, call)
					times := kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int
					ran += times
					kit.Do(t, c, "NEIGHBOUR.DO")
					have := peeks()
					prepare()
					for range times {
						kit.Do(t, c, "%s", write)
					}
					want := kit.Do(t, c, "%s", call)
					assert.Equal(t, kit.IsLetThrough(want), kit.IsLetThrough(v), "%s, %d times before %s: %v, not %v", write, times, call, v, want)
					assert.Equal(t, peeks(), have, "%s, %d times before %s", write, times, call)
				}
			}
		}
		assert.Greater(t, ran, int64(500))
	})
}

// Where GET was renamed, scripts and modules decide by keys that have an expiry all the same.
func TestScriptsReadKeysWhereGetIsRenamed(t *testing.T) {
	t.Parallel()
	c := neighbour.Start(t, server.Config(`rename-command GET ""`)).Raw()
	kit.Do(t, c, "CL.LIMIT b RATE 1/1d BURST 9")
	assert.EqualValues(t, 7, inScript(t, c, "CL.LIMIT b RATE 1/1d BURST 9 COMPACT").Elems[3].Int)
	assert.EqualValues(t, 7, inScript(t, c, "CL.PEEK b RATE 1/1d BURST 9 COMPACT").Elems[3].Int)
	kit.Do(t, c, "PERSIST b")
	assert.Equal(t, "WRONGTYPE Operation against a key holding the wrong kind of value", inScript(t, c, "CL.PEEK b RATE 1/1d BURST 9").Text)
}

// Another module may make a set of a key after its value was copied. The call answers as one that finds a set, wherever
// it names its member.
func TestANeighbourMakesASetOfAKeyThatWasCopied(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		c := neighbour.Start(t, opts...).Raw()
		for call, answer := range map[string]int64{
			"CL.MLIMIT 2 a b SLOTS 2 TTL 1d NEXT RATE 1/1d ID y":                           1,
			"CL.MLIMIT 2 a b SLOTS 2 TTL 1d NEXT RATE 1/1d ID y COMPACT":                   1,
			"CL.SETTLE 2 b a RATE 1/1d BURST 9 TAKE 1 USED 3 NEXT SLOTS ID y COMPACT":      0,
			"CL.SETTLE 2 a b SLOTS NEXT RATE 1/1d BURST 9 TAKE 1 USED 3 ID y COMPACT EACH": 0,
		} {
			first := strings.Fields(call)[2]
			kit.MustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL", "ZADD set 2100000000000 x 2100000000000 w", "CL.MLIMIT 2 q r SLOTS 2 TTL 1d NEXT RATE 1/1d ID y",
				"SET a 1700000000000000000", "SET b 1700000000000000000")
			kit.MustDoAll(t, c, "NEIGHBOUR.BEFORE GET ZUNIONSTORE "+first+" 1 set", "NEIGHBOUR.SKIP 1")
			v := inScript(t, c, call)
			assert.EqualValues(t, 1, kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int, call)
			kit.Do(t, c, "NEIGHBOUR.DO")
			if first == "b" { // which is to have a rate
				assert.Equal(t, "WRONGTYPE Operation against a key holding the wrong kind of value", v.Text, call)
				continue
			}
			require.NotEmpty(t, v.Elems, "%s: %v", call, v)
			assert.Equal(t, answer == 0, kit.IsLetThrough(v), "%s: %v", call, v)
		}
	})
}

// A key that may be unfinished stays so if it gets an expiry while lapsed leases are counted.
func TestAKeyThatMayBeUnfinishedGetsAnExpiry(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		c := neighbour.Start(t, opts...).Raw()
		kit.MustDoAll(t, c, "SET b 1700000000000000000", "ZADD a 2100000000000 held"+lapsedMembers(0, 20), "PEXPIREAT a 2100000000000", "NEIGHBOUR.BEFORE ZCOUNT PEXPIRE b 100000")
		v := inScript(t, c, "CL.MLIMIT 2 a b SLOTS 2 TTL 1d NEXT RATE 1/1d BURST 9 ID y")
		assert.EqualValues(t, 1, kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int)
		assert.Equal(t, "ERR key is being created by the command that this call is nested in", v.Text)
		assert.Equal(t, "1700000000000000000", kit.Do(t, c, "GET b").Text)
		assert.Empty(t, kit.Do(t, c, "ZSCORE a y").Text)
	})
}

// growing is a call that makes a value longer in place of a lease. Over maxmemory it asks the server, which goes by its
// memory before the transaction, and says yes.
const growing = "CL.SETTLE 2 b a RATE 5/1d WINDOW 5/1d TAKE 1 USED 3 NEXT SLOTS ID x COMPACT"

func growOverMaxmemory(t *testing.T, c *resp.Conn, call string) resp.Value {
	t.Helper()
	kit.MustDoAll(t, c, "MULTI", "CONFIG SET maxmemory 1", call, "CONFIG SET maxmemory 0")
	return kit.Do(t, c, "EXEC").Elems[1]
}

// Before the server is asked for memory, another module may run. The call is decided by what the keys hold afterwards.
func TestANeighbourWritesWhileTheServerIsAskedForMemory(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		s := neighbour.Start(t, opts...)
		if !s.Program.AtLeast(7, 0) {
			t.Skip("the server cannot be asked")
		}
		c := s.Raw()
		prepare := func() {
			kit.MustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL", "CL.MLIMIT 2 b a RATE 5/1d NEXT SLOTS 2 TTL 1d ID x", "ZADD a"+lapsedMembers(0, 10))
		}
		// Whether it is settled, the rule, the limit and what is left; the rest goes by the clock.
		answer := func(v resp.Value) string {
			if v.IsError() {
				return v.Text
			}
			return fmt.Sprint(v.Elems[:4])
		}
		ran := int64(0)
		for _, write := range append([]string{"PING", "CL.LIMIT b RATE 5/1d"}, neighbourWrites...) {
			prepare()
			kit.Do(t, c, "%s", write)
			expected := answer(kit.Do(t, c, growing))
			left, lease := kit.Do(t, c, "CL.PEEK b RATE 5/1d WINDOW 5/1d COMPACT"), kit.Do(t, c, "ZSCORE a x").Text != ""
			prepare()
			kit.Do(t, c, "NEIGHBOUR.BEFORE ZADD %s", write)
			v := growOverMaxmemory(t, c, growing)
			ran += kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int
			kit.Do(t, c, "NEIGHBOUR.DO")
			assert.Equal(t, expected, answer(v), write)
			assert.Equal(t, answer(left), answer(kit.Do(t, c, "CL.PEEK b RATE 5/1d WINDOW 5/1d COMPACT")), write)
			assert.Equal(t, lease, kit.Do(t, c, "ZSCORE a x").Text != "", "%s: %v", write, v)
		}
		assert.GreaterOrEqual(t, ran, int64(len(neighbourWrites)))
	})
}

// Calls that ask for memory leave none behind, and count what they do.
func TestCallsThatAskForMemoryLeaveNoneBehind(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("the server cannot be asked")
	}
	c := s.Raw()
	settled := int64(0)
	grown := kit.Growth(t, c, func() {
		for range 50 {
			kit.MustDoAll(t, c, "FLUSHALL", "ZADD a"+lapsedMembers(0, 10), "CL.MLIMIT 2 b a RATE 5/1d NEXT SLOTS 2 TTL 1d ID x", "ZADD a"+lapsedMembers(0, 10))
			require.EqualValues(t, 1, growOverMaxmemory(t, c, growing).Elems[0].Int)
			settled++
			kit.MustDoAll(t, c, "CL.LIMIT c RATE 5/1d")
			require.False(t, growOverMaxmemory(t, c, "CL.REFUND c RATE 5/1d WINDOW 5/1d TAKE 1").IsError())
		}
	})
	assert.Less(t, grown, int64(3<<10), "an open key takes some 100 bytes")
	assert.Equal(t, settled, s.InfoInt("throttle", "throttle_settled"))
	assert.Equal(t, settled, s.InfoInt("throttle", "throttle_leases_released"))
}

// A call that may change nothing, because a key may be unfinished, needs no memory.
func TestACallOnAnUnfinishedKeyAsksForNoMemory(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("scripts with flags")
	}
	c := s.Raw()
	kit.MustDoAll(t, c, "CL.MLIMIT 2 b a RATE 5/1d NEXT SLOTS 2 TTL 1d ID x", "PERSIST b", "NEIGHBOUR.BEFORE ZADD PING", "CONFIG SET maxmemory 1")
	const script = "#!lua flags=allow-oom\nreturn redis.pcall(unpack(ARGV))"
	v, err := c.Do(append([]string{"EVAL", script, "0"}, strings.Fields("CL.SETTLE 2 b a RATE 5/1d WINDOW 5/1d TAKE 1 USED 3 NEXT SLOTS ID x COMPACT")...)...)
	require.NoError(t, err)
	assert.Equal(t, "ERR key is being created by the command that this call is nested in", v.Text)
	assert.EqualValues(t, 0, kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int)
}

// Between commands no key is being added: a line reads a value without an expiry like any other, and the server is not
// asked for a copy.
func TestALineReadsAKeyWithoutAnExpiryItself(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		s := neighbour.Start(t, opts...)
		c, w := s.Raw(), s.Raw()
		kit.MustDoAll(t, c, "CL.LIMIT k WINDOW 3/1h TAKE 3", "CL.LIMIT other WINDOW 3/1h")
		kit.Send(t, w, "CL.WAIT k WINDOW 3/1h TIMEOUT 1m")
		kit.AwaitField(t, c, "waiting", 1)
		kit.MustDoAll(t, c, "NEIGHBOUR.BEFORE GET COPY other k REPLACE", "NEIGHBOUR.SKIP 1") // the script reads a copy
		v, err := c.Do("EVAL", "redis.call('CL.REFUND', 'k', 'WINDOW', '3/1h', 'TAKE', '1') return redis.call('PERSIST', 'k')", "0")
		require.NoError(t, err)
		require.EqualValues(t, 1, v.Int, "%v", v)
		assert.True(t, kit.IsLetThrough(kit.ReceiveSoon(t, w)))
		assert.EqualValues(t, 0, kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int)
		kit.Do(t, c, "NEIGHBOUR.DO")
		assert.EqualValues(t, 0, kit.Do(t, c, "CL.PEEK k WINDOW 3/1h COMPACT").Elems[3].Int)
	})
}

// A caller may be unblocked by another module in the middle of a command that adds its key. The server answers it
// afterwards, so nothing may run that could cut it off: the value is not looked at.
func TestACallerOfAKeyThatMayBeUnfinishedIsUnblocked(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		s := neighbour.Start(t, opts...)
		c, w := s.Raw(), s.Raw()
		id := kit.Do(t, w, "CLIENT ID").Int
		for _, wait := range []string{"CL.WAIT k WINDOW 1/1h TIMEOUT 2h", "CL.WAIT k RATE 1/1h TIMEOUT 2h"} {
			for _, how := range []string{"", " TIMEOUT", " ERROR"} {
				kit.MustDoAll(t, c, "FLUSHALL", strings.Replace(strings.Split(wait, " TIMEOUT")[0], "WAIT", "LIMIT", 1))
				kit.Send(t, w, wait)
				kit.AwaitField(t, c, "waiting", 1)
				errors := s.InfoInt("throttle", "throttle_errors_argument")
				kit.MustDoAll(t, c, "PERSIST k", fmt.Sprintf("NEIGHBOUR.BEFORE GET CLIENT KILL ID %d", id), fmt.Sprintf("CLIENT UNBLOCK %d%s", id, how))
				assert.Equal(t, "UNBLOCKED client unblocked via CLIENT UNBLOCK", kit.ReceiveSoon(t, w).Text, "%s%s", wait, how)
				assert.EqualValues(t, 0, kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int, "%s%s", wait, how)
				kit.Do(t, c, "NEIGHBOUR.DO")
				assert.Equal(t, errors, s.InfoInt("throttle", "throttle_errors_argument"), "%s%s", wait, how)
			}
		}
	})
}

// While writes are paused, the module may have the server run what changes nothing: count lapsed leases, read a value,
// disconnect a client. Redis 6.2 ends itself if it is made to replicate anything then.
func TestAServerThatIsPausedIsOnlyAsked(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Config("appendonly yes"))
	if !s.Program.AtLeast(6, 2) {
		t.Skip("CLIENT PAUSE has modes since Redis 6.2")
	}
	c, w := s.Raw(), s.Raw()
	kit.MustDoAll(t, c, "ZADD k 2100000000000 held"+lapsedMembers(0, 20), "ZADD free 2100000000000 held")
	kit.Send(t, w, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 500ms")
	kit.AwaitField(t, c, "leases_waiting", 1)
	kit.MustDoAll(t, c, "CLIENT PAUSE 60000 WRITE", "CL.LEASES k", "CL.PEEK other RATE 1/1h")
	assert.False(t, kit.IsLetThrough(kit.ReceiveSoon(t, w)))
	require.Eventually(t, func() bool { return !kit.Do(t, c, "MODULE UNLOAD throttle").IsError() }, kit.Patience, kit.Tick) // once its last timer has fired
	kit.MustDoAll(t, c, "CLIENT UNPAUSE", "SET k text")
}
