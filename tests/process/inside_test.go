package process_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// What the Go runtime is and does inside the server. docs/internals/inside-the-server.md quotes the figures
// that these tests log:
//
//	go test -v -run Inside ./tests/process

func TestInsideThreadsSleepWhileTheServerIsIdle(t *testing.T) {
	t.Parallel()
	with, without := server.Start(t), server.Start(t, server.WithoutModule())
	own := map[string]int{}
	for _, name := range threads(t, without) {
		own[name]++
	}
	ours := map[int]string{}
	for tid, name := range threads(t, with) {
		if tid == with.Pid() { // wakes ten times a second for the server's cron, and has the name that Go's threads inherit
			continue
		}
		if own[name]--; own[name] < 0 || name == threadName(t, with.Pid()) {
			ours[tid] = name
		}
	}
	require.NotEmpty(t, ours, "the threads of the Go runtime")

	callMany(t, with, 10_000)
	// Go starts another thread when one has to wait for a processor: eleven were seen on a machine that was busy with
	// other tests. What must not be is one for each call, or for a few of them.
	assert.LessOrEqual(t, len(ours), 16)
	// The monitor thread goes on for a while after the last call: longer on a busy machine, on which it often waits for
	// a processor.
	require.Eventually(t, func() bool {
		const idle = 2 * time.Second
		before, from := kit.WakeUps(t, with.Pid(), ours), time.Now()
		// The tick of a clock is what is waited for: nothing else happens on an idle server.
		<-time.After(idle)
		woken, seconds := kit.WakeUps(t, with.Pid(), ours)-before, time.Since(from).Seconds()
		t.Logf("%d threads of the Go runtime, woken %d times in %.1f s of an idle server", len(ours), woken, seconds)
		return float64(woken) <= 5*seconds
	}, kit.Patience, time.Millisecond, "the threads of the Go runtime are woken again and again")
}

// Reports the handlers of signals that the Go runtime adds. Those that the server had are still
// its own: it ends cleanly on SIGTERM, and reports a crash (TestServerStillPrintsItsOwnCrashReport).
func TestInsideSignalHandlers(t *testing.T) {
	t.Parallel()
	with, without := server.Start(t), server.Start(t, server.WithoutModule())
	caught, own := signals(t, with, "SigCgt"), signals(t, without, "SigCgt")
	t.Logf("signals with a handler without the module: %v; added by the Go runtime: %v", own, minus(caught, own))
	assert.Empty(t, minus(own, caught), "handlers that are gone")
	// Go's handler of SIGPIPE does what the server asked for: nothing.
	assert.Equal(t, minus(signals(t, without, "SigIgn"), []int{int(syscall.SIGPIPE)}), signals(t, with, "SigIgn"), "signals that are ignored")
	assert.Equal(t, signals(t, without, "SigBlk"), signals(t, with, "SigBlk"), "signals that are blocked in the main thread")

	with.Signal(syscall.SIGTERM)
	state := with.AwaitEnd()
	assert.True(t, state.Success(), "the server ends by itself")
	assert.NotEmpty(t, with.LogLines("Received SIGTERM"))

	// Go's handlers let the server live, as it would without them: nobody else may notice these.
	survivor := server.Start(t)
	for _, signal := range []syscall.Signal{syscall.SIGURG, syscall.SIGWINCH, syscall.SIGCHLD, syscall.SIGPIPE, syscall.SIGHUP} {
		survivor.Signal(signal)
		survivor.MustDo("CL.THROTTLE", "key", "15", "30", "60")
	}
}

// The Go runtime reads its environment before anything of ours runs. What would change how the
// collector works is set again when the module is loaded. (On Redis 7.0 nothing reaches Go: the server has
// overwritten the memory where a library that is loaded later looks for its environment.)
func TestInsideNothingIsCollectedWhateverTheEnvironmentSays(t *testing.T) {
	for name, value := range map[string]string{"GOGC": "1", "GOMEMLIMIT": "1MiB", "GOMAXPROCS": "8", "GOTRACEBACK": "crash"} {
		t.Setenv(name, value)
	}
	s := kit.StartCheckBuild(t)
	s.MustDo("CONFIG", "SET", "throttle.top", "1000")
	before := goRuntime(t, s)
	const calls = 300_000
	callMany(t, s, calls)
	r := goRuntime(t, s)
	t.Logf("%d variables reach Go; %d collections while the module was loaded, %d in %d calls",
		r.environment, before.collections, r.collections-before.collections, calls)
	assert.Equal(t, before.collections, r.collections)
	assert.Equal(t, 1, r.processors, "GOMAXPROCS")
}

