package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

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
			// The one that Go began on, and its monitor. Go may have started others after the module had looked, but only its
			// monitor wakes by itself.
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

// isStill reports whether a thread sleeps and nothing can wake it: every signal is blocked but the two that cannot be, and the
// C library's own.
func (s threadState) isStill() bool { return s.sleeps && s.blocked == 0xfffffffe7ffbfeff }

// report is the log of a server that opens the file anew for each line, and waits for each line to be read: it finds another pipe
// there, and nobody reads from that yet.
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

// read opens a pipe as well, and reads the next line. After some time without one, the server was late for that pipe, and waits at
// the next one. Nothing here waits for the server: it may keep a pipe open.
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
