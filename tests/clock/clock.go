// Package clock gives servers a wall clock that the test sets, to the nanosecond, forward or
// back. A small library, preloaded into the server, answers for the kernel; nothing of the server or
// of the module is replaced.
package clock

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/runnable"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/sharedlib"
)

//go:embed testdata/clock.c
var source []byte

// Clock is the wall clock of the servers that it starts. It stands still until it is
// set, or runs until it steps. Timers and the event loop go by the monotonic clock, which is the kernel's.
type Clock struct {
	t       testing.TB
	library string
	// numbers are the clock, by how many ns each host's is ahead of it, how many ns each reading takes, and after how
	// many readings it steps by how many ns.
	numbers *sharedlib.Numbers
	// devs are connections to each throttle-dev, which is told the time, nowNs.
	mu    sync.Mutex
	devs  []*resp.Conn
	nowNs int64
}

// Hosts is how many hosts may have clocks that differ, as in testdata/clock.c.
const Hosts = 16

// New makes a clock that says nowNs, in nanoseconds since the epoch. It needs the C compiler that
// Go uses.
func New(t testing.TB, nowNs int64) *Clock {
	t.Helper()
	c := &Clock{t: t, library: sharedlib.Build(t, "clock", source, "-ldl"), numbers: sharedlib.NewNumbers(t, 1+Hosts+3)}
	c.Set(nowNs)
	return c
}

// Running makes a clock that runs as the kernel's does, except for the steps that SetAhead makes.
func Running(t testing.TB) *Clock { t.Helper(); return New(t, 0) }

// Start starts the server under test with this clock. It skips the test where a server goes by a counter
// of the processor in between, which cannot be replaced (Valkey 9.1 on ARM).
func (c *Clock) Start(opts ...server.Option) *server.Server {
	c.t.Helper()
	p, err := server.DefaultProgram()
	require.NoError(c.t, err)
	if p.IsDev() {
		s := server.Start(c.t, opts...)
		c.mu.Lock()
		defer c.mu.Unlock()
		dev := s.Raw()
		c.devs = append(c.devs, dev)
		c.tell(dev)
		c.t.Cleanup(func() { // before the server stops: the clock may still be set
			c.mu.Lock()
			defer c.mu.Unlock()
			c.devs = slices.DeleteFunc(c.devs, func(d *resp.Conn) bool { return d == dev })
		})
		return s
	}
	s := server.Start(c.t, append(opts, server.Run(c.Program()))...)
	c.RequireBy(s)
	return s
}

// Program is the server under test with this clock, for code that starts it.
func (c *Clock) Program() server.Program {
	c.t.Helper()
	p, err := server.DefaultProgram()
	require.NoError(c.t, err)
	return c.ProgramOn(0, p, nil)
}

// ProgramOn is a program with the clock of a host, from 0 to Hosts - 1. More libraries may be preloaded, and words come
// before the program on its command line.
func (c *Clock) ProgramOn(host int, p server.Program, libraries []string, words ...string) server.Program {
	c.t.Helper()
	require.Less(c.t, host, Hosts)
	line := []string{"exec"}
	for _, word := range append(words, "env", "LD_PRELOAD="+strings.Join(append([]string{c.library}, libraries...), ":"),
		"THROTTLE_TEST_CLOCK="+c.numbers.Path, fmt.Sprint("THROTTLE_TEST_CLOCK_HOST=", host), p.Path) {
		line = append(line, quoted(word))
	}
	p.Path = filepath.Join(c.t.TempDir(), "server")
	runnable.Write(c.t, p.Path, "#!/bin/sh\n"+strings.Join(line, " ")+" \"$@\"\n")
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
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(nowNs, "STEP")
}

// Pass is Set on a server. On throttle-dev the time passes until then: callers that wait are answered at their
// instants.
func (c *Clock) Pass(nowNs int64) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(nowNs)
}

func (c *Clock) set(nowNs int64, how ...string) {
	c.t.Helper()
	c.nowNs = nowNs
	c.numbers.Set(0, nowNs)
	for _, dev := range c.devs {
		c.tell(dev, how...)
	}
}

// tell sets the clock of a throttle-dev, which stands still from then on; how is more words of CL.DEV.TIME.
func (c *Clock) tell(dev *resp.Conn, how ...string) {
	c.t.Helper()
	us := c.nowNs / 1000 // it shows microseconds
	v, err := dev.Do(append([]string{"CL.DEV.TIME", fmt.Sprintf("%d.%06d", us/1e6, us%1e6), "STOP"}, how...)...)
	require.NoError(c.t, err)
	require.False(c.t, v.IsError(), "%v", v)
}

// SetAhead makes the clock of a host differ from the others by ns, which may be negative.
func (c *Clock) SetAhead(host int, ns int64) { c.numbers.Set(1+host, ns) }

// SetReading makes all hosts stand still for ns whenever they have read the clock.
func (c *Clock) SetReading(ns int64) { c.numbers.Set(1+Hosts, ns) }

// StepAfter makes a clock step by ns, which may be negative, when servers have read theirs so many more times: the next
// reading is the first that sees it. It is the clock of the host that reads last. With 0 readings a step that has not
// come yet does not come.
func (c *Clock) StepAfter(readings, ns int64) {
	c.numbers.Set(1+Hosts+2, ns)
	c.numbers.Set(1+Hosts+1, readings)
}

// HasStepped tells whether the step of StepAfter has come.
func (c *Clock) HasStepped() bool { return c.numbers.Get(1+Hosts+1) <= 0 }

// quoted is s as one word of the shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
