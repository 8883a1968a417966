package functions_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/functions"
	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/spec"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// fcall is a call of the function that does what a command does.
func fcall(line string) []string { return kit.AsFunction(strings.Fields(line)) }

// start starts a server that has the functions and no module.
func start(t *testing.T, opts ...server.Option) *server.Server {
	t.Helper()
	server.NeedsServer(t, "functions")
	s := server.Start(t, append(opts, server.WithoutModule())...)
	kit.LoadFunctions(t, s)
	return s
}

// A lease of a function is sent in as many words as one of the module: a transaction only where the key has to live
// longer.
func TestFunctionsReplicateLeasesAsTheModuleDoes(t *testing.T) {
	t.Parallel()
	sent := func(s *server.Server, call func(words []string) []string) (all []string) {
		stream := s.Stream()
		for _, line := range []string{
			"CL.LEASE l SLOTS 3 TTL 30m ID x", "CL.LEASE l SLOTS 3 TTL 10m ID y", "CL.RENEW l TTL 11m ID y", "CL.RENEW l TTL 90m ID y", "CL.LEASE l SLOTS 3 TTL 1m ID z",
			"CL.RELEASE l ID x",
		} {
			s.MustDo(call(strings.Fields(line))...)
			for _, command := range stream.Drain() {
				all = append(all, strings.Join(command, " "))
			}
			all = append(all, "after "+line)
		}
		for i := range all {
			all[i] = regexp.MustCompile(`[0-9]{13}`).ReplaceAllString(all[i], "ms")
		}
		return all
	}
	byFunctions := sent(start(t), kit.AsFunction)
	assert.Equal(t, sent(server.Start(t), func(words []string) []string { return words }), byFunctions)
	assert.Contains(t, byFunctions, "ZADD l ms z")
}

// Replicas and the append-only file get what a server without the library understands, and a server that replays it
// holds the same bytes.
func TestFunctionsLeaveEffectsOnly(t *testing.T) {
	t.Parallel()
	r := chance.New(t)
	s := start(t, server.AppendOnly("always"))
	replica := server.Start(t, server.ReplicaOf(s), server.WithoutModule())
	topology.AwaitReplicas(t, s, replica)
	stream := s.Stream()
	plain := server.Start(t, server.WithoutModule())
	c, other := s.Raw(), plain.Raw()
	keys := []string{"{k}a", "{k}b", "{k}c", "{k}leases"}
	for range size.Of(300, 3000) {
		line := calls[r.IntN(len(calls)-2)]
		if r.IntN(3) == 0 {
			line = []string{
				"CL.LEASE {k}leases SLOTS 5 TTL %dms ID id%d", "CL.RENEW {k}leases TTL %dms ID id%d", "CL.MLIMIT 2 k {k}leases WINDOW 100/%dms NEXT SLOTS 5 TTL 1m ID id%d",
				"CL.SETTLE 2 k {k}leases WINDOW 100/%dms TAKE 2 USED 1 NEXT SLOTS ID id%d",
			}[r.IntN(4)]
			line = fmt.Sprintf(line, 1+r.IntN(2000), r.IntN(9))
		}
		words := strings.Fields(line)
		for i := range words {
			if words[i] == "k" || words[i] == "l" {
				words[i] = keys[(r.IntN(2)+strings.Index("kl", words[i]))%3]
			}
		}
		if words[0] == "CL.MLIMIT" || words[0] == "CL.SETTLE" {
			words[3] = map[bool]string{true: "{k}leases", false: "{k}c"}[words[3] == "{k}leases"]
		}
		_, err := c.Do(kit.AsFunction(words)...)
		require.NoError(t, err)
	}
	names := map[string]int{}
	for _, command := range stream.Drain() {
		name := strings.ToUpper(command[0])
		names[name]++
		if name != "FUNCTION" {
			v, err := other.Do(command...)
			require.NoError(t, err)
			require.False(t, v.IsError(), "%q answers %v", command, v)
		}
	}
	for name := range names {
		assert.Contains(t, []string{"SET", "DEL", "UNLINK", "ZADD", "ZREM", "PEXPIREAT", "MULTI", "EXEC"}, name, "%v", names)
	}
	for _, name := range []string{"SET", "ZADD", "PEXPIREAT", "MULTI"} {
		assert.Positive(t, names[name], "%s never came", name)
	}
	topology.AwaitReplicas(t, s, replica)
	for _, command := range s.AOF() {
		assert.NotContains(t, strings.ToUpper(command[0]), "CALL")
	}
	for _, key := range keys {
		for _, on := range []*server.Server{replica, plain} {
			looks := [][]string{{"DUMP", key}, {"PEXPIRETIME", key}}
			if on == plain && key == "{k}leases" {
				// What was sent came late there: a set whose leases have all lapsed by then is deleted, and what comes
				// next begins anew.
				now := strconv.FormatInt(time.Now().UnixMilli(), 10)
				looks[0] = []string{"ZRANGE", key, now, "+inf", "BYSCORE", "WITHSCORES"}
			}
			for _, look := range looks {
				// A key may expire between the two looks.
				same := func() bool { return s.MustDo(look...).String() == on.MustDo(look...).String() }
				require.Eventually(t, same, 10*time.Second, time.Millisecond, "%s", look)
			}
		}
	}
}

