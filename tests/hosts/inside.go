// Package hosts gives a test hosts of its own on one machine: each with a network namespace and an address, and
// with a small disk that fills up and slows down when the test says so. The network between them can be
// cut, in one direction or both.
//
// A test that uses it runs in a process with namespaces of its own. The machine's network is not touched, and the
// kernel removes everything when that process ends, however it ends.
package hosts

import (
	"bufio"
	"flag"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const inside = "THROTTLE_TEST_INSIDE"

// Inside says whether this process has namespaces of its own. Where it has none, Inside runs the test again, alone, in a
// process that has them, and the test is to return. It is skipped on a machine that grants none. Flags of
// the test's package are passed on.
func Inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		return true
	}
	if err := separate(exec.Command("true")).Run(); err != nil {
		t.Skipf("no namespaces for hosts (root, or a kernel that grants them to users, has them): %v", err)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("no network for hosts: ip is missing (package iproute2)")
	}
	run := "^" + t.Name() + "$"
	if _, subtests, ok := strings.Cut(flag.Lookup("test.run").Value.String(), "/"); ok {
		run += "/" + subtests
	}
	args := []string{"-test.run=" + run, "-test.v", "-test.timeout=0"}
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	cmd := separate(exec.Command(os.Args[0], args...))
	cmd.Env = append(os.Environ(), inside+"=yes", "TMPDIR="+t.TempDir())
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			t.Log(strings.TrimSpace(lines.Text()))
		}
		_, _ = io.Copy(io.Discard, out) // behind a line that is too long
	}()
	err := cmd.Run()
	_ = in.Close()
	<-logged
	require.NoError(t, err)
	return false
}

// separate makes a command run in namespaces of its own, as their root, and die with this process.
func separate(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	cmd.WaitDelay = time.Minute
	return cmd
}
