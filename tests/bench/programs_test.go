package bench_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// requireRows builds a program of the benchmark, runs it for too short a time for its figures to mean
// anything, and wants each row once.
func requireRows(t *testing.T, name string, args []string, rows ...string) {
	t.Helper()
	module, err := server.ModulePath()
	require.NoError(t, err)
	redis, err := server.DefaultProgram()
	require.NoError(t, err)
	args = append([]string{"--server", redis.Path, "--module", module, "--callers", "2", "--seconds", "50ms"}, args...)
	printed, err := exec.Command(kit.Built(t, "bench/"+name), args...).CombinedOutput()
	require.NoError(t, err, string(printed))
	for _, row := range rows {
		assert.Equal(t, 1, strings.Count(string(printed), row), string(printed))
	}
}

// What the Go client spares.
func TestClientBenchHasARowForEachLimiterAndNumberOfProcesses(t *testing.T) {
	t.Parallel()
	requireRows(t, "throttle-client", []string{"--processes", "1,3"},
		"| let through | Limiter | 1 |", "| let through | Limiter | 3 |", "| let through | Batched | 3 |",
		"| limited to 1,000/s | Cached | 1 |", "| limited to 1,000/s | Batched | 3 |")
}

// Other libraries on the same server.
func TestLibrariesBenchHasARowForEachLibrary(t *testing.T) {
	t.Parallel()
	requireRows(t, "throttle-libraries", []string{"--keys", "9"},
		"| ratelimit, Limit |", "| ratelimit, Throttle |", "| redis_rate |", "| throttled |", "| ulule/limiter |")
}
