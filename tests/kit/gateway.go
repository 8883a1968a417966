package kit

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Gateway is throttle-gateway as a process.
type Gateway struct {
	Cmd   *exec.Cmd
	At    map[string]string // addresses by what they are for
	Ended chan struct{}     // closed when the process has ended
	log   Log
}

// GatewayCommand is a gateway on a server, on free ports. The program is the static one that is released.
func GatewayCommand(t testing.TB, redis string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(Built(t, "gateway/throttle-gateway", "CGO_ENABLED=0"), args...)
	cmd.Env = append(os.Environ(), "REDIS_URL="+redis, "REDIS_TIMEOUT=5s",
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_PORT=0", "PROMETHEUS_ADDR=127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// StartGateway starts a gateway, and returns when it listens. It ends with the test.
func StartGateway(t testing.TB, cmd *exec.Cmd) *Gateway {
	t.Helper()
	g := &Gateway{Cmd: cmd, At: map[string]string{}, Ended: make(chan struct{})}
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go g.read(bufio.NewScanner(stderr), sync.OnceFunc(func() { close(ready) }))
	t.Cleanup(func() {
		if !g.Ends() {
			_ = cmd.Process.Kill()
		}
		if t.Failed() {
			t.Log(g.Log())
		}
	})
	select {
	case <-ready:
	case <-g.Ended:
		t.Fatalf("the gateway ended: %s", g.Log())
	case <-time.After(time.Minute):
		t.Fatalf("the gateway does not listen: %s", g.Log())
	}
	return g
}

var listening = regexp.MustCompile(`msg="redis-throttle: listening" for=(\S+) at=(\S+)`)

// read reads what the process logs until it ends.
func (g *Gateway) read(lines *bufio.Scanner, listens func()) {
	for lines.Scan() {
		_, _ = fmt.Fprintln(&g.log, lines.Text())
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			g.At[m[1]] = m[2]
			if m[1] == "grpc" { // the last one
				listens()
			}
		}
	}
	_ = g.Cmd.Wait()
	close(g.Ended)
}

// Ends tells the process to end, as an orchestrator does, and reports whether it has.
func (g *Gateway) Ends() bool {
	_ = g.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-g.Ended:
		return true
	case <-time.After(time.Minute):
		return false
	}
}

// Log is what the process has logged.
func (g *Gateway) Log() string { return g.log.String() }
