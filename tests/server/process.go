package server

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// process is a child that the kernel kills when this test binary dies, so that a
// killed test run leaves no server behind.
type process struct {
	cmd *exec.Cmd
	// done is closed when the process has ended; cmd.ProcessState then says how.
	done chan struct{}
}

// parent runs functions on one thread that lives as long as this binary. The kernel
// sends the parent-death signal when the thread that forked the child ends, and
// goroutines otherwise come and go on threads that do end.
var parent = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// startProcess runs a program in a folder, with both its outputs appended to a log.
func startProcess(path string, args []string, dir, logPath string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	parent() <- func() { started <- cmd.Start() }
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

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended
	<-p.done
}
