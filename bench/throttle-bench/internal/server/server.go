// Package server runs the servers that are measured: each on a free port of
// 127.0.0.1, in a temporary folder of its own, saving nothing unless told to.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// startPatience bounds a server that does not come up; it is never waited out.
	startPatience = 30 * time.Second
	// portAttempts: a port found free may be taken before the server binds it.
	portAttempts = 5
)

// Spec is what to start.
type Spec struct {
	Program    string   // path of the server's executable
	Module     string   // path of a module to load; "" for none
	ModuleArgs []string // what to load it with
	Args       []string // further options, as on the server's command line
}

// Server is one running server.
type Server struct {
	Port   int
	Client *redis.Client // speaks RESP2, never sends a command twice

	dir     string
	process *process
}

// Start runs a server and returns when it answers. Close it.
func Start(ctx context.Context, spec Spec) (*Server, error) {
	for attempt := 1; ; attempt++ {
		s, err := start(ctx, spec)
		if err == nil {
			return s, nil
		}
		if attempt == portAttempts || !strings.Contains(err.Error(), "Address already in use") {
			return nil, err
		}
	}
}

func start(ctx context.Context, spec Spec) (_ *Server, err error) {
	s := &Server{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.Port, err = freePort(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "throttle-bench-"); err != nil {
		return nil, err
	}
	log, err := os.Create(s.logPath())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if s.process, err = startProcess(spec.Program, s.commandLine(spec), s.dir, log); err != nil {
		return nil, err
	}
	s.Client = redis.NewClient(&redis.Options{
		Addr: s.Addr(), Protocol: 2, PoolSize: 1, MaxRetries: -1, DisableIdentity: true,
		ReadTimeout: 5 * time.Minute, WriteTimeout: time.Minute,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	if err := s.awaitReady(ctx); err != nil {
		return nil, fmt.Errorf("%s did not come up: %w\nits log ends in:\n%s",
			filepath.Base(spec.Program), err, s.logTail())
	}
	return s, nil
}

func (s *Server) commandLine(spec Spec) []string {
	args := []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.Port), "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}
	if spec.Module != "" {
		args = append(append(args, "--loadmodule", spec.Module), spec.ModuleArgs...)
	}
	return append(args, spec.Args...)
}

// awaitReady returns once this process, and not another one on its port, answers.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		info, err := s.Info(ctx)
		if pid := info.Text("process_id"); err == nil && pid != strconv.Itoa(s.PID()) {
			err = fmt.Errorf("process %s answers on port %d instead of %d", pid, s.Port, s.PID())
		}
		if err == nil {
			return nil
		}
		select {
		case <-s.process.done:
			return fmt.Errorf("it ended: %v", s.process.cmd.ProcessState)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Addr is host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// PID is the server's process ID.
func (s *Server) PID() int { return s.process.cmd.Process.Pid }

// Log is what the server has logged so far.
func (s *Server) Log() string {
	text, _ := os.ReadFile(s.logPath()) // none yet is an empty log
	return string(text)
}

// Close stops the server and removes its folder.
func (s *Server) Close() {
	if s.Client != nil {
		_ = s.Client.Close()
	}
	if s.process != nil {
		s.process.stop()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "server.log") }

func (s *Server) logTail() string {
	lines := slices.Collect(strings.Lines(s.Log()))
	return strings.Join(lines[max(0, len(lines)-10):], "")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
