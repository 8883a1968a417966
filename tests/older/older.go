// Package older loads the module as an older server does: one that lacks some functions of the module API. It puts a
// library in C between a real server and the module, while that is loaded. An old server can have CachedMicroseconds in
// the same way.
package older

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/sharedlib"
)

//go:embed testdata/older.c
var source []byte

// Lines after the path of the library: the module, the functions that are missing, the module's load arguments.
func words(module string, missing []string, args []string) []string {
	return append([]string{module, strings.Join(missing, ",")}, args...)
}

// Start starts a server that loads the test build without some functions.
func Start(t testing.TB, missing []string, args ...string) *server.Server {
	t.Helper()
	module, err := server.CheckModulePath()
	require.NoError(t, err)
	return server.Start(t, server.Module(Library(t)), server.ModuleArgs(words(module, missing, args)...))
}

// Library is the path of the library.
func Library(t testing.TB) string {
	t.Helper()
	return sharedlib.Build(t, "older", source, "-ldl")
}

// Load is the command that makes a running server load a module without some functions.
func Load(library, module string, missing ...string) []string {
	return append([]string{"MODULE", "LOAD", library}, words(module, missing, nil)...)
}