// Functions that only look work on a replica.
func TestFunctionsThatLookWorkOnAReplica(t *testing.T) {
	t.Parallel()
	s := start(t)
	replica := server.Start(t, server.ReplicaOf(s), server.WithoutModule())
	s.MustDo(fcall("CL.LIMIT k RATE 10/h COST 4")...)
	s.MustDo(fcall("CL.LEASE jobs SLOTS 3 TTL 1h ID a")...)
	topology.AwaitReplicas(t, s, replica)
	assert.EqualValues(t, 6, replica.MustDo(fcall("CL.PEEK k RATE 10/h COMPACT")...).Elems[3].Int)
	assert.EqualValues(t, 1, replica.MustDo(fcall("CL.LEASES jobs")...).Elems[1].Int)
	assert.Equal(t, "rate", replica.MustDo(fcall("CL.INSPECT k")...).Elems[1].Text)
	assert.Contains(t, replica.Do(fcall("CL.LIMIT k RATE 10/h")...).Text, "READONLY")
	sha := replica.MustDo("SCRIPT", "LOAD", kit.Script(t)).Text
	assert.EqualValues(t, 6, replica.MustDo(kit.AsScript(sha, strings.Fields("CL.PEEK k RATE 10/h COMPACT"))...).Elems[3].Int)
}

// A function is not told the protocol, so a client of RESP3 gets the same arrays as one of RESP2. Maps would lose their
// order on the way.
func TestFunctionsAnswerAlikeInBothProtocols(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	s := clock.New(t, spec.Start.UnixNano()).Start(server.WithoutModule()) // which stands still
	kit.LoadFunctions(t, s)
	s.MustDo(fcall("CL.LEASE jobs SLOTS 3 TTL 1h ID a")...)
	three := s.Raw()
	_, err := three.Do("HELLO", "3")
	require.NoError(t, err)
	for _, line := range []string{
		"CL.THROTTLE t 9 10 3600 0", "CL.LIMIT k FIXED 10/d COST 0", "CL.LIMIT k FIXED 10/d COST 0 EACH COMPACT", "CL.PEEK k RATE 10/h EACH",
		"CL.MLIMIT 2 k l FIXED 10/d COST 0", "CL.LEASES jobs", "CL.LEASES nobody", "CL.INSPECT t", "CL.INSPECT k", "CL.INSPECT jobs", "CL.LIMIT k RATE 0/s COMPACT",
	} {
		two := s.MustDo(fcall(line)...)
		v, err := three.Do(fcall(line)...)
		require.NoError(t, err)
		assert.Equal(t, two, v, line)
		assert.Equal(t, resp.Array, v.Kind, line)
	}
}

// A user needs FCALL, and the commands that functions call, on the keys: not @admin, nor @dangerous.
func TestAUserWithoutAdminCallsFunctions(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.MustDo("ACL", "SETUSER", "app", "on", ">pass", "~app:*", "-@all", "+fcall", "+fcall_ro", "+time", "+get", "+set", "+del", "+pexpiretime",
		"+zadd", "+zrem", "+zcard", "+zcount", "+zrange", "+zscore", "+pexpireat")
	s.MustDo("ACL", "SETUSER", "managed", "on", ">pass", "~app:*", "+@all", "-@admin", "-@dangerous")
	for _, user := range []string{"app", "managed"} {
		c := s.Raw()
		kit.MustDoAll(t, c, "AUTH "+user+" pass")
		for _, line := range append(slices.Clone(calls), "CL.RENEW k ID a TTL 1m", "CL.RELEASE k ID a", "CL.MLIMIT 2 k l RATE 60/1h NEXT SLOTS 2 TTL 1m ID a", "CL.LIMIT k FIXED 5/1d BAN 1m", "CL.LIMIT k FIXED 5/1d COST 9 BAN 1m") {
			s.MustDo("DEL", "app:{k}k", "app:{k}l")
			words := strings.Fields(line)
			for i := range words {
				if words[i] == "k" || words[i] == "l" {
					words[i] = "app:{k}" + words[i]
				}
			}
			v, err := c.Do(kit.AsFunction(words)...)
			require.NoError(t, err)
			assert.False(t, v.IsError(), "%s: %q: %v", user, words, v)
		}
		v, err := c.Do(fcall("CL.LIMIT other RATE 5/s")...)
		require.NoError(t, err)
		assert.Contains(t, v.Text, "NOPERM")
	}
}

