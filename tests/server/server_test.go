package server_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

func TestCrashFailsItsTest(t *testing.T) {
	t.Parallel()
	inner := &recorder{TB: t}
	s := server.Start(inner, server.WithoutModule())
	c := s.Raw()
	require.NoError(t, c.Send("DEBUG", "SEGFAULT"))
	require.NoError(t, c.Flush())
	_, err := c.Receive()
	require.Error(t, err)
	require.Eventually(t, func() bool { return !s.Running() }, 10*time.Second, 10*time.Millisecond)
	inner.finish()
	require.Len(t, inner.errors, 2)
	assert.Contains(t, inner.errors[0], "ended by itself")
	assert.Contains(t, inner.errors[1], "crashed")
}

// recorder is a test within the test: its clean-up runs when asked, and its errors
// do not fail anything.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}

func (r *recorder) finish() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

// orphanage makes this binary start a server and wait to be killed.
const orphanage = "TESTS_SERVER_ORPHANAGE"

func TestServerDiesWithAKilledTestRun(t *testing.T) {
	if os.Getenv(orphanage) != "" {
		fmt.Println("pid", server.Start(t, server.WithoutModule()).Pid())
		select {}
	}
	t.Parallel()
	child := exec.Command(os.Args[0], "-test.run=^TestServerDiesWithAKilledTestRun$", "-test.v")
	child.Env = append(os.Environ(), orphanage+"=1", "TMPDIR="+t.TempDir())
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var pid int
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "pid %d", &pid) // other lines are not it
	}
	require.NoError(t, child.Process.Kill())
	_ = child.Wait() // it was killed
	require.NotZero(t, pid)
	require.Eventually(t, func() bool { return server.HasEnded(pid) },
		10*time.Second, 10*time.Millisecond, "server %d outlives the test that started it", pid)
}
