package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// startPatience and stopPatience bound a server that hangs; they are never waited out.
const (
	startPatience = 15 * time.Second
	stopPatience  = 10 * time.Second
)

// privateServer is a server for this program alone: in a temporary folder, behind a socket
// in it, on no network port.
type privateServer struct {
	client *redis.Client // never sends a command twice

	dir     string
	process *exec.Cmd
	ended   chan struct{}
}

// startServer returns when the server answers. Close it.
func startServer(ctx context.Context, program, module string) (_ *privateServer, err error) {
	module, err = filepath.Abs(module)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "throttle-picture-")
	if err != nil {
		return nil, err
	}
	s := &privateServer{dir: dir, ended: make(chan struct{})}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	socket, logPath := filepath.Join(dir, "socket"), filepath.Join(dir, "log")
	s.process = exec.Command(program, "--port", "0", "--unixsocket", socket, "--dir", dir,
		"--save", "", "--logfile", logPath, "--loadmodule", module)
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this program
	if err := s.process.Start(); err != nil {
		s.process = nil
		return nil, err
	}
	go func() {
		_ = s.process.Wait() // how it ended is of no interest
		close(s.ended)
	}()
	s.client = redis.NewClient(&redis.Options{
		Network: "unix", Addr: socket, MaxRetries: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	if err := s.awaitReady(ctx); err != nil {
		log, _ := os.ReadFile(logPath)
		return nil, fmt.Errorf("%s did not come up: %w; its log:\n%s", program, err, log)
	}
	return s, nil
}

func (s *privateServer) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		err := s.client.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *privateServer) close() {
	if s.client != nil {
		_ = s.client.Close()
	}
	if s.process != nil {
		s.stop()
	}
	_ = os.RemoveAll(s.dir)
}

func (s *privateServer) stop() {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = s.process.Process.Signal(signal) // fails only when it has ended
		select {
		case <-s.ended:
			return
		case <-time.After(stopPatience):
		}
	}
	<-s.ended
}
