// Package replay_test runs throttle-replay as a program: on logs that real servers have written, beside throttle-dev,
// and on a terminal.
package replay_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
)

// patience only ends a hang.
const patience = 60 * time.Second

func TestMain(m *testing.M) { kit.RunBuilt(m) }

// built is the path of throttle-replay.
func built(t testing.TB) string {
	t.Helper()
	return kit.Built(t, "cmd/throttle-replay")
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
	Policies []string
	Sets     []struct {
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
	cmd := exec.Command(built(t), append(args, "--json", "-", "--show-keys")...)
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
	path := filepath.Join(t.TempDir(), "access.log")
	file, err := os.Create(path)
	require.NoError(t, err)
	cmd := exec.Command(kit.Built(t, "bench/throttle-log"), args...)
	cmd.Stdout = file
	require.NoError(t, cmd.Run())
	assert.NoError(t, file.Close())
	return path
}
