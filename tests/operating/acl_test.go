package operating_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// A user needs the command, and each key of the call: to write it, or to read it for what only reads.
func TestAUserNeedsTheCommandAndItsKeys(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("permissions to read or write keys since Redis 7.0")
	}
	for rules, calls := range map[string]struct{ allowed, refused []string }{
		"+cl.throttle +cl.limit +cl.refund +cl.ban ~rl:*": {
			[]string{"CL.THROTTLE rl:x 15 30 60", "CL.LIMIT rl:x RATE 10/h", "CL.REFUND rl:x RATE 10/h", "CL.BAN rl:x 10s"},
			[]string{"CL.THROTTLE other 15 30 60", "CL.LIMIT other RATE 10/h", "CL.BAN other 10s", "CL.PEEK rl:x RATE 10/h", "CL.WAIT rl:x RATE 10/h TIMEOUT 1s", "GET rl:x"},
		},
		"+cl.peek +cl.leases +cl.inspect %R~rl:*": {
			[]string{"CL.PEEK rl:x RATE 10/h", "CL.LEASES rl:jobs", "CL.INSPECT rl:x"},
			[]string{"CL.LIMIT rl:x RATE 10/h", "CL.PEEK other RATE 10/h", "CL.LEASES other", "CL.INSPECT other"},
		},
		"+@all %R~rl:*": {
			[]string{"CL.PEEK rl:x RATE 10/h"},
			[]string{"CL.LIMIT rl:x RATE 10/h", "CL.REFUND rl:x RATE 10/h", "CL.WAIT rl:x RATE 10/h TIMEOUT 1s", "CL.THROTTLE rl:x 9 10 1h", "CL.BAN rl:x 10s"},
		},
		"+@all -cl.throttle ~*":          {[]string{"CL.LIMIT k RATE 10/h"}, []string{"CL.THROTTLE k 15 30 60"}},
		"+cl.lease +cl.release ~rl:jobs": {[]string{"CL.LEASE rl:jobs SLOTS 1 TTL 1s ID a", "CL.RELEASE rl:jobs ID a"}, []string{"CL.LEASE other SLOTS 1 TTL 1s ID a", "CL.RENEW rl:jobs ID a TTL 1s"}},
		"+cl.mlimit +cl.settle ~{acme}* %R~readonly": {
			[]string{"CL.MLIMIT 2 {acme}a {acme}b RATE 5/s", "CL.MLIMIT 2 {acme}a {acme}r RATE 5/s NEXT SLOTS 1 TTL 1h ID a", "CL.SETTLE 2 {acme}a {acme}r RATE 5/s NEXT SLOTS ID a"},
			[]string{"CL.MLIMIT 2 {acme}a other RATE 5/s", "CL.MLIMIT 2 other {acme}a RATE 5/s", "CL.MLIMIT 2 {acme}a readonly RATE 5/s", "CL.MLIMIT 2 {acme}a other RATE 5/s NEXT SLOTS 1 TTL 1h ID a",
				"CL.SETTLE 2 {acme}a other RATE 5/s NEXT SLOTS ID a"},
		},
	} {
		s.MustDo("FLUSHALL")
		s.MustDo(append([]string{"ACL", "SETUSER", "u", "reset", "on", ">secret", "+eval"}, strings.Fields(rules)...)...)
		c := s.Raw()
		kit.Do(t, c, "AUTH u secret")
		for _, call := range calls.allowed {
			assert.False(t, kit.Do(t, c, "%s", call).IsError(), "%s: %s", rules, call)
		}
		before := s.MustDo("DBSIZE").Int
		for _, call := range calls.refused {
			v := kit.Do(t, c, "%s", call)
			assert.True(t, strings.HasPrefix(v.Text, "NOPERM "), "%s: %s answers %v", rules, call, v)
			v, err := c.Do(append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"}, strings.Fields(call)...)...)
			require.NoError(t, err)
			assert.True(t, v.IsError(), "nor through a script, %s: %s", rules, call)
		}
		assert.Equal(t, before, s.MustDo("DBSIZE").Int, rules)
	}
}

// The category lets a user call all that a caller needs, also after the module was loaded anew: the server keeps the
// category then, and says that it is there.
func TestCategoryThrottleIsAllThatACallerNeeds(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	if !s.Program.HasCategoriesOfModules() {
		t.Skipf("%s has no ACL categories of modules", s.Program)
	}
	path, err := server.ModulePath()
	require.NoError(t, err)
	for range 2 {
		s.MustDo("ACL", "SETUSER", "u", "reset", "on", ">secret", "+@throttle", "~rl:*")
		c := s.Raw()
		kit.Do(t, c, "AUTH u secret")
		for _, call := range kit.CallsOfAll {
			v := kit.Do(t, c, call, "rl:"+strings.Fields(call)[0])
			assert.False(t, v.IsError(), "%s answers %v", call, v)
			assert.Contains(t, kit.Do(t, c, call, "other").Text, "NOPERM", call)
		}
		for _, other := range []string{"CL.TOP", "GET rl:x", "SET rl:x 1", "CONFIG GET throttle.top", "INFO throttle"} {
			assert.Contains(t, kit.Do(t, c, "%s", other).Text, "NOPERM", other)
		}
		require.NoError(t, c.Close())
		s.MustDo("MODULE", "UNLOAD", "throttle")
		s.MustDo("MODULE", "LOAD", path)
	}
}

// What the pages say of each command is compared in tests/docs; here, how many arguments the server takes and where it
// finds the keys.
func TestServerKnowsTheKeysOfEveryCommand(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.Program.NeedsCountedKeys(t)
	const (
		first   = `*["type" "index" "spec" *["index" 1]]`
		one     = `*["type" "range" "spec" *["lastkey" 0 "keystep" 1 "limit" 0]]`
		counted = `*["type" "keynum" "spec" *["keynumidx" 0 "firstkey" 1 "keystep" 1]]`
	)
	for name, want := range map[string]struct {
		arity int64
		keys  string
		flags []string // of its keys
	}{
		"cl.throttle": {-5, one, []string{"RW", "access", "update"}},
		"cl.peek":     {-2, one, []string{"RO", "access"}},
		"cl.ban":      {3, one, []string{"RW", "access", "update"}},
		"cl.top":      {-1, "", nil},
		"cl.denied":   {3, one, []string{"RW", "access", "update"}},
		"cl.mlimit":   {-3, counted, []string{"RW", "access", "update"}},
	} {
		info := s.MustDo("COMMAND", "INFO", name).Elems[0].Elems
		assert.Equal(t, want.arity, info[1].Int, name)
		var flags []string
		for _, spec := range info[8].Elems {
			fields := kit.Pairs(spec)
			flags = append(flags, sortedTexts(fields["flags"])...)
			assert.Equal(t, first, fields["begin_search"].String(), name)
			assert.Equal(t, want.keys, fields["find_keys"].String(), name)
		}
		assert.Equal(t, want.flags, flags, name)
	}
	for call, want := range map[string][]string{"CL.MLIMIT 3 k1 k2 k3 RATE 5/s": {"k1", "k2", "k3"}, "CL.SETTLE 2 k1 k2 SLOTS ID a": {"k1", "k2"}} {
		assert.Equal(t, want, kit.TextsOf(kit.Do(t, s.Raw(), "COMMAND GETKEYS %s", call)))
	}
	assert.True(t, s.Do("COMMAND", "GETKEYS", "CL.MLIMIT", "3", "k1").IsError())
}
