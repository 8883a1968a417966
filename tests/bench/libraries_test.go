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

// Other libraries on the same server, in a run that is too short for its figures to mean anything.
func TestLibrariesBenchHasARowForEachLibrary(t *testing.T) {
	t.Parallel()
	module, err := server.ModulePath()
	require.NoError(t, err)
	redis, err := server.DefaultProgram()
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "throttle-libraries")
	out, err := exec.Command("go", "build", "-o", program, "redis-throttle/bench/throttle-libraries").CombinedOutput()
	require.NoError(t, err, string(out))
	printed, err := exec.Command(program, "--server", redis.Path, "--module", module, "--callers", "2", "--keys", "9", "--seconds", "50ms").CombinedOutput()
	require.NoError(t, err, string(printed))
	for _, row := range []string{"| ratelimit, Limit |", "| ratelimit, Throttle |", "| redis_rate |", "| throttled |", "| ulule/limiter |"} {
		assert.Equal(t, 1, strings.Count(string(printed), row), string(printed))
	}
}
