// Package replay_test runs throttle-replay as a program: on logs that real servers have written, beside throttle-dev, and on a terminal.
package replay_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// patience only ends a hang.
const patience = 60 * time.Second

var built = sync.OnceValues(func() (string, error) {
	root, err := server.RepositoryRoot()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "replay")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "throttle-replay")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = filepath.Join(root, "cmd", "throttle-replay")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if program, err := built(); err == nil {
		_ = os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(code)
}

// report is what these tests read of a report.
type report struct {
	Clients, Requests int64
	ResolutionNs      int64
	Lines             struct {
		All, Requests, Late, Keyless int64
		Unreadable                   []struct {
			Why   string
			Count int64
		}
	}
	Top []struct {
		Name     string
		Requests int64
	}
	Sets []struct {
		Name          string
		Denied        int64
		DeniedClients int64
		Waits         struct{ Max int64 }
		Rules         []struct{ Denied, Alone int64 }
		Top           []struct {
			Name              string
			Denied, LongestMs int64
		}
	}
}

// replay runs the program on a log.
func replay(t testing.TB, args ...string) (r report) {
	t.Helper()
	program, err := built()
	require.NoError(t, err)
	cmd := exec.Command(program, append(args, "--json", "-", "--show-keys")...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.NoError(t, json.Unmarshal(out, &r))
	return r
}

// await waits until something is so.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, patience, 5*time.Millisecond, what)
}

// access writes lines into a file.
func access(t testing.TB, lines []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.log")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	return path
}

// made runs throttle-log, which makes logs of clients that do not exist.
func made(t testing.TB, args ...string) string {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "access.log")
	file, err := os.Create(path)
	require.NoError(t, err)
	cmd := exec.Command("go", append([]string{"run", "./bench/throttle-log"}, args...)...)
	cmd.Dir, cmd.Stdout = root, file
	require.NoError(t, cmd.Run())
	assert.NoError(t, file.Close())
	return path
}
