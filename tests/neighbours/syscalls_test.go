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

// Servers ask the kernel for a client's address whenever a module asks about the client. Beside another module a call
// of a client does without, also if it begins in the same microsecond as the one before, as calls in a pipeline do.
func TestACallBesideAnotherModuleMakesNoSystemCall(t *testing.T) {
	t.Parallel()
	size.NeedsProgram(t, "strace")
	s := neighbour.Start(t, server.Config("slowlog-log-slower-than -1")) // whose entries tell addresses, too
	if s.Program.IsDev() || !s.Program.AtLeast(7, 2) {
		t.Skip("beside another module, a call of a client asks the server nothing before Redis 7.2")
	}
	c := s.Raw()
	const times = 20 // in some of which the clock may show the microsecond that it showed before
	first := systemCalls(t, s, func() {
		for range times {
			kit.MustDoAll(t, c, "SET number 1700000000000000000", "MULTI", "CL.LIMIT number RATE 5/h", "EXEC")
		}
	})
	assert.Less(t, first["getpeername"], times, "transactions before any other call")
	kit.MustDoAll(t, c, "SET k 5", "CL.LIMIT other RATE 5/h", "CL.LIMIT other RATE 5/h", "CL.LIMIT other RATE 5/h")
	var pipeline [][]string
	for i := range 200 {
		for _, call := range []string{"CL.THROTTLE key:%d 15 30 60", "CL.MLIMIT 2 key:%d other RATE 5/h", "GET k", "CL.LEASE leases:%d SLOTS 5 TTL 1h ID x", "CL.PEEK key:%d RATE 5/h"} {
			pipeline = append(pipeline, strings.Fields(strings.ReplaceAll(call, "%d", strconv.Itoa(i%20))))
		}
	}
	made := systemCalls(t, s, func() {
		for range 5 {
			_, err := c.Pipeline(pipeline...)
			require.NoError(t, err)
			kit.Do(t, c, "CL.PEEK key:1 RATE 5/h")
		}
	})
	t.Log(made)
	require.Positive(t, made["read"], "what strace saw")
	assert.Zero(t, made["getpeername"])
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
