package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"redis-throttle/tests/resp"
)

// StartDaemon starts a server that puts itself into the background, and returns a
// connection to it. It is no child of this process, so it is stopped by the id it
// writes to its file.
func StartDaemon(t testing.TB, p Program, dir string, config ...string) (*resp.Conn, error) {
	t.Helper()
	port := FreePort(t)
	pidFile := filepath.Join(dir, "daemon.pid")
	lines := append([]string{
		"daemonize yes", "bind 127.0.0.1", fmt.Sprintf("port %d", port),
		fmt.Sprintf("dir %q", dir), fmt.Sprintf("pidfile %q", pidFile),
	}, config...)
	conf := filepath.Join(dir, "daemon.conf")
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return nil, err
	}
	t.Cleanup(func() { stopDaemon(t, pidFile) })
	if out, err := exec.Command(p.Path, conf).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	for deadline := time.Now().Add(startPatience); ; {
		c, err := resp.Dial(fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
			return c, nil
		}
		if time.Now().After(deadline) {
			return nil, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func stopDaemon(t testing.TB, pidFile string) {
	b, err := os.ReadFile(pidFile)
	if err != nil {
		return // it never came up
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		t.Errorf("pid file holds %q", b)
		return
	}
	_ = syscall.Kill(pid, syscall.SIGTERM) // fails only when it is gone, which is looked at next
	for deadline := time.Now().Add(stopPatience); !HasEnded(pid); {
		if time.Now().After(deadline) {
			t.Errorf("daemon %d had to be killed", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := os.Stat(pidFile); err == nil {
		t.Errorf("daemon %d left its pid file behind: that was no orderly end", pid)
	}
}

// HasEnded reports whether a process that is no child of this one is gone, or has ended
// and waits for init to reap it.
func HasEnded(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, afterName, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(afterName, "Z")
}
