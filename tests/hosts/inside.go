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
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
)

// inside names the process that gave this one namespaces. Nobody else's value counts, so a variable that was left in
// the environment does no harm.
const inside = "THROTTLE_TEST_INSIDE"

func isInside() bool { return os.Getenv(inside) == strconv.Itoa(os.Getppid()) }

// Inside reports whether this process has namespaces of its own. If not, it runs the test again, alone, in a process
// that has them; the caller then returns, and the test passes, fails or is skipped as it did there. It is skipped on a
// machine that grants no namespaces. Flags of the test's package are passed on. It is for tests, not for subtests.
func Inside(t *testing.T) bool {
	t.Helper()
	if isInside() {
		return true
	}
	if err := separate(exec.Command("true")).Run(); err != nil {
		t.Skipf("no namespaces for hosts (root, or a kernel that grants them to users, has them): %v", err)
	}
	size.NeedsProgram(t, "ip")
	run := "^" + t.Name() + "$"
	if _, subtests, ok := strings.Cut(flag.Lookup("test.run").Value.String(), "/"); ok {
		run += "/" + subtests
	}
	args := []string{"-test.run=" + run, "-test.v", "-test.timeout=0", "-test.short=" + strconv.FormatBool(testing.Short())}
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	cmd := separate(exec.Command(os.Args[0], args...))
	cmd.Env = append(os.Environ(), inside+"="+strconv.Itoa(os.Getpid()), "TMPDIR="+t.TempDir())
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	logged := make(chan struct{})
	var passed, skipped bool
	go func() {
		defer close(logged)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line := strings.TrimSpace(lines.Text())
			passed = passed || strings.HasPrefix(line, "--- PASS: "+t.Name()+" ")
			skipped = skipped || strings.HasPrefix(line, "--- SKIP: ") // of a subtest, too
			t.Log(line)
		}
		_, _ = io.Copy(io.Discard, out) // behind a line that is too long
	}()
	runtime.LockOSThread() // the process dies with the thread that started it
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	_ = in.Close()
	<-logged
	require.NoError(t, err)
	if skipped {
		t.Skip("skipped in a process with namespaces of its own")
	}
	require.True(t, passed, "the test did not run in a process with namespaces of its own")
	return false
}

// separate makes a command run in namespaces of its own, as their root, and die with the thread that starts it.
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
