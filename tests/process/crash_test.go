package process_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// Go's runtime takes over the handlers of fatal signals. The server's own crash report
// is what its operators know how to read, and must still come.
func TestServerStillPrintsItsOwnCrashReport(t *testing.T) {
	server.NeedsServer(t, "crash reports")
	t.Parallel()
	for name, before := range map[string]func(s *server.Server){
		"after a call":    func(s *server.Server) { s.Do(kit.RawCallOf("key", "15 30 60 1")...) },
		"right away":      func(*server.Server) {},
		"after unloading": func(s *server.Server) { s.MustDo("MODULE", "UNLOAD", "throttle") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			before(s)
			s.ExpectCrash()
			c := s.Raw()
			require.NoError(t, c.Send("DEBUG", "SEGFAULT"))
			require.NoError(t, c.Flush())
			state := s.AwaitEnd()
			assert.Equal(t, syscall.SIGSEGV, state.Sys().(syscall.WaitStatus).Signal())
			log := s.Log()
			for _, part := range []string{"crashed by signal: 11", "STACK TRACE", "INFO OUTPUT", "BUG REPORT END"} {
				assert.Contains(t, log, part)
			}
			assert.NotContains(t, log, "goroutine", "and nothing of Go's")
		})
	}
}

// Writing to a client that is gone raises SIGPIPE, which Go handles as well.
func TestClientsThatVanishInTheMiddleOfAReply(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for range 50 {
		c := s.Raw()
		for range 2000 {
			require.NoError(t, c.Send(kit.RawCallOf("key", "15 30 60 1")...))
		}
		require.NoError(t, c.Flush())
		_, err := c.Receive() // the others are on their way
		require.NoError(t, err)
		require.NoError(t, c.Reset())
	}
	// Half a command, and gone.
	for range 50 {
		c := s.Raw()
		require.NoError(t, c.SendRaw([]byte("*5\r\n$11\r\nCL.THROTTLE\r\n$3\r\nke")))
		require.NoError(t, c.Flush())
		require.NoError(t, c.Reset())
	}
	require.Eventually(t, func() bool { return s.Info("clients")["connected_clients"] == "1" },
		20*time.Second, 10*time.Millisecond)
	a, err := kit.AnswerIn(s.Do(kit.RawCallOf("new", "15 30 60 1")...))
	require.NoError(t, err)
	assert.Equal(t, kit.FirstOf16, a)
}

// While the server writes its crash report, Go's threads stand still and no signal reaches them. The server's own
// go on, whenever the module was loaded: the report may need a lock that one of them holds.
func TestACrashStopsGoThreadsAndNoOthers(t *testing.T) {
	t.Parallel()
	path, err := server.ModulePath()
	require.NoError(t, err)
	load := func(s *server.Server) { s.MustDo("MODULE", "LOAD", path) }
	loadAgain := func(s *server.Server) {
		s.MustDo("MODULE", "UNLOAD", "throttle")
		load(s)
	}
	nothing := func(*server.Server) {}
	without := server.WithoutModule()
	for name, tc := range map[string]struct {
		options     []server.Option
		first, then func(*server.Server)
	}{
		"loaded at the start":        {nil, nothing, nothing},
		"loaded by a running server": {[]server.Option{without}, load, nothing},
		"loaded beside many threads": {[]server.Option{without, server.Config("io-threads 100")}, load, nothing},
		"loaded again":               {nil, nothing, loadAgain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, append(tc.options, server.Config("logfile report", "crash-memcheck-enabled no"))...)
			if strings.Contains(name, "many") && s.Program.AtLeast(8, 0) && !s.Program.IsValkey() {
				t.Skip("from Redis 8 on, I/O threads spin while a module is loaded: a hundred of them take minutes on a few cores")
			}
			tc.first(s)
			before := statesOf(t, s)
			tc.then(s)
			callMany(t, s, 1000)

			r := startReport(t, s)
			s.ExpectCrash()
			c := s.Raw()
			require.NoError(t, c.Send("DEBUG", "SEGFAULT"))
			require.NoError(t, c.Flush())
			r.readUpTo("MODULES INFO OUTPUT")

			// The server calls the module and then waits for its next line to be read.
			var goThreads []int
			for tid, was := range before {
				switch name := threadName(t, tid); {
				case tid == s.Pid() || was.blocks(syscall.SIGPWR): // such as jemalloc's
				case name == threadName(t, s.Pid()):
					goThreads = append(goThreads, tid)
				default:
					assert.Equal(t, was.blocked, stateOf(t, tid).blocked, "%s was stopped", name)
					assert.Zero(t, stateOf(t, tid).pending, "%s will be stopped", name)
				}
			}
			// The one that Go began on, and its monitor. Go may have started others after the module had looked, but
			// only its monitor wakes by itself.
			slices.Sort(goThreads)
			require.GreaterOrEqual(t, len(goThreads), 2)
			for _, tid := range goThreads[:2] {
				require.Eventually(t, func() bool { return stateOf(t, tid).isStill() }, 60*time.Second, time.Millisecond, "a thread of Go's")
			}
			r.readAll()
			assert.Contains(t, r.text.String(), "BUG REPORT END")
		})
	}
}

