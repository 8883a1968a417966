package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// A whole run of the script takes hours, so nobody would notice for long that its copy of the project does not build.
func TestMutateCCopiesAllThatTheModuleIsBuiltFrom(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("mutate-c")
	require.NoError(t, err)
	copies := regexp.MustCompile(`(?m)^git ls-files .*\n.*cp .*`).Find(text)
	require.NotNil(t, copies, "the line that copies")
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "src"), 0o755))
	cmd := exec.CommandContext(t.Context(), "bash", "-c", string(copies))
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "out="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	cmd = exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "faultinject", "./throttle")
	cmd.Dir, cmd.Env = filepath.Join(dir, "src", "module"), append(os.Environ(), "GOWORK=off")
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
