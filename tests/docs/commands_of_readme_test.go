package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// README's ways on for a machine without Go, each as far as it goes without an engine for containers or the network.
func TestTheWaysWithoutGoOfREADME(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(rootDir(t), "README.md"))
	require.NoError(t, err)
	cli, err := server.CLIPath()
	require.NoError(t, err)
	line := func(start string) string {
		found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(start) + `[^#\n]*`).FindString(string(text))
		require.NotEmpty(t, found, "README.md has no line %s", start)
		return found
	}

	t.Run("functions", func(t *testing.T) {
		s := server.Start(t, server.WithoutModule())
		if s.Program.IsDev() || !s.Program.AtLeast(7, 0) {
			t.Skip("there are no functions on this server")
		}
		cmd := exec.Command("sh", "-c", strings.Replace(line("redis-cli -x FUNCTION LOAD"), "redis-cli", `"$CLI" -p `+strconv.Itoa(s.Port), 1))
		cmd.Dir, cmd.Env = rootDir(t), append(os.Environ(), "CLI="+cli)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		call := regexp.MustCompile(`FCALL cl_limit 1 user:42 RATE \S+`).FindString(string(text))
		assert.False(t, s.MustDo(strings.Fields(call)...).IsError(), call)
	})
	t.Run("release", func(t *testing.T) {
		assert.Contains(t, line("redis-server --loadmodule"), `"$PWD/throttle.so"`)
		module, err := server.ModulePath()
		require.NoError(t, err)
		s := server.Start(t, server.WithoutModule(), server.NoConfigFile(), server.CommandLine("--loadmodule", module))
		assert.False(t, s.MustDo("CL.LIMIT", "user:42", "RATE", "5/s").IsError())
	})
	t.Run("docker", func(t *testing.T) {
		assert.NotEmpty(t, line("docker compose up"))
		assert.FileExists(t, filepath.Join(rootDir(t), "docker-compose.yml"))
	})
}