// threadState is what the kernel tells of a thread: whether it sleeps, and its sets of signals.
type threadState struct {
	sleeps           bool
	blocked, pending uint64
}

func stateOf(t *testing.T, tid int) (state threadState) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch name {
		case "State":
			state.sleeps = strings.HasPrefix(value, "S")
		case "SigBlk":
			state.blocked, err = strconv.ParseUint(value, 16, 64)
		case "SigPnd":
			state.pending, err = strconv.ParseUint(value, 16, 64)
		}
		require.NoError(t, err)
	}
	return state
}

func statesOf(t *testing.T, s *server.Server) map[int]threadState {
	t.Helper()
	states := map[int]threadState{}
	for tid := range threads(t, s) {
		states[tid] = stateOf(t, tid)
	}
	return states
}

func (s threadState) blocks(signal syscall.Signal) bool { return s.blocked>>(signal-1)&1 != 0 }

// isStill reports whether a thread sleeps and nothing can wake it: every signal is blocked but the two that cannot be,
// and the C library's own.
func (s threadState) isStill() bool { return s.sleeps && s.blocked == 0xfffffffe7ffbfeff }

// report is the log of a server that opens the file anew for each line, and waits for each line to be read: it finds
// another pipe there, and nobody reads from that yet.
type report struct {
	t     *testing.T
	s     *server.Server
	pipes int
	open  []int // descriptors
	room  [4096]byte
	text  strings.Builder
}

func startReport(t *testing.T, s *server.Server) *report {
	t.Helper()
	r := &report{t: t, s: s}
	t.Cleanup(func() {
		for _, f := range r.open {
			_ = syscall.Close(f)
		}
	})
	r.addPipe()
	return r
}

func (r *report) addPipe() {
	r.t.Helper()
	r.pipes++
	require.NoError(r.t, syscall.Mkfifo(r.lastPipe(), 0o600))
	r.logTo(r.lastPipe())
}

func (r *report) lastPipe() string { return filepath.Join(r.s.Dir, fmt.Sprint("pipe", r.pipes)) }

func (r *report) logTo(path string) {
	r.t.Helper()
	link := filepath.Join(r.s.Dir, "link")
	require.NoError(r.t, os.Symlink(path, link))
	require.NoError(r.t, os.Rename(link, filepath.Join(r.s.Dir, "report")))
}

// read opens a pipe as well, and reads the next line. After some time without one, the server was late for that pipe,
// and waits at the next one. Nothing here waits for the server: it may keep a pipe open.
func (r *report) read(pipe string) {
	r.t.Helper()
	f, err := syscall.Open(pipe, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	require.NoError(r.t, err)
	r.open = append(r.open, f)
	for had, tries := r.text.Len(), 0; r.text.Len() == had && tries < 20; tries++ {
		time.Sleep(time.Millisecond)
		for _, f := range r.open {
			for {
				n, err := syscall.Read(f, r.room[:])
				if n <= 0 {
					require.Contains(r.t, []error{nil, syscall.EAGAIN, syscall.EINTR}, err)
					break
				}
				r.text.Write(r.room[:n])
			}
		}
	}
}

// readUpTo returns when the server has written text and waits with the next line, or is about to.
func (r *report) readUpTo(text string) {
	r.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !strings.Contains(r.text.String(), text); {
		require.True(r.t, time.Now().Before(deadline), "the report: %s", &r.text)
		pipe := r.lastPipe()
		r.addPipe()
		r.read(pipe)
	}
}

// readAll lets the server go on to the end.
func (r *report) readAll() {
	r.t.Helper()
	rest := filepath.Join(r.s.Dir, "rest")
	r.logTo(rest)
	r.read(r.lastPipe())
	r.s.AwaitEnd()
	b, err := os.ReadFile(rest)
	require.NoError(r.t, err)
	r.text.Write(b)
}

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
					commands[i] = kit.AnyCall(random)
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
		kit.AwaitWaiting(t, admin, 99)
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
	l := kit.StartLoad(t, s, kit.AnyCall, nil)
	s.MustDo("CONFIG", "SET", "watchdog-period", "200")
	for range 100 {
		require.NoError(t, syscall.Kill(s.Pid(), syscall.SIGALRM))
		time.Sleep(time.Millisecond) // signals that come together are one
	}
	calls := l.Calls.Load()
	require.Eventually(t, func() bool { return l.Calls.Load() > calls+1000 }, 60*time.Second, time.Millisecond, "it goes on")
	s.MustDo("CONFIG", "SET", "watchdog-period", "0")
	l.Stop()
	log := s.Log()
	seen := strings.Count(log, "WATCHDOG TIMER EXPIRED") + strings.Count(log, "SIGALRM")
	t.Logf("%d of 100 signals found their way into the log; the module is in %d lines of their stacks", seen, strings.Count(log, "throttle.so"))
	assert.Positive(t, seen)
	assert.False(t, s.Do("CL.LIMIT", "key", "RATE", "1/h").IsError())
}