// A right that lacks is told by the name of the command, and a call that writes several things writes none of them
// without it.
func TestARightThatLacksIsNamedAndLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	s := start(t)
	for right, line := range map[string]string{
		"get": "CL.LIMIT k RATE 5/s", "zcard": "CL.LEASE k SLOTS 1 TTL 1m ID a", "pexpireat": "CL.LEASE k SLOTS 1 TTL 1m ID a",
		"zadd": "CL.MLIMIT 2 k l RATE 5/h NEXT SLOTS 2 TTL 1m ID a", "set": "CL.MLIMIT 2 l k SLOTS 2 TTL 1m NEXT RATE 5/h ID a",
	} {
		s.MustDo("ACL", "SETUSER", "app", "reset", "on", ">pass", "~*", "+@all", "-"+right)
		c := s.Raw()
		kit.MustDoAll(t, c, "AUTH app pass")
		v, err := c.Do(fcall(line)...)
		require.NoError(t, err)
		assert.True(t, v.IsError(), right)
		assert.Contains(t, v.Text, right, "%s: %s", right, line)
		assert.NotContains(t, v.Text, "WRONGTYPE", right)
		assert.EqualValues(t, 0, s.MustDo("EXISTS", "k", "l").Int, right)
	}
	for _, right := range []string{"set", "pexpiretime", "zrem", "pexpireat", "del"} { // of a call that ends a lease
		s.MustDo("DEL", "k", "l")
		s.MustDo(fcall("CL.MLIMIT 2 k l RATE 5/h COST 2 NEXT SLOTS 2 TTL 1m ID a")...)
		held := fmt.Sprint(s.MustDo("DUMP", "k"), s.MustDo("DUMP", "l"))
		s.MustDo("ACL", "SETUSER", "app", "reset", "on", ">pass", "~*", "+@all", "-"+right)
		c := s.Raw()
		kit.MustDoAll(t, c, "AUTH app pass")
		v, err := c.Do(fcall("CL.SETTLE 2 k l RATE 5/h TAKE 2 USED 1 NEXT SLOTS ID a")...)
		require.NoError(t, err)
		assert.Contains(t, v.Text, "'"+right+"'")
		assert.Equal(t, held, fmt.Sprint(s.MustDo("DUMP", "k"), s.MustDo("DUMP", "l")), right)
	}
}

// What the server says keeps its code in front, by which clients tell that it is no master any more. A plain error of
// Lua puts ERR there.
func TestCodesOfTheServerStayInFront(t *testing.T) {
	t.Parallel()
	s := start(t)
	script := functions.Script()
	both := func(code string) {
		t.Helper()
		for _, words := range [][]string{
			fcall("CL.LIMIT k RATE 5/s"), fcall("CL.LIMIT k RATE 5/s"), fcall("CL.LIMIT k WINDOW 5/s"), fcall("CL.LIMIT k WINDOW 5/s"), fcall("CL.LIMIT k WINDOW 5/s FIXED 5/s"),
			{"EVAL", script, "1", "k", "cl_limit", "RATE", "5/s"}, fcall("CL.LEASE l SLOTS 1 TTL 1m ID a"),
		} {
			v := s.Do(words...)
			assert.True(t, v.IsError(), words[0])
			assert.True(t, strings.HasPrefix(v.Text, code+" "), "%s: %s", words[0], v.Text)
		}
	}
	s.MustDo("CONFIG", "SET", "min-replicas-to-write", "1")
	both("NOREPLICAS")
	s.MustDo("CONFIG", "SET", "min-replicas-to-write", "0")
	s.MustDo("CONFIG", "SET", "maxmemory", "1")
	both("OOM")
	s.MustDo("CONFIG", "SET", "maxmemory", "0")
	s.MustDo("REPLICAOF", "127.0.0.1", "1")
	both("READONLY")
}

