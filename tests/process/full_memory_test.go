package process_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Calls of every command, on each of the keys below. CL.PROBE and CL.PROBEMEMBERS are the test build's.
var callsOverMaxmemory = map[string][]string{
	"cl.ban":     {"CL.BAN %s 1h", "CL.BAN %s 0"},
	"cl.denied":  {"CL.DENIED %s 3"},
	"cl.lease":   {"CL.LEASE %s SLOTS 5 TTL 1d ID a", "CL.LEASE %s SLOTS 5 TTL 1d ID new"},
	"cl.inspect": {"CL.INSPECT %s"},
	"cl.leases":  {"CL.LEASES %s"},
	"cl.limit":   {"CL.LIMIT %s RATE 5/d", "CL.LIMIT %s RATE 5/d COST 0"},
	"cl.mlimit":  {"CL.MLIMIT 1 %s RATE 5/d", "CL.MLIMIT 1 %s RATE 5/d COST 0"},
	"cl.peek":    {"CL.PEEK %s RATE 5/d", "CL.PEEK %s WINDOW 5/d"},
	"cl.probe":   {"CL.PROBE 1 %s v", "CL.PROBE 3 a:plain %s b:plain longer-than-most-of-the-values-of-a-limiter", "CL.PROBE 2 a:plain %s -", "CL.PROBE 2 %s new v"},
	"cl.refund":  refundsOverMaxmemory(),
	"cl.release": {"CL.RELEASE %s ID a", "CL.RELEASE %s ID new"},
	"cl.renew":   {"CL.RENEW %s ID b TTL 2d", "CL.RENEW %s ID new TTL 2d"},
	"cl.settle": append(settlementsThatGiveBack(), "CL.SETTLE 1 %s SLOTS ID a", "CL.SETTLE 2 %s c:leases RATE 5/d WINDOW 5/d TAKE 1 USED 3 NEXT SLOTS ID a",
		"CL.SETTLE 2 c:leases %s SLOTS NEXT RATE 5/d TAKE 1 USED 3 ID nobody"),
	"cl.throttle": {"CL.THROTTLE %s 4 5 1d", "CL.THROTTLE %s 4 5 1d 0"},
	"cl.top":      {"CL.TOP"},
	"cl.wait":     {"CL.WAIT %s RATE 5/d TIMEOUT 1ms", "CL.WAIT %s FIXED 5/d TIMEOUT 1ms"},

	"cl.probemembers": {"CL.PROBEMEMBERS %s 4000000000000 0 MEMBERS a", "CL.PROBEMEMBERS %s 4000000000000 0 MEMBERS new", "CL.PROBEMEMBERS %s 0 0 MEMBERS a"},
}

func refundsOverMaxmemory() (calls []string) {
	for _, limits := range []string{"RATE 5/d", "WINDOW 5/d", "FIXED 5/d", "RATE 5/d WINDOW 5/d FIXED 5/d", "RATE 5/d RATE 6/2d", "FIXED 7/d RATE 5/d"} {
		for _, cost := range []string{"", " COST 0", " COST 3", " COST 99"} {
			calls = append(calls, "CL.REFUND %s "+limits+cost)
		}
	}
	return calls
}

func settlementsThatGiveBack() (calls []string) {
	const less = " TAKE 3 USED 1 "
	for _, limits := range []string{"RATE 5/d" + less, "RATE 5/d" + less + "WINDOW 5/d" + less + "FIXED 5/d" + less, "RATE 5/d RATE 6/2d" + less, "FIXED 7/d" + less + "RATE 5/d" + less, "WINDOW 9/h" + less + "RATE 5/d"} {
		calls = append(calls, "CL.SETTLE 2 %s c:leases "+limits+" NEXT SLOTS ID a")
	}
	return calls
}

// Keys of all kinds, and the calls that make them.
var keysOverMaxmemory = map[string][]string{
	"new":          nil,
	"tat":          {"CL.THROTTLE tat 4 5 1d"},
	"rate":         {"CL.LIMIT rate RATE 5/d"},
	"several":      {"CL.LIMIT several RATE 5/d WINDOW 5/d FIXED 5/d"},
	"window":       {"CL.LIMIT window WINDOW 5/d"},
	"fixed":        {"CL.LIMIT fixed FIXED 7/d RATE 5/d"},
	"banned":       {"CL.LIMIT banned RATE 5/d", "CL.BAN banned 1h"},
	"ban":          {"CL.BAN ban 1h"},
	"debt":         {"CL.LIMIT debt RATE 5/d COST 9 FORCE"},
	"reserved":     {"CL.LIMIT reserved RATE 5/d COST 5", "CL.LIMIT reserved RATE 5/d MAXWAIT 30d"},
	"joined":       {"CL.MLIMIT 2 joined b:plain RATE 5/d COST 5", "CL.MLIMIT 2 joined b:plain RATE 5/d COST 2 MAXWAIT 30d"},
	"lifted":       {"CL.LIMIT lifted RATE 5/d RATE 1/d COST 1", "CL.LIMIT lifted RATE 5/d RATE 1/d MAXWAIT 30d"},
	"leases":       {"CL.LEASE leases SLOTS 5 TTL 1d ID a", "CL.LEASE leases SLOTS 5 TTL 1d ID b"},
	"tat:plain":    {"SET tat:plain 1700000000000000000"},
	"leases:plain": {"ZADD leases:plain 4000000000000 a 4000000000000 b"},
}

