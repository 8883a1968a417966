// Package server runs real Redis and Valkey servers for tests. Each has a folder of its
// own and, by default, a free port of 127.0.0.1, and is stopped when its test ends. A
// server that crashes, or ends without being asked to, fails its test.
package server

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
)

// How long a server may take to come up, which includes loading its data, and to end.
// They only end a hang: nothing waits for as long in a test that passes.
const (
	startPatience = 60 * time.Second
	stopPatience  = 20 * time.Second
)

// Server is one server process, or a succession of them in the same folder and on
// the same port.
type Server struct {
	Host    string
	Port    int
	Dir     string
	Program Program

	t       testing.TB
	options options
	process *process
	// endExpected is set once the current process has been asked to end.
	endExpected   atomic.Bool
	crashExpected atomic.Bool
}

// Start runs a server and returns when it answers. By default it holds the module,
// and saves nothing to disk.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := TryStart(t, opts...)
	require.NoError(t, err)
	return s
}

// TryStart is Start for a server that may refuse to come up; its error then holds
// the end of the server's log.
func TryStart(t testing.TB, opts ...Option) (*Server, error) {
	t.Helper()
	s := &Server{t: t}
	for _, o := range opts {
		o(&s.options)
	}
	if err := s.options.complete(); err != nil {
		return nil, err
	}
	s.Program = *s.options.program
	if lacks := s.options.beyondDev(); s.Program.IsDev() && lacks != "" {
		t.Skip("throttle-dev does not have " + lacks)
	}
	s.Host = cmp.Or(s.options.host, "127.0.0.1")
	s.Dir = s.options.dir
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	t.Cleanup(s.cleanup)

	// A port that was free a moment ago may be taken by now, by a program that is no
	// test's.
	for attempt := 1; ; attempt++ {
		s.Port = s.options.port
		if s.Port == 0 {
			s.Port = FreePort(t)
		}
		err := s.launch()
		if err == nil {
			return s, nil
		}
		taken := strings.Contains(s.LogTail(), "ddress already in use") // of the server, and of Go
		if !taken || s.options.port != 0 || attempt == 5 {
			return nil, err
		}
	}
}

// launch starts a process and waits until it answers.
func (s *Server) launch() error {
	args, err := s.options.commandLine(s)
	if err != nil {
		return err
	}
	p, err := startProcess(s.Program.Path, args, s.Dir, s.LogPath())
	if err != nil {
		return err
	}
	s.process = p
	s.endExpected.Store(false)
	if err := s.awaitReady(); err != nil {
		s.endExpected.Store(true)
		p.kill()
		return fmt.Errorf("%s did not come up: %w\nits log ends in:\n%s", s.Program.Path, err, s.LogTail())
	}
	return nil
}