// A word of the grammar that the library does not decide by is refused, and not taken for another one or for nothing.
func TestTheLibraryRefusesWordsThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	later := strings.NewReplacer("kinds = { 'RATE', 'WINDOW', 'FIXED' }", "kinds = { 'RATE', 'WINDOW', 'FIXED', 'BUCKET' }",
		"options = { 'COST', 'UPTO'", "options = { 'GENTLY', 'COST', 'UPTO'", "terms = { 'TAKE', 'SPARE', 'SHADOW' }", "terms = { 'TAKE', 'SPARE', 'SHADOW', 'SOFTLY' }",
		"\n  FIRST = {", "\n  BUCKET = { name = 'BUCKET', value = 'quota', right = '', has_unit = true, excluded = {}, owned = {} },\n"+
			"  GENTLY = { name = 'GENTLY', excluded = {}, owned = {} },\n  SOFTLY = { name = 'SOFTLY', excluded = {}, owned = {} },\n  FIRST = {").Replace(functions.Library)
	require.NotEqual(t, functions.Library, later)
	s := server.Start(t, server.WithoutModule())
	s.MustDo("FUNCTION", "LOAD", later)
	for _, line := range []string{"CL.LIMIT k RATE 5/s GENTLY", "CL.LIMIT k BUCKET 5/s", "CL.LIMIT k RATE 5/s SOFTLY"} {
		assert.Contains(t, s.Do(fcall(line)...).Text, "needs the module", line)
	}
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "k").Int)
	assert.False(t, s.Do(fcall("CL.LIMIT k RATE 5/s")...).IsError())
}

// A server before 7.0, whose scripts know no version, is refused before anything is charged.
func TestTheScriptRefusesAServerThatIsTooOld(t *testing.T) {
	t.Parallel()
	s := start(t)
	old := "local server = redis\nlocal redis = setmetatable({}, { __index = function(_, name) return name ~= 'REDIS_VERSION_NUM' and server[name] or nil end })\n"
	v := s.Do("EVAL", old+functions.Script(), "2", "y", "z", "cl_mlimit", "RATE", "5/s")
	assert.Contains(t, v.Text, "needs Redis 7.0 or Valkey 7.2, or later")
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "y", "z").Int)
}