// fullServer is a server whose memory is filled, and freed, at will.
type fullServer struct {
	kit.Watched
	t *testing.T
}

func (f fullServer) memoryIs(full bool) {
	f.t.Helper()
	most := "0"
	if full {
		most = "1"
	}
	require.False(f.t, f.Call(f.t, "CONFIG", "SET", "maxmemory", most).IsError())
}

// pipeline sends commands in one piece.
func (f fullServer) pipeline(commands ...string) []resp.Value {
	f.t.Helper()
	var words [][]string
	for _, command := range commands {
		words = append(words, strings.Fields(command))
	}
	replies, err := f.Conn.Pipeline(words...)
	require.NoError(f.t, err)
	return replies
}

// hold makes a key, and nothing else of the limiter's.
func (f fullServer) hold(key string) {
	f.t.Helper()
	f.pipeline(append([]string{"FLUSHALL", "SET a:plain v EX 9999", "SET b:plain 1700000000000000000", "ZADD c:leases 4000000000000 a 4000000000000 b"}, keysOverMaxmemory[key]...)...)
}

// lengths has the lengths of a key and of those beside it: -1 of one that is not there.
func (f fullServer) lengths(key string) (lengths []int64) {
	f.t.Helper()
	for _, name := range []string{key, "a:plain", "b:plain", "c:leases", "new"} {
		replies := f.pipeline("EXISTS "+name, "STRLEN "+name, "ZCARD "+name)
		length := replies[1].Int + replies[2].Int // of which one is an error
		if replies[0].Int == 0 {
			length = -1
		}
		lengths = append(lengths, length)
	}
	return lengths
}

func anyLonger(before, after []int64) bool {
	for i := range after {
		if after[i] > before[i] {
			return true
		}
	}
	return false
}

// Nobody fills a server through this module: over maxmemory no call adds a key or makes one longer. The server refuses
// all calls of some commands. Of the others exactly those are refused which would grow a key, with the server's error,
// and they leave no trace.
func TestNoCommandGrowsAKeyOverMaxmemory(t *testing.T) {
	t.Parallel()
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	f := fullServer{kit.StartWatched(t, server.Module(path), server.ModuleArgs("top", "10"), server.Config("loglevel warning")), t}
	if !f.Program.AtLeast(7, 0) {
		t.Skip("an older server does not list a module's commands")
	}
	var names []string
	for name := range callsOverMaxmemory {
		names = append(names, name)
	}
	require.ElementsMatch(t, names, kit.TextsOf(f.Call(t, "COMMAND", "LIST", "FILTERBY", "MODULE", "throttle")), "every command is in the table")

	refusedHere, givingBack := map[string]int{}, settlementsThatGiveBack()
	for name, calls := range callsOverMaxmemory {
		byServer := strings.Contains(fmt.Sprint(f.Call(t, "COMMAND", "INFO", name)), "denyoom")
		for _, of := range calls {
			for key := range keysOverMaxmemory {
				call := strings.ReplaceAll(of, "%s", key)
				grows := false
				if !byServer {
					f.hold(key)
					before := f.lengths(key)
					f.Call(t, strings.Fields(call)...)
					grows = anyLonger(before, f.lengths(key))
				}

				f.hold(key)
				before := f.lengths(key)
				f.memoryIs(true)
				without := f.Traces(t, key)
				errors := f.InfoInt("throttle", "throttle_errors_argument")
				v := f.Call(t, strings.Fields(call)...)
				require.Equal(t, byServer || grows, strings.HasPrefix(v.Text, "OOM "), "%s on %s: %v", call, key, v)
				if byServer || grows {
					assert.Equal(t, without, f.Traces(t, key), "%s on %s changes nothing", call, key)
					assert.Equal(t, f.Call(t, "SET", "any", "v").Text, v.Text, "the server's error")
					assert.Equal(t, errors, f.InfoInt("throttle", "throttle_errors_argument"), "no argument is wrong")
				}
				assert.False(t, anyLonger(before, f.lengths(key)), "%s on %s", call, key)
				f.memoryIs(false)
				if grows && !byServer {
					refusedHere[name]++
					assert.NotContains(t, givingBack, of, "on %s: what gives units back makes no value longer", key)
				}
			}
		}
	}
	for _, name := range []string{"cl.probe", "cl.probemembers", "cl.settle"} {
		assert.Positive(t, refusedHere[name], "%s has calls that grow a key", name)
	}
	assert.Zero(t, refusedHere["cl.refund"], "it makes no value longer")
}

