// Package clock gives a server a wall clock that the test sets, to the nanosecond, forward or
// back. A small library, preloaded into the server, answers for the kernel; nothing of the server or
// of the module is replaced.
package clock

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"redis-throttle/tests/server"
)

//go:embed testdata/clock.c
var source []byte

// Clock is the wall clock of the servers that it starts. It stands still until it is
// set. Timers and the event loop go by the monotonic clock, which is the kernel's.
type Clock struct {
	t      testing.TB
	dir    string
	mapped []byte
}

// New makes a clock that says nowNs, in nanoseconds since the epoch. It needs the C compiler that
// Go uses.
func New(t testing.TB, nowNs int64) *Clock {
	t.Helper()
	c := &Clock{t: t, dir: t.TempDir()}
	require.NoError(t, os.WriteFile(c.path("clock.c"), source, 0o644))
	compile := append(compiler(t), "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", c.path("clock.so"), c.path("clock.c"), "-ldl")
	out, err := exec.Command(compile[0], compile[1:]...).CombinedOutput()
	require.NoError(t, err, "%q: %s", compile, out)
	require.NoError(t, os.WriteFile(c.path("now"), binary.NativeEndian.AppendUint64(nil, uint64(nowNs)), 0o644))
	f, err := os.OpenFile(c.path("now"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	c.mapped, err = unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(c.mapped) })
	return c
}

// Start starts the server under test with this clock. It skips the test where a server goes by a counter
// of the processor in between, which cannot be replaced (Valkey 9.1 on ARM).
func (c *Clock) Start(opts ...server.Option) *server.Server {
	c.t.Helper()
	s := server.Start(c.t, append(opts, server.Run(c.Program()))...)
	c.RequireBy(s)
	return s
}

// Program is the server under test with this clock, for code that starts it.
func (c *Clock) Program() server.Program {
	c.t.Helper()
	p, err := server.DefaultProgram()
	require.NoError(c.t, err)
	script := fmt.Sprintf("#!/bin/sh\nLD_PRELOAD=%s THROTTLE_TEST_CLOCK=%s exec %s \"$@\"\n",
		quoted(c.path("clock.so")), quoted(c.path("now")), quoted(p.Path))
	p.Path = c.path("server")
	require.NoError(c.t, os.WriteFile(p.Path, []byte(script), 0o755))
	return p
}

// RequireBy skips the test where a server does not go by this clock.
func (c *Clock) RequireBy(s *server.Server) {
	c.t.Helper()
	if len(s.LogLines("monotonic clock: POSIX")) == 0 {
		c.t.Skip("the server goes by a counter of the processor")
	}
}

// Set sets the clock. A test that calls it only while none of its commands is under way knows to the
// nanosecond when each of them ran.
func (c *Clock) Set(nowNs int64) {
	atomic.StoreInt64((*int64)(unsafe.Pointer(&c.mapped[0])), nowNs)
}

func (c *Clock) path(name string) string { return filepath.Join(c.dir, name) }

// compiler is the C compiler that cgo uses, with its arguments.
func compiler(t testing.TB) []string {
	t.Helper()
	out, err := exec.Command("go", "env", "CC").Output()
	require.NoError(t, err, "go env CC")
	words := strings.Fields(string(out))
	require.NotEmpty(t, words, "go env CC")
	return words
}

// quoted is s as one word of the shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
