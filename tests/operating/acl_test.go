package operating_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

func TestUserMayBeAllowedNothingButTheLimiter(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("ACL", "SETUSER", "web", "on", ">secret", "+cl.throttle", "~rl:*")
	c := s.Client(server.User("web", "secret"), server.Protocol(2))
	ctx := t.Context()

	a, err := kit.Throttle(ctx, c, "rl:x", "15 30 60 1")
	require.NoError(t, err)
	assert.Equal(t, kit.FirstOf16, a)

	_, err = kit.Throttle(ctx, c, "other", "15 30 60 1")
	assert.ErrorContains(t, err, "NOPERM", "a key outside the pattern")
	assert.ErrorContains(t, c.Get(ctx, "rl:x").Err(), "NOPERM", "another command")
	assert.ErrorContains(t, c.Eval(ctx, "return 1", nil).Err(), "NOPERM")
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "other").Int)
}

func TestUserWithoutTheLimiterIsRefused(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("ACL", "SETUSER", "web", "on", ">secret", "+@all", "-cl.throttle", "~*")
	c := s.Client(server.User("web", "secret"))
	_, err := kit.Throttle(t.Context(), c, "key", "15 30 60 1")
	assert.ErrorContains(t, err, "NOPERM")
	script := "return redis.call('CL.THROTTLE', KEYS[1], 15, 30, 60)"
	assert.Error(t, c.Eval(t.Context(), script, []string{"key"}).Err(), "nor through a script")
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "key").Int)
}

// What the server is told of the command decides what it lets whom do where.
func TestServerKnowsFlagsAndKeyOfTheCommand(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	info := s.MustDo("COMMAND", "INFO", "cl.throttle").Elems[0].Elems
	var flags []string
	for _, f := range info[2].Elems {
		flags = append(flags, f.Text)
	}
	assert.Subset(t, flags, []string{"write", "fast", "denyoom"})
	assert.NotContains(t, flags, "readonly")
	assert.EqualValues(t, []int64{1, 1, 1}, []int64{info[3].Int, info[4].Int, info[5].Int}, "first key, last key, step")
	keys := s.MustDo("COMMAND", "GETKEYS", "CL.THROTTLE", "user:42", "15", "30", "60")
	assert.Equal(t, `*["user:42"]`, keys.String())
}

// startWithCategories starts a server that lets modules put commands into its ACL
// categories: since Redis 7.2. Before, a command of a module is in none.
func startWithCategories(t *testing.T) *server.Server {
	t.Helper()
	s := server.Start(t)
	if !s.Program.AtLeast(7, 2) {
		t.Skipf("%s has no ACL categories for commands of modules", s.Program)
	}
	return s
}

func TestCategoryThrottleIsAllThatACallerNeeds(t *testing.T) {
	t.Parallel()
	s := startWithCategories(t)
	if !s.Program.HasCategoriesOfModules() {
		t.Skipf("%s has no ACL categories of modules", s.Program)
	}
	s.MustDo("ACL", "SETUSER", "u", "on", ">secret", "+@throttle", "~rl:*")
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
}

// Also after the module was loaded anew: the server keeps the category, and says that it is there.
func TestCategoryThrottleOutlastsTheModule(t *testing.T) {
	t.Parallel()
	s := startWithCategories(t)
	if !s.Program.HasCategoriesOfModules() {
		t.Skipf("%s has no ACL categories of modules", s.Program)
	}
	path, err := server.ModulePath()
	require.NoError(t, err)
	s.MustDo("MODULE", "UNLOAD", "throttle")
	s.MustDo("MODULE", "LOAD", path)
	s.MustDo("ACL", "SETUSER", "u", "on", ">secret", "+@throttle", "~rl:*")
	c := s.Raw()
	kit.Do(t, c, "AUTH u secret")
	for _, call := range kit.CallsOfAll {
		v := kit.Do(t, c, call, "rl:"+strings.Fields(call)[0])
		assert.False(t, v.IsError(), "%s answers %v", call, v)
	}
}