// A transaction or a script goes by the memory at its start, as with the server's own commands. A call of another
// module is refused too.
func TestCallsThatGrowAKeyAreRefusedWhereverTheyComeFrom(t *testing.T) {
	t.Parallel()
	grows := "CL.PROBE 1 debt " + strings.Repeat("longer", 20)
	script := "redis.pcall('" + strings.ReplaceAll(grows, " ", "','") + "')"
	s := neighbour.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("an older server does not tell what it saw at the start")
	}
	f := fullServer{kit.Watched{Server: s, Conn: s.Raw(), Stream: nil}, t}
	other := s.Raw()
	eval := func(script string) resp.Value { return f.Call(t, "EVAL", script, "0") }
	isOOM := func(v resp.Value) bool { return strings.HasPrefix(v.Text, "OOM ") }
	const size = 8 << 20
	fill := fmt.Sprintf("SETRANGE big %d x", size)
	roomForHalf := func() {
		t.Helper()
		require.False(t, f.Call(t, "CONFIG", "SET", "maxmemory", fmt.Sprint(s.InfoInt("memory", "used_memory")+size/2)).IsError())
	}
	hold := func() {
		t.Helper()
		f.memoryIs(false)
		neighbour.Do(t, s, "")
		f.hold("debt")
	}

	t.Run("a transaction that begins over maxmemory", func(t *testing.T) {
		hold()
		kit.MustDoAll(t, f.Conn, "MULTI", "CL.REFUND debt RATE 5/d COST 0", grows, "CL.REFUND debt RATE 5/d COST 0")
		kit.Do(t, other, "CONFIG SET maxmemory 1")
		replies := f.Call(t, "EXEC").Elems
		require.Len(t, replies, 3)
		assert.Equal(t, []bool{false, true, false}, []bool{isOOM(replies[0]), isOOM(replies[1]), isOOM(replies[2])})
	})
	t.Run("a transaction that fills the memory", func(t *testing.T) {
		hold()
		roomForHalf()
		kit.MustDoAll(t, f.Conn, "MULTI", fill, grows)
		replies := f.Call(t, "EXEC").Elems
		require.Len(t, replies, 2)
		assert.False(t, replies[1].IsError(), "%v", replies[1])
		assert.True(t, isOOM(f.Call(t, "SET", "other", "v")), "the memory is full")
	})
	t.Run("a script that begins over maxmemory", func(t *testing.T) {
		hold()
		f.memoryIs(true)
		assert.True(t, isOOM(eval("return "+script)))
		assert.True(t, isOOM(eval("redis.call('DEL', 'a:plain'); return "+script)), "after a write of the script's")
		assert.False(t, eval("return redis.call('CL.REFUND', 'debt', 'RATE', '5/d', 'COST', 0)").IsError())
	})
	t.Run("a script that fills the memory", func(t *testing.T) {
		hold()
		roomForHalf()
		v := eval("redis.call('" + strings.ReplaceAll(fill, " ", "','") + "'); return " + script)
		assert.False(t, isOOM(v), "%v", v)
		assert.True(t, isOOM(f.Call(t, "SET", "other", "v")), "the memory is full")
	})
	t.Run("a call of another module", func(t *testing.T) {
		hold()
		neighbour.On(t, s, "del", "a:plain", grows)
		f.memoryIs(true)
		before := f.Traces(t, "debt").Dump
		assert.EqualValues(t, 1, f.Call(t, "DEL", "a:plain").Int)
		seen := s.MustDo("NEIGHBOUR.SEEN")
		assert.Positive(t, seen.Elems[0].Int)
		assert.True(t, isOOM(seen.Elems[1]), "%v", seen)
		assert.Equal(t, before, f.Traces(t, "debt").Dump)
	})
	f.memoryIs(false)
}

