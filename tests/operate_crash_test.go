package tests

import (
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// underFire keeps four connections busy until the server is gone.
func underFire(t *testing.T, s *server.Server) (stopped *sync.WaitGroup) {
	t.Helper()
	stopped = &sync.WaitGroup{}
	for worker := range 4 {
		c := s.Raw()
		random := rand.New(rand.NewPCG(uint64(worker), 7))
		stopped.Go(func() {
			for {
				commands := make([][]string, 100)
				for i := range commands {
					commands[i] = anyCall(random)
				}
				if _, err := c.Pipeline(commands...); err != nil {
					return
				}
			}
		})
	}
	return stopped
}

// crash makes the server crash and returns what it had to say about that.
func crash(t *testing.T, s *server.Server) (report string) {
	t.Helper()
	s.ExpectCrash()
	c := s.Raw()
	require.NoError(t, c.Send("DEBUG", "SEGFAULT"))
	require.NoError(t, c.Flush())
	state := s.AwaitEnd()
	assert.Equal(t, syscall.SIGSEGV, state.Sys().(syscall.WaitStatus).Signal())
	return s.Log()
}

// The end of a report is a test of the server's memory, which writes to every word of it
// while other threads may run: also without the module it fails now and then under load, and
// on some servers always. So the module's must pass where the plain server's does, in two
// of a few crashes.
func TestCrashReportUnderLoadIsWhole(t *testing.T) {
	t.Parallel()
	memcheck := server.Config("crash-memcheck-enabled yes")
	isWhole := func(report string) bool {
		return strings.Count(report, "crashed by signal: 11") == 1 && strings.Contains(report, "Fast memory test PASSED") &&
			strings.Contains(report, "BUG REPORT END")
	}
	plainIsWhole := false
	for range 3 {
		plainIsWhole = plainIsWhole || isWhole(crash(t, server.Start(t, memcheck, server.WithoutModule())))
	}
	const rounds, enough = 8, 2
	whole := 0
	for round := 0; round < rounds && whole < enough; round++ {
		s := server.Start(t, memcheck, server.ModuleArgs("top", "100"))
		stopped := underFire(t, s)
		for range 100 {
			c := s.Raw()
			require.NoError(t, c.Send("CL.WAIT", "wait", "RATE", "1/h", "TIMEOUT", "0"))
			require.NoError(t, c.Flush())
		}
		admin := s.Raw()
		awaitWaiting(t, admin, 99)
		report := crash(t, s)
		stopped.Wait()
		for _, part := range []string{"crashed by signal: 11", "STACK TRACE", "INFO OUTPUT", "CLIENT LIST OUTPUT", "MODULES INFO OUTPUT",
			"throttle_version:", "throttle_calls_limit:", "throttle_waiting:99", "throttle_errors_internal:0", "FAST MEMORY TEST"} {
			assert.Contains(t, report, part)
		}
		assert.NotContains(t, report, "goroutine")
		if isWhole(report) {
			whole++
		}
	}
	t.Logf("whole without the module: %t; with it and under load: %d times", plainIsWhole, whole)
	if plainIsWhole {
		assert.Equal(t, enough, whole, "whole reports of %d", rounds)
	}
}

// The server's watchdog interrupts whatever runs by a signal, whose handler looks at the
// stack and writes to the log. It may find Go running.
func TestWatchdogSignalsUnderLoad(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := startLoad(t, s, anyCall, nil)
	s.MustDo("CONFIG", "SET", "watchdog-period", "200")
	for range 100 {
		require.NoError(t, syscall.Kill(s.Pid(), syscall.SIGALRM))
		time.Sleep(time.Millisecond) // signals that come together are one
	}
	calls := l.calls.Load()
	require.Eventually(t, func() bool { return l.calls.Load() > calls+1000 }, 60*time.Second, time.Millisecond, "it goes on")
	s.MustDo("CONFIG", "SET", "watchdog-period", "0")
	l.stop()
	log := s.Log()
	seen := strings.Count(log, "WATCHDOG TIMER EXPIRED") + strings.Count(log, "SIGALRM")
	t.Logf("%d of 100 signals found their way into the log; the module is in %d lines of their stacks", seen, strings.Count(log, "throttle.so"))
	assert.Positive(t, seen)
	assert.False(t, s.Do("CL.LIMIT", "key", "RATE", "1/h").IsError())
}
