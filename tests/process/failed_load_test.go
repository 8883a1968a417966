package process_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/older"
	"redis-throttle/tests/server"
	"redis-throttle/tests/sharedlib"
)

// requiredFunctions lists the functions of the module API without which the module is not loaded.
func requiredFunctions(t *testing.T) (names []string) {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	header, err := os.ReadFile(filepath.Join(root, "module", "api.h"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^  REQUIRED\((\w+),`).FindAllSubmatch(header, -1) {
		names = append(names, string(m[1]))
	}
	require.NotEmpty(t, names)
	return names
}

// However a load fails, the server has nothing of the module left: Redis 7.0 would call listeners of a module that it
// has freed, ten times a second. Library older ends a server that has any.
func TestALoadThatFailsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		s := server.Start(t, append(opts, server.WithoutModule(), server.Config("enable-module-command yes"))...)
		if !s.Program.AtLeast(7, 0) {
			t.Skip("the option is older")
		}
		module, err := server.CheckModulePath()
		require.NoError(t, err)
		library := older.Library(t)
		fails := func(command ...string) {
			t.Helper()
			require.True(t, s.Do(command...).IsError(), "%q", command)
		}
		load := func(args ...string) []string { return append(older.Load(library, module), args...) }

		for _, args := range []string{"top 99999999", "top -1", "top x", "top", "pot 5", "top 5 pot"} {
			fails(load(strings.Fields(args)...)...)
		}
		fails("MODULE", "LOADEX", library, "CONFIG", "throttle.top", "99999999", "ARGS", module, "none")
		fails("MODULE", "LOADEX", library, "CONFIG", "throttle.pot", "5", "ARGS", module, "none")
		for _, name := range requiredFunctions(t) {
			if name != "StringPtrLen" && name != "CallReplyStringPtr" { // the library needs the first
				fails(older.Load(library, module, name)...)
			}
		}
		for _, command := range []string{"cl.ban", "cl.throttle", "cl.wait"} {
			s.MustDo("MODULE", "LOAD", sharedlib.Build(t, "other", []byte(strings.ReplaceAll(otherThrottle, "cl.throttle", command))))
			fails(load()...)
			s.MustDo("MODULE", "UNLOAD", "other")
		}
		kit.AwaitCron(t, s)
		fails("MODULE", "LOAD", module, "top", "99999999") // without library older, whose own checks come first
		kit.AwaitCron(t, s)
		assert.Empty(t, kit.ThrottleModules(s))
		s.MustDo(load()...)
		fails(load()...) // it is there
		assert.EqualValues(t, 0, kit.Ask(t, s.Raw(), "CL.LIMIT key RATE 1/s").Limited)
		s.MustDo("MODULE", "UNLOAD", "throttle")
		fails(load("top", "x")...)
		kit.AwaitCron(t, s)
	})
}