// awaitReady returns when this process, and not another one on its port, answers
// and has loaded its data.
func (s *Server) awaitReady() error {
	deadline := time.Now().Add(startPatience)
	for {
		err := s.ready()
		if err == nil {
			return nil
		}
		select {
		case <-s.process.done:
			return fmt.Errorf("it ended: %v", s.process.cmd.ProcessState)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

func (s *Server) ready() error {
	c, err := resp.Dial(s.Addr())
	if err != nil {
		return err
	}
	defer c.Close()
	if s.options.password != "" {
		if v, err := c.Do("AUTH", s.options.password); err != nil || v.IsError() {
			return fmt.Errorf("AUTH answers %v, %w", v, err)
		}
	}
	answers, err := c.Pipeline([]string{"PING"}, []string{"INFO", "server"})
	if err != nil {
		return err
	}
	if answers[0].Text != "PONG" {
		return fmt.Errorf("PING answers %v", answers[0])
	}
	if pid := ParseInfo(answers[1].Text)["process_id"]; pid != strconv.Itoa(s.Pid()) {
		return fmt.Errorf("process %s answers on port %d instead of %d", pid, s.Port, s.Pid())
	}
	return nil
}

// Addr is host:port.
func (s *Server) Addr() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Pid is the ID of the current process, or of the last one.
func (s *Server) Pid() int { return s.process.cmd.Process.Pid }

// Running reports whether the process is running.
func (s *Server) Running() bool { return s.process != nil && s.process.running() }

// Stop ends the server in an orderly way. It saves if it is configured to.
func (s *Server) Stop() {
	s.t.Helper()
	s.Signal(syscall.SIGTERM)
	s.AwaitEnd()
}

// Kill ends the server with kill -9, as if its host had lost power.
func (s *Server) Kill() {
	s.t.Helper()
	s.Signal(syscall.SIGKILL)
	s.AwaitEnd()
}

// Restart starts the server again in the same folder and on the same port. If it still
// runs, it is stopped in an orderly way before.
func (s *Server) Restart() {
	s.t.Helper()
	require.NoError(s.t, s.TryRestart())
}

// TryRestart is Restart for a server that may refuse to come up.
func (s *Server) TryRestart() error {
	s.t.Helper()
	if s.Running() {
		s.Stop()
	}
	return s.launch()
}

// Configure changes the options for the next Restart.
func (s *Server) Configure(opts ...Option) {
	s.t.Helper()
	for _, o := range opts {
		o(&s.options)
	}
	require.NoError(s.t, s.options.complete())
	s.Program = *s.options.program
}

// ExpectEnd allows the current process to end by itself.
func (s *Server) ExpectEnd() { s.endExpected.Store(true) }

// Pause stops the process without its noticing, like a host that hangs, until Resume.
// When Pause returns, the process has stopped.
func (s *Server) Pause() {
	s.t.Helper()
	s.Signal(syscall.SIGSTOP)
	require.Eventually(s.t, func() bool { return s.procStat()[0] == "T" }, stopPatience, time.Millisecond)
}

// CPUTime is what the process has used so far, in user and kernel mode.
func (s *Server) CPUTime() time.Duration {
	s.t.Helper()
	var ticks int64
	for _, field := range s.procStat()[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		require.NoError(s.t, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// ticksPerSecond is the unit of times in /proc on every Linux architecture of today.
const ticksPerSecond = 100

// procStat is what the kernel says about the process, from field 3 (the state) of proc(5)'s
// /proc/pid/stat on.
func (s *Server) procStat() []string {
	s.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Pid()))
	require.NoError(s.t, err)
	_, afterName, _ := strings.Cut(string(b), ") ")
	return strings.Fields(afterName)
}

// Resume undoes Pause.
func (s *Server) Resume() { s.t.Helper(); s.Signal(syscall.SIGCONT) }

// Signal sends the process a signal.
func (s *Server) Signal(sig syscall.Signal) {
	s.t.Helper()
	if sig != syscall.SIGSTOP && sig != syscall.SIGCONT {
		s.endExpected.Store(true)
	}
	require.NoError(s.t, s.process.cmd.Process.Signal(sig))
}

// AwaitEnd waits for a process that was told to end and returns how it did.
func (s *Server) AwaitEnd() *os.ProcessState {
	s.t.Helper()
	s.endExpected.Store(true)
	select {
	case <-s.process.done:
	case <-time.After(stopPatience):
		require.Failf(s.t, "server does not end", "process %d; its log ends in:\n%s", s.Pid(), s.LogTail())
	}
	return s.process.cmd.ProcessState
}

// cleanup ends the process by its id, and judges how it behaved.
func (s *Server) cleanup() {
	if s.process == nil {
		return
	}
	if s.process.running() {
		s.end()
	} else if !s.endExpected.Load() {
		s.t.Errorf("server %d ended by itself: %v", s.Pid(), s.process.cmd.ProcessState)
	}
	if !s.crashExpected.Load() {
		if report := s.CrashReport(); report != "" {
			s.t.Errorf("server %d crashed: %s", s.Pid(), report)
		}
	}
	if s.t.Failed() {
		s.t.Logf("the log of %s on port %d ends in:\n%s", s.Program.Name, s.Port, s.LogTail())
	}
}

// end asks the process to end, first by SHUTDOWN, then by SIGTERM, then by SIGKILL.
func (s *Server) end() {
	_ = s.process.cmd.Process.Signal(syscall.SIGCONT)
	if c, err := resp.Dial(s.Addr()); err == nil {
		if s.options.password != "" {
			_ = c.Send("AUTH", s.options.password)
		}
		_ = c.Send("SHUTDOWN", "NOSAVE")
		_ = c.Flush()
		defer c.Close()
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-s.process.done:
			return
		case <-time.After(stopPatience / 2):
			if sig == syscall.SIGKILL {
				s.t.Errorf("server %d had to be killed", s.Pid())
			}
			_ = s.process.cmd.Process.Signal(sig)
		}
	}
	<-s.process.done
}