// A caller that leaves the line gives back what it had reserved. Those behind move up, and what is remembered of their
// reservations may need more room than before. Over maxmemory the slot lapses instead.
func TestGivingBackGrowsNoKeyOverMaxmemory(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		s := kit.StartCheckBuild(t)
		f := fullServer{kit.Watched{Server: s, Conn: s.Raw(), Stream: nil}, t}
		kit.MustDoAll(t, f.Conn, "CL.LIMIT k RATE 1/h RATE 2/2h BURST 1", "CL.LIMIT other RATE 1/h")
		var callers []*resp.Conn
		for i, limits := range []string{"RATE 1/h RATE 2/2h BURST 1 TAKE 0", "RATE 1/h TAKE 0 RATE 2/2h BURST 1", "RATE 1/h RATE 2/2h BURST 1"} {
			callers = append(callers, s.Raw())
			require.NoError(t, callers[i].Send(strings.Fields("CL.WAIT k "+limits+" TIMEOUT 9h")...))
			require.NoError(t, callers[i].Flush())
			kit.AwaitWaiting(t, f.Conn, i+1)
		}
		marker := s.Raw()
		require.NoError(t, marker.Send(strings.Fields("CL.WAIT other RATE 1/h TIMEOUT 9h")...))
		require.NoError(t, marker.Flush())
		kit.AwaitWaiting(t, f.Conn, 4)

		lengths := func() (k, other int64) { return f.Call(t, "STRLEN", "k").Int, f.Call(t, "STRLEN", "other").Int }
		before, beforeOther := lengths()
		f.memoryIs(full)
		require.NoError(t, callers[0].Close())
		kit.AwaitWaiting(t, f.Conn, 3)
		require.NoError(t, marker.Close())
		kit.AwaitWaiting(t, f.Conn, 2)
		require.Eventually(t, func() bool { _, other := lengths(); return other < beforeOther }, time.Minute, time.Millisecond,
			"the slot of the last that left is given back, even over maxmemory")
		after, _ := lengths()
		assert.Equal(t, full, after == before, "full: %v, %d bytes, then %d", full, before, after)
		assert.GreaterOrEqual(t, after, before)
		f.memoryIs(false)
	}
}

// A server that may evict keys makes room for a call before it runs it, of no more than some bytes. No call is refused
// there.
func TestCallsGrowKeysWhereOthersCanBeEvicted(t *testing.T) {
	t.Parallel()
	evicting := server.Config("maxmemory-policy allkeys-random")
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		requireGrowth(t, kit.StartCheckBuild(t, evicting))
	})
	t.Run("beside a module that leaves an errno", func(t *testing.T) {
		t.Parallel()
		s := neighbour.Start(t, evicting)
		kit.Do(t, s.Raw(), "NEIGHBOUR.ERRNO zadd %d", syscall.ENOSPC)
		requireGrowth(t, s)
	})
}

// requireGrowth makes calls that make room by evicting keys.
func requireGrowth(t *testing.T, s *server.Server) {
	t.Helper()
	if !s.Program.AtLeast(7, 0) {
		t.Skip("an older server does not tell that it has evicted")
	}
	c := s.Raw()
	var fill [][]string
	for i := range 20_000 {
		fill = append(fill, []string{"SET", fmt.Sprint("filler:", i), strings.Repeat("x", 50)})
	}
	_, err := c.Pipeline(fill...)
	require.NoError(t, err)
	kit.Do(t, c, "CONFIG SET maxmemory %d", s.InfoInt("memory", "used_memory")-100_000)
	for i := range 2000 {
		require.False(t, kit.Do(t, c, "CL.LIMIT key:%d RATE 5/d COST 2", i).IsError())
		v := kit.Do(t, c, "CL.PROBE 1 key:%d %s", i, strings.Repeat("longer", 10))
		require.False(t, v.IsError(), "%v", v)
	}
	assert.Greater(t, s.InfoInt("stats", "evicted_keys"), int64(2000))
}

// A call that makes no key longer runs over maxmemory, whatever keys a call before it has added. The module as it is
// shipped does not clear what it keeps of one call before the next.
func TestCallsOverMaxmemoryAreNotJudgedByThoseBefore(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	if s.Program.IsDev() {
		t.Skip("throttle-dev has no maxmemory")
	}
	f := fullServer{kit.Watched{Server: s, Conn: s.Raw(), Stream: nil}, t}
	for round := range 10 {
		for i := range 7 {
			keys, names := i+1, ""
			for name := range keys + 1 {
				names += fmt.Sprintf(" new:%d:%d:%d", round, keys, name)
			}
			kit.MustDoAll(t, f.Conn, "CL.LEASE leases SLOTS 1 TTL 1d ID a", fmt.Sprintf("CL.MLIMIT %d%s RATE 5/d", keys+1, names))
			f.memoryIs(true)
			kit.MustDoAll(t, f.Conn, "CL.SETTLE 1 leases SLOTS ID a")
			f.memoryIs(false)
		}
	}
}
