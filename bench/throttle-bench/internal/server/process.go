package server

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// stopPatience is how long a server may take to end before it is killed.
const stopPatience = 15 * time.Second

// spawner runs functions on one thread that lives as long as this program. The
// kernel sends a child its parent-death signal when the thread that forked it ends,
// and goroutines otherwise come and go on threads that do end.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// process is a child that does not outlive this program, however that ends, and
// that a Ctrl-C at the terminal does not reach: who started it stops it.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

func startProcess(program string, args []string, dir string, log *os.File) (*process, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	spawner() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(p.done)
	}()
	return p, nil
}

func (p *process) stop() {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = p.cmd.Process.Signal(signal) // fails only when it has ended
		select {
		case <-p.done:
			return
		case <-time.After(stopPatience):
		}
	}
	<-p.done
}
