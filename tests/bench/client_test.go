package bench_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// What the Go client spares, in a run that is too short for its figures to mean anything.
func TestClientBenchHasARowForEachLimiterAndNumberOfProcesses(t *testing.T) {
	t.Parallel()
	module, err := server.ModulePath()
	require.NoError(t, err)
	redis, err := server.DefaultProgram()
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "throttle-client")
	out, err := exec.Command("go", "build", "-o", program, "redis-throttle/bench/throttle-client").CombinedOutput()
	require.NoError(t, err, string(out))
	printed, err := exec.Command(program, "--server", redis.Path, "--module", module, "--processes", "1,3", "--callers", "2", "--seconds", "50ms").CombinedOutput()
	require.NoError(t, err, string(printed))
	for _, row := range []string{
		"| let through | Limiter | 1 |", "| let through | Limiter | 3 |", "| let through | Batched | 3 |",
		"| limited to 1,000/s | Cached | 1 |", "| limited to 1,000/s | Batched | 3 |",
	} {
		assert.Equal(t, 1, strings.Count(string(printed), row), string(printed))
	}
}
