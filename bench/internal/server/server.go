// Package server runs the private servers of the benchmark and of the picture: each on a
// free port of 127.0.0.1, in a temporary folder, saving nothing unless told to.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redis-throttle/bench/internal/must"
)

const (
	// startPatience and stopPatience bound a server that hangs; they are never waited out.
	startPatience = 30 * time.Second
	stopPatience  = 15 * time.Second
	// portAttempts: a port found free may be taken before the server binds it, which it then says.
	portAttempts = 5
	portTaken    = "Address already in use"
)

// The kernel kills a server when the thread that started it ends, so that it does not
// outlive this program, however that ends. The main thread lasts; servers are started from
// the main goroutine.
func init() { runtime.LockOSThread() }

// Server is one running server. Its Client speaks RESP2 and never sends a command twice.
type Server struct {
	*redis.Client
	Port int

	dir     string
	process *exec.Cmd
	stop    func()
	ended   chan struct{}
}

// Start runs a program with further options, as on a server's command line, and returns when
// it answers. Close it.
func Start(ctx context.Context, program string, options ...string) *Server {
	for attempt := 1; ; attempt++ {
		s, err := start(ctx, program, options)
		if err == nil || attempt == portAttempts || !strings.Contains(err.Error(), portTaken) {
			must.Do(err)
			return s
		}
	}
}

func start(ctx context.Context, program string, options []string) (s *Server, err error) {
	defer must.Catch(&err)
	s = &Server{Port: freePort(), dir: must.Get(os.MkdirTemp("", "throttle-bench-")), ended: make(chan struct{})}
	log := must.Get(os.Create(s.logPath()))
	defer log.Close()
	args := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(s.Port), "--dir", s.dir, "--save", "", "--appendonly", "no", "--daemonize", "no"}
	// Not the caller's context: the server ends when it is closed.
	lifetime, stop := context.WithCancel(context.Background())
	process := exec.CommandContext(lifetime, program, append(args, options...)...)
	process.Dir, process.Stdout, process.Stderr = s.dir, log, log
	process.Cancel = func() error { return process.Process.Signal(syscall.SIGTERM) }
	process.WaitDelay = stopPatience
	// A Ctrl-C at the terminal is for this program, which stops the server.
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.process, s.stop = process, stop
	must.Do(process.Start())
	go func() {
		_ = process.Wait() // how it ended is in ProcessState
		close(s.ended)
	}()
	s.Client = redis.NewClient(&redis.Options{
		Addr: s.Addr(), Protocol: 2, PoolSize: 1, MaxRetries: -1, DisableIdentity: true,
		ReadTimeout: 5 * time.Minute, WriteTimeout: time.Minute,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	if err := s.awaitReady(ctx); err != nil {
		said := s.Log()
		s.Close()
		if strings.Contains(said, portTaken) { // valgrind says much behind it
			must.Fail("%s: port %d: %s", filepath.Base(program), s.Port, portTaken)
		}
		lines := strings.Split(said, "\n")
		must.Fail("%s did not come up: %w\nits log ends in:\n%s", filepath.Base(program), err, strings.Join(lines[max(0, len(lines)-10):], "\n"))
	}
	return s, nil
}

// saysVersion is what a program says of itself: "Redis server v=8.0.2 sha=...".
var saysVersion = regexp.MustCompile(`^(\w+) server v=(\S+)`)

// VersionOf is the name and the version of a program.
func VersionOf(program string) string {
	found := saysVersion.FindStringSubmatch(string(must.Get(exec.Command(program, "--version").Output())))
	if found == nil {
		must.Fail("%s is no server: it does not say its version", program)
	}
	return found[1] + " " + found[2]
}

// freePort is one that nobody listens on now.
func freePort() int {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// awaitReady returns once this process, and not another one on its port, answers.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		err := s.isReady(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("it ended: %v", s.process.ProcessState)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// isReady asks the server, once it listens: the client would write a line for each attempt until then.
func (s *Server) isReady(ctx context.Context) error {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return err
	}
	_ = connection.Close()
	text, err := s.Info(ctx, "server").Result()
	if pid := ParseInfo(text)["process_id"]; err == nil && pid != strconv.Itoa(s.PID()) {
		return fmt.Errorf("process %s answers on its port", pid)
	}
	return err
}

// Addr is host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// PID is the server's process ID.
func (s *Server) PID() int { return s.process.Process.Pid }

// Log is what the server has logged so far.
func (s *Server) Log() string {
	text, _ := os.ReadFile(s.logPath()) // none yet is an empty log
	return string(text)
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "server.log") }

// Close stops the server and removes its folder.
func (s *Server) Close() {
	_ = s.Client.Close()
	s.stop()
	<-s.ended
	_ = os.RemoveAll(s.dir)
}