// On a cluster the keys of a call share a slot, as those of any call.
func TestFunctionsKeepToASlotOfACluster(t *testing.T) {
	t.Parallel()
	s := start(t, server.Cluster())
	s.MustDo("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	require.Eventually(t, func() bool { return strings.Contains(s.MustDo("CLUSTER", "INFO").Text, "cluster_state:ok") }, time.Minute, time.Millisecond)
	assert.False(t, s.Do(fcall("CL.MLIMIT 2 {a}x {a}y RATE 5/s NEXT WINDOW 5/m")...).IsError())
	assert.Contains(t, s.Do(fcall("CL.MLIMIT 2 {a}x {b}y RATE 5/s")...).Text, "CROSSSLOT")
}

// What words mean is remembered, and the memory for it is bounded: also for calls of eight limits that nobody has named
// before.
func TestFunctionsRememberABoundedNumberOfWords(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.Raw()
	var most int64
	calls := chance.Calls(t, "WORDS_CALLS", size.Of(4000, 40_000))
	for i := range calls {
		words := []string{"CL.LIMIT", fmt.Sprint("k", i%64)}
		for n := range 8 {
			words = append(words, "FIXED", fmt.Sprintf("%d/%dms", 1+i%997+1000*n, 100_000+i/997))
		}
		_, err := c.Do(kit.AsFunction(append(words, "COMPACT"))...)
		require.NoError(t, err)
		if i%1000 == 999 {
			most = max(most, s.InfoInt("memory", "used_memory_vm_functions"))
		}
	}
	t.Logf("%d calls: %d bytes at most", calls, most)
	assert.Less(t, most, int64(32<<20))
}

// The library that a server has is one of a version, and it says so.
func TestTheLibrarySaysItsVersion(t *testing.T) {
	t.Parallel()
	s := start(t)
	v := s.MustDo("FCALL_RO", "cl_version", "0")
	require.Equal(t, resp.Integer, v.Kind)
	assert.EqualValues(t, functions.Version(), v.Int)
	for _, name := range []string{"cl_wait", "cl_top"} {
		assert.Contains(t, s.Do("FCALL", name, "0").Text, "needs the module")
	}
	assert.Contains(t, s.Do("FCALL", "cl_limit", "2", "a", "b", "RATE", "5/s").Text, "cl_limit takes one key")
	assert.Contains(t, s.Do("EVAL", kit.Script(t), "1", "k", "cl_what").Text, "unknown function 'cl_what'")
}

// A list of leases is bounded, because it holds up the server: a longer one is refused, however many it asks for of a
// few.
func TestFunctionsListABoundedNumberOfLeases(t *testing.T) {
	t.Parallel()
	s := start(t)
	fill := `for i = 1, tonumber(ARGV[1]) do redis.call('ZADD', KEYS[1], tonumber(ARGV[2]) + i, 'holder' .. i) end`
	at := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	s.MustDo("EVAL", fill, "1", "jobs", "10000", at)
	assert.Len(t, s.MustDo(fcall("CL.LEASES jobs COUNT 9000000000000")...).Elems[5].Elems, 10_000)
	s.MustDo("ZADD", "jobs", at, "another")
	assert.Len(t, s.MustDo(fcall("CL.LEASES jobs COUNT 10000")...).Elems[5].Elems, 10_000)
	assert.Contains(t, s.Do(fcall("CL.LEASES jobs COUNT 10001")...).Text, "to list more than 10000 leases needs the module")
}

// Over maxmemory a call that gives back or renews is made at every door, and one that makes a value longer at none.
func TestAllDoorsKeepToMaxmemoryAlike(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	s := server.Start(t)
	kit.LoadFunctions(t, s)
	sha := s.MustDo("SCRIPT", "LOAD", kit.Script(t)).Text
	doors := map[string]func([]string) []string{
		"module": func(words []string) []string { return words }, "function": kit.AsFunction,
		"script": func(words []string) []string { return kit.AsScript(sha, words) },
	}
	before := []string{"CL.LIMIT k FIXED 900/365d COST 127", "CL.LIMIT w WINDOW 900/365d COST 2", "CL.MLIMIT 2 u jobs FIXED 900/365d COST 100 NEXT SLOTS 9 TTL 1d ID a", "CL.LEASE jobs SLOTS 9 TTL 1d ID b"}
	for line, want := range map[string]string{
		"CL.REFUND k FIXED 900/365d COST 1 COMPACT": "0", "CL.REFUND w WINDOW 900/365d COST 1 COMPACT": "0", "CL.RENEW jobs ID a TTL 2d COMPACT": "0", "CL.RENEW jobs ID c TTL 2d COMPACT": "1", "CL.RELEASE jobs ID b": "1",
		"CL.SETTLE 2 u jobs FIXED 900/365d TAKE 100 USED 30 NEXT SLOTS ID a COMPACT": "1", "CL.SETTLE 1 jobs SLOTS ID a COMPACT": "1",
		"CL.SETTLE 2 u jobs FIXED 900/365d TAKE 100 USED 300 NEXT SLOTS ID a COMPACT": "OOM", "CL.SETTLE 2 new jobs FIXED 900/365d TAKE 0 USED 3 NEXT SLOTS ID a COMPACT": "OOM",
		"CL.LIMIT k FIXED 900/365d COMPACT": "OOM", "CL.LEASE jobs SLOTS 9 TTL 1d ID c COMPACT": "OOM",
	} {
		for door, as := range doors {
			s.MustDo("FLUSHALL")
			for _, words := range before {
				s.MustDo(strings.Fields(words)...)
			}
			held := func() string {
				return fmt.Sprint(s.MustDo("GET", "k"), s.MustDo("GET", "w"), s.MustDo("GET", "u"), s.MustDo("ZRANGE", "jobs", "0", "-1", "WITHSCORES"))
			}
			was := held()
			s.MustDo("CONFIG", "SET", "maxmemory", "1")
			v := s.Do(as(strings.Fields(line))...)
			s.MustDo("CONFIG", "SET", "maxmemory", "0")
			got := v.Text
			if v.Kind == resp.Integer {
				got = fmt.Sprint(v.Int)
			} else if v.Kind == resp.Array {
				got = fmt.Sprint(v.Elems[0].Int)
			}
			code, _, _ := strings.Cut(got, " ")
			assert.Equal(t, want, code, "%s by %s: %v", line, door, v)
			if want == "OOM" || strings.Contains(line, "RENEW jobs ID c") {
				assert.Equal(t, was, held(), "%s by %s", line, door)
			} else {
				assert.NotEqual(t, was, held(), "%s by %s", line, door)
			}
		}
	}
}
