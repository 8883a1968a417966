package scripts_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
)

// The module of tools is not in the workspace, so nothing else runs its tests. -count=1: they read files of the
// project, which go's cache of results does not know.
func TestToolsPassTheirTests(t *testing.T) {
	t.Parallel()
	size.NeedsFull(t)
	cmd := exec.CommandContext(t.Context(), "go", "-C", "tools", "test", "-count=1", "-vet=off", "./...")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
