package neighbours_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
)

// Servers ask the kernel for a client's address whenever a module asks about the client. Beside another module a call of a client does without.
func TestACallBesideAnotherModuleMakesNoSystemCall(t *testing.T) {
	t.Parallel()
	size.NeedsProgram(t, "strace")
	s := neighbour.Start(t)
	if s.Program.IsDev() || !s.Program.AtLeast(7, 2) {
		t.Skip("beside another module, a call of a client asks the server nothing before Redis 7.2")
	}
	c := s.Raw()
	const calls = 200
	made := systemCalls(t, s, func() {
		for i := range calls {
			kit.Do(t, c, "CL.THROTTLE key:%d 15 30 60", i%20)
		}
	})
	t.Log(made)
	require.GreaterOrEqual(t, made["read"], calls, "what strace saw")
	assert.Less(t, made["getpeername"], calls/10, "two calls may begin in one microsecond")
}

// systemCalls counts how often a server's main thread asks for a few things while do runs.
func systemCalls(t *testing.T, s *server.Server, do func()) map[string]int {
	t.Helper()
	out := filepath.Join(t.TempDir(), "calls")
	pid := strconv.Itoa(s.Pid())
	cmd := exec.Command("strace", "-q", "-p", pid, "-e", "trace=read,getpeername", "-o", out)
	require.NoError(t, cmd.Start())
	isTraced := func() bool {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%s/status", pid))
		return !strings.Contains(string(status), "TracerPid:\t0\n")
	}
	if !assert.Eventually(t, isTraced, kit.Patience, kit.Tick) {
		_ = cmd.Process.Kill()
		t.Skip("strace may not trace other processes here")
	}
	do()
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	lines, err := os.ReadFile(out)
	require.NoError(t, err)
	made := map[string]int{}
	for line := range strings.Lines(string(lines)) {
		name, _, _ := strings.Cut(line, "(")
		made[name]++
	}
	return made
}