// Garbage that no decision makes, until the collector sets in: how long does the server stand
// still, with as much in use as there can be?
func TestInsideCollectionHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	s.MustDo("CONFIG", "SET", "throttle.top", "100000")
	fillTop(t, s, 100_000)
	before := goRuntime(t, s)

	var longest time.Duration
	var stop atomic.Bool
	var calls sync.WaitGroup
	c := s.Raw()
	calls.Go(func() {
		for !stop.Load() {
			from := time.Now()
			if _, err := c.Do("CL.THROTTLE", "bystander", "15", "30", "60"); !assert.NoError(t, err) {
				return
			}
			longest = max(longest, time.Since(from))
		}
	})
	for i := range 200 {
		v := s.Do("CL.PEEK", fmt.Sprint("fault:garbage", i), "RATE", "1/s")
		assert.False(t, v.IsError(), "%v", v)
	}
	stop.Store(true)
	calls.Wait()
	r := goRuntime(t, s)
	t.Logf("6.4 GB of garbage, 100,000 keys in CL.TOP: %d collections, the longest standstill of Go %v, the longest call of a bystander %v",
		r.collections-before.collections, r.longestPause, longest)
	assert.Greater(t, r.collections, before.collections)
	a, err := kit.AnswerIn(s.MustDo(kit.RawCallOf("healthy", "15 30 60 1")...))
	require.NoError(t, err)
	assert.Equal(t, kit.NewAnswer(0, 16, 15, -1, 2), a)
	assert.Less(t, addressSpace(t, s, "VmRSS"), uint64(1<<30), "garbage is used again")
}

type runtimeReport struct {
	collections, environment, processors int
	longestPause                         time.Duration
}

// goRuntime asks the test build what the Go runtime inside of it says.
func goRuntime(t *testing.T, s *server.Server) (r runtimeReport) {
	t.Helper()
	text := s.Do("CL.PEEK", "fault:runtime", "RATE", "1/s").Text
	_, values, found := strings.Cut(text, "collections=")
	require.True(t, found, text)
	_, err := fmt.Sscanf(values, "%d longest_pause_ns=%d environment=%d processors=%d",
		&r.collections, &r.longestPause, &r.environment, &r.processors)
	require.NoError(t, err, text)
	return r
}

func callMany(t *testing.T, s *server.Server, n int) {
	t.Helper()
	c := s.Raw()
	for at := 0; at < n; at += 1000 {
		commands := make([][]string, 1000)
		for i := range commands {
			commands[i] = kit.RawCallOf(fmt.Sprint("key", (at+i)%5000), "3 1 60")
		}
		_, err := c.Pipeline(commands...)
		require.NoError(t, err)
	}
}

// fillTop gives CL.TOP so many keys to count.
func fillTop(t *testing.T, s *server.Server, n int) {
	t.Helper()
	c := s.Raw()
	for at := 0; at < n; at += 1000 {
		commands := make([][]string, 1000)
		for i := range commands {
			commands[i] = kit.RawCallOf(fmt.Sprint("top", at+i), "0 1 1d 2")
		}
		_, err := c.Pipeline(commands...)
		require.NoError(t, err)
	}
}

// threads are the names of the server's threads, by their ids.
func threads(t *testing.T, s *server.Server) map[int]string {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.Pid()))
	require.NoError(t, err)
	names := map[int]string{}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		require.NoError(t, err)
		names[tid] = threadName(t, tid)
	}
	return names
}

// signals are the numbers in one of the signal masks of the server's main thread.
func signals(t *testing.T, s *server.Server, mask string) (numbers []int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "\n"+mask+":")
	require.True(t, found)
	text, _, _ := strings.Cut(rest, "\n")
	bits, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
	require.NoError(t, err)
	for n := 1; n <= 64; n++ {
		if bits>>(n-1)&1 != 0 {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func minus(all, without []int) (rest []int) {
	for _, n := range all {
		if !slices.Contains(without, n) {
			rest = append(rest, n)
		}
	}
	return rest
}
