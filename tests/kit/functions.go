package kit

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/functions"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Library is the function library that is tested: the file that THROTTLE_LIBRARY names, else that of this repository.
func Library(t testing.TB) string {
	t.Helper()
	path := os.Getenv("THROTTLE_LIBRARY")
	if path == "" {
		return functions.Library
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// Script is the same as SCRIPT LOAD takes it.
func Script(t testing.TB) string {
	t.Helper()
	_, script, _ := strings.Cut(Library(t), "\n")
	return script
}

// LoadFunctions loads the function library into a server.
func LoadFunctions(t testing.TB, s *server.Server) {
	t.Helper()
	v := s.Do("FUNCTION", "LOAD", "REPLACE", Library(t))
	require.False(t, v.IsError(), "%v", v)
}

// OlderLibrary is the function library of an older version, whose path a variable such as THROTTLE_LUA_0_4_0 is.
func OlderLibrary(t testing.TB, version string) string {
	t.Helper()
	name := "THROTTLE_LUA_" + strings.ReplaceAll(version, ".", "_")
	path := os.Getenv(name)
	if path == "" {
		t.Skip(name + " names no function library of the older version")
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// AsFunction is a call of a command as one of the function that does the same: CL.LIMIT k RATE 5/s becomes FCALL
// cl_limit 1 k RATE 5/s. A call that only reads is one for replicas, too.
func AsFunction(words []string) []string {
	name := strings.ToLower(strings.Replace(words[0], ".", "_", 1))
	fcall := "FCALL"
	if name == "cl_peek" || name == "cl_leases" || name == "cl_inspect" {
		fcall = "FCALL_RO"
	}
	call := []string{fcall, name}
	switch {
	case len(words) == 1:
		return append(call, "0")
	case name == "cl_mlimit" || name == "cl_settle":
		return append(call, words[1:]...)
	}
	return append(append(call, "1"), words[1:]...)
}

// AsScript is AsFunction for a server that takes scripts alone. sha names Script.
func AsScript(sha string, words []string) []string {
	call := AsFunction(words)
	keys, _ := strconv.Atoi(call[2])
	behind := min(3+keys, len(call))
	return append(append(append([]string{strings.Replace(call[0], "FCALL", "EVALSHA", 1), sha}, call[2:behind]...), call[1]), call[behind:]...)
}

// ServerCounts reports whether the keys of a call are counted right. A server counts those of a function itself, and
// words errors about that in its own way.
func ServerCounts(words []string) bool {
	if words[0] != "CL.MLIMIT" && words[0] != "CL.SETTLE" {
		return true
	}
	n, err := strconv.Atoi(words[1])
	return err == nil && n > 0 && n <= 8 && n <= len(words)-2 && strconv.Itoa(n) == words[1]
}

// NeedsModule reports whether a reply says that a function does not do what the module does.
func NeedsModule(v resp.Value) bool { return v.IsError() && strings.Contains(v.Text, "the module") }
