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
		"+cl.peek +cl.leases %R~rl:*": {
			[]string{"CL.PEEK rl:x RATE 10/h", "CL.LEASES rl:jobs"},
			[]string{"CL.LIMIT rl:x RATE 10/h", "CL.PEEK other RATE 10/h", "CL.LEASES other"},
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

// The category lets a user call all that a caller needs, also after the module was loaded anew: the server keeps the category then, and says that it is
// there.
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

// The categories themselves are compared in tests/docs.
func TestACommandIsTakenAwayByItsCategory(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	if !s.Program.AtLeast(7, 2) {
		t.Skipf("%s has no ACL categories for commands of modules", s.Program)
	}
	s.MustDo("ACL", "SETUSER", "reader", "on", "nopass", "~*", "+@all", "-@write", "-@admin")
	for call, allowed := range map[string]bool{"CL.LIMIT k RATE 5/s": false, "CL.THROTTLE k 1 1 1": false, "CL.TOP": false, "CL.PEEK k RATE 5/s": true} {
		v := s.Do(append([]string{"ACL", "DRYRUN", "reader"}, strings.Fields(call)...)...)
		assert.Equal(t, allowed, v.Text == "OK", "%s: %v", call, v)
	}
}

// CL.TOP names keys that its caller may have no access to, so a user who gets all but what
// is for administrators must not get it. Where commands of modules have no categories, it
// takes the command's name.
func TestTopIsForAdministrators(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("top", "10"))
	if !s.Program.AtLeast(7, 0) {
		t.Skip("ACL DRYRUN came with Redis 7.0")
	}
	for _, tc := range []struct {
		rules                           string
		withCategories, withoutCategory bool // whether CL.TOP is allowed
	}{
		{"+@all", true, true},
		{"+@all -cl.top", false, false},
		{"+@all -@admin -@dangerous", false, true},
		{"+@all -@admin -@dangerous -cl.top", false, false},
		{"+@all -@dangerous", false, true},
		{"+@read", true, false}, // as it allows KEYS
		{"+@read -@dangerous", false, false},
	} {
		s.MustDo(append([]string{"ACL", "SETUSER", "u", "reset", "on", "nopass", "~mine:*"}, strings.Fields(tc.rules)...)...)
		want := tc.withoutCategory
		if s.Program.AtLeast(7, 2) {
			want = tc.withCategories
		}
		v := s.Do("ACL", "DRYRUN", "u", "CL.TOP")
		assert.Equal(t, want, v.Text == "OK", "%s: %v", tc.rules, v)
	}
}

// What the pages say of each command is compared in tests/docs; here, how many arguments the server takes and where it finds the key.
func TestServerKnowsTheKeyOfEveryCommand(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("flags of keys came with Redis 7.0")
	}
	for name, want := range map[string]struct {
		arity int64
		key   []string // flags of its key
	}{
		"cl.throttle": {-5, []string{"RW", "access", "update"}},
		"cl.peek":     {-2, []string{"RO", "access"}},
		"cl.ban":      {3, []string{"RW", "access", "update"}},
		"cl.top":      {-1, nil},
	} {
		info := s.MustDo("COMMAND", "INFO", name).Elems[0].Elems
		assert.Equal(t, want.arity, info[1].Int, name)
		var keyFlags []string
		for _, spec := range info[8].Elems {
			fields := kit.Pairs(spec)
			keyFlags = append(keyFlags, sortedTexts(fields["flags"])...)
			assert.Equal(t, `*["type" "index" "spec" *["index" 1]]`, fields["begin_search"].String(), name)
			assert.Equal(t, `*["type" "range" "spec" *["lastkey" 0 "keystep" 1 "limit" 0]]`, fields["find_keys"].String(), name)
		}
		assert.Equal(t, want.key, keyFlags, name)
	}
}