func TestStandardCategories(t *testing.T) {
	t.Parallel()
	s := startWithCategories(t)
	for command, want := range map[string][]string{
		"cl.throttle": {"@fast", "@throttle", "@write"},
		"cl.limit":    {"@fast", "@throttle", "@write"},
		"cl.refund":   {"@fast", "@throttle", "@write"},
		"cl.peek":     {"@fast", "@read", "@throttle"},
		"cl.wait":     {"@blocking", "@slow", "@throttle", "@write"},
		"cl.top":      {"@admin", "@dangerous", "@read", "@slow"},
	} {
		var have []string
		for _, v := range s.MustDo("COMMAND", "INFO", command).Elems[0].Elems[6].Elems {
			have = append(have, v.Text)
		}
		if !s.Program.HasCategoriesOfModules() {
			want = slices.DeleteFunc(want, func(category string) bool { return category == "@throttle" })
		}
		slices.Sort(have)
		assert.Equal(t, want, have, command)
	}
	// What an operator takes away by category is gone.
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

func TestServerDocumentsEveryCommand(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("COMMAND DOCS came with Redis 7.0")
	}
	for name, want := range map[string]struct {
		arity int64
		flags []string
		key   []string // flags of its key
		args  string
		// The versions after its first one in which words came.
		history string
	}{
		"cl.throttle": {-5, []string{"denyoom", "fast", "module", "write"}, []string{"RW", "access", "update"}, "key max_burst count_per_period period quantity", ""},
		"cl.limit":    {-2, []string{"denyoom", "fast", "module", "write"}, []string{"RW", "access", "update"}, "key limit units upto strict force duration duration compact each", "0.2.0 0.3.0"},
		"cl.peek":     {-2, []string{"fast", "module", "readonly"}, []string{"RO", "access"}, "key limit units compact each", "0.2.0 0.3.0"},
		"cl.refund":   {-2, []string{"fast", "module", "write"}, []string{"RW", "access", "update"}, "key limit units compact each", "0.2.0 0.3.0"},
		"cl.wait":     {-2, []string{"denyoom", "module", "write"}, []string{"RW", "access", "update"}, "key limit units duration group priority compact each", "0.2.0 0.3.0"},
		"cl.ban":      {3, []string{"denyoom", "fast", "module", "write"}, []string{"RW", "access", "update"}, "key duration", ""},
		"cl.top":      {-1, []string{"admin", "module", "readonly"}, nil, "count", ""},
	} {
		info := s.MustDo("COMMAND", "INFO", name).Elems[0].Elems
		assert.Equal(t, want.arity, info[1].Int, name)
		assert.Equal(t, want.flags, sortedTexts(info[2]), name)
		var keyFlags []string
		for _, spec := range info[8].Elems {
			fields := kit.Pairs(spec)
			keyFlags = append(keyFlags, sortedTexts(fields["flags"])...)
			assert.Equal(t, `*["type" "index" "spec" *["index" 1]]`, fields["begin_search"].String(), name)
			assert.Equal(t, `*["type" "range" "spec" *["lastkey" 0 "keystep" 1 "limit" 0]]`, fields["find_keys"].String(), name)
		}
		assert.Equal(t, want.key, keyFlags, name)

		reply := s.MustDo("COMMAND", "DOCS", name)
		require.Len(t, reply.Elems, 2, name)
		docs := kit.Pairs(reply.Elems[1])
		var history []string
		for _, change := range docs["history"].Elems {
			assert.Regexp(t, `^Added [A-Z, and]+\.$`, change.Elems[1].Text, name)
			history = append(history, change.Elems[0].Text)
		}
		assert.Equal(t, want.history, strings.Join(history, " "), name)
		since := map[string]string{"cl.ban": "0.2.0"}[name]
		assert.Equal(t, []string{"module", "throttle", cmp.Or(since, "0.1.0")}, []string{docs["group"].Text, docs["module"].Text, docs["since"].Text}, name)
		assert.NotEmpty(t, docs["summary"].Text, name)
		assert.True(t, strings.HasPrefix(docs["complexity"].Text, "O("), name)
		var args []string
		for _, arg := range docs["arguments"].Elems {
			args = append(args, kit.Pairs(arg)["name"].Text)
		}
		assert.Equal(t, want.args, strings.Join(args, " "), name)
	}
}
