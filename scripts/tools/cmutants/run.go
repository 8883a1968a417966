package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bench builds the module and runs the tests against it.
type bench struct {
	source, out string
	tests       []string // compiled packages
}

// nearest are the tests that are most likely to find a change of a file. They run first; the others run only if none of them fails.
var nearest = map[string]string{
	"module/alarm.c":      `Step|Clock|Overdue|Timeout|Wait|Lines`,
	"module/api.c":        `Loading|Load|Module|Limit`,
	"module/api.h":        `Loading|Load|Module|Limit`,
	"module/apply.c":      `Transcripts|Replicat|Keyspace|Trace|Touches|Limit|Nested|Event|Expir|Carr`,
	"module/bridge.h":     `Limit|Lease|Nested|Admission|Document|KeyOf|Line`,
	"module/clock.c":      `Step|Clock|Timeout|Wait|Line`,
	"module/command.c":    `Multi|Script|Lua|Nested|MLimit|Routed|KeyOf|Bad|Errors|InfoCounts|ACL`,
	"module/commands.c":   `Categor|Document|Flags|ACL|Busy|Loading|Administrators`,
	"module/config.c":     `Configuration|Config|Top|LoadArguments`,
	"module/crash.c":      `Crash|Inside|Watchdog|Unload|Threads`,
	"module/events.c":     `Replica|Promoted|Step|BGSAVE|Listen`,
	"module/fork.c":       `ForkedChild`,
	"module/gather.c":     `Transcripts|Nested|Arguments|Words|MLimit|TAT|Virtual|Throttle`,
	"module/info.h":       `EachKey|KeyOf|Document|ACL|Flags|Routed`,
	"module/line.c":       `Transcripts|Lease|Line|Turn|Window|Lapse|Wait|Caller|Leave|Order|Pause|Slots|Wakes|Crowd`,
	"module/listeners.c":  `Replica|AppendOnly|Missed|Listen|Promoted|BGSAVE|Effects`,
	"module/load.c":       `Load|Unload|Module|Watch|Second|Panic`,
	"module/path.h":       `Transcripts|Replicat|Keyspace|Throttle|Limit|Nested|Expir|Info|Errors|TAT|Words`,
	"module/unload.c":     `Unload|NoConnectionKeeps`,
	"module/log.c":        `Log|Panic|Load|Unload`,
	"module/members.c":    `Transcripts|Lease|Line|Lapse`,
	"module/memory.c":     `Maxmemory|Memory|Grow`,
	"module/neighbours.c": `Neighbour|Nested|Adds|Undisturbed|Carr`,
	"module/obstacle.c":   `Pause|Refused|Memory|Slot|Node|ZADD|Line`,
	"module/reply.c":      `Transcripts|Answer|Protocols|Repl|Top|Lease|Compact`,
	"module/stats.c":      `Info|Counter|Counted|Crash`,
	"module/timerslack.c": `Inside|Timers|Sleep`,
	"module/zones.c":      `Zone|Folder`,
}

// Limits for mutants that wait for ever, or that use up the memory or the disk.
const (
	nearestTimeout = "4m"
	restTimeout    = "10m"
	limits         = `ulimit -v 8388608 -f 1048576; exec "$@"` // KiB
)

func (b *bench) module() string      { return filepath.Join(b.out, "throttle.so") }
func (b *bench) checkModule() string { return filepath.Join(b.out, "throttle-check.so") }

// build makes both modules, as make build and make build-check do; a warning is an error. Go compiles anew only what changed.
func (b *bench) build() ([]byte, error) {
	for _, flags := range [][]string{
		{"-ldflags", "-s -w", "-o", b.module()},
		{"-tags", "faultinject", "-o", b.checkModule()},
	} {
		build := exec.Command("go", append([]string{"build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false"}, append(flags, "./throttle")...)...)
		build.Dir = filepath.Join(b.source, "module")
		build.Env = append(os.Environ(), "GOWORK=off", "CGO_CFLAGS=-O2 -Werror")
		if flags[0] == "-tags" {
			build.Env = append(build.Env, "GOEXPERIMENT=cgocheck2")
		}
		if output, err := build.CombinedOutput(); err != nil {
			return output, err
		}
	}
	for _, path := range []string{b.module(), b.checkModule()} {
		if err := os.Chmod(path, 0o755); err != nil { // the server insists
			return nil, err
		}
	}
	return nil, nil
}

var (
	failed   = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	crashed  = regexp.MustCompile(`server \d+ crashed: `)
	panicked = regexp.MustCompile(`(?m)^panic: (.*)`) // such as a timeout
)

// fails runs tests and returns the one that fails, or "" if all pass. A test that fails has to fail again on its own: some tests
// count how often threads wake, or how late something is, and other programs on the machine can spoil that.
func (b *bench) fails(log *os.File, run, skip, timeout string) string {
	for {
		failure, mayPass := b.run(log, run, skip, timeout)
		if !mayPass {
			return failure
		}
		alone := "^" + failure + "$"
		if again, _ := b.run(log, alone, "", timeout); again != "" {
			return again
		}
		skip = strings.TrimPrefix(skip+"|"+alone, "|")
	}
}

// run runs the tests of all packages up to the first that fails. It returns that test, and whether it is worth another try: not
// after a crash or a timeout.
func (b *bench) run(log *os.File, run, skip, timeout string) (failure string, mayPass bool) {
	for _, tests := range b.tests {
		if failure, mayPass = b.runPackage(log, tests, run, skip, timeout); failure != "" {
			return failure, mayPass
		}
	}
	return "", false
}

func (b *bench) runPackage(log *os.File, path, run, skip, timeout string) (failure string, mayPass bool) {
	room := filepath.Join(b.out, "tmp")
	check(os.RemoveAll(room))
	check(os.MkdirAll(room, 0o755))
	tests := exec.Command("bash", "-c", limits, "bash", path, "-test.failfast", "-test.parallel", "8",
		"-test.run", run, "-test.skip", skip, "-test.timeout", timeout)
	endGroup := func() { _ = syscall.Kill(-tests.Process.Pid, syscall.SIGKILL) }
	output := &watched{end: time.AfterFunc(time.Hour, endGroup)}
	tests.Env = append(os.Environ(), "TMPDIR="+room, "THROTTLE_SO="+b.module(), "THROTTLE_CHECK_SO="+b.checkModule())
	tests.Stdout, tests.Stderr = output, output
	tests.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(tests.Start())
	err := tests.Wait()
	output.end.Stop()
	endGroup() // nobody is left, as a rule
	endAllIn(room)
	_, _ = log.Write(output.Bytes())
	if err == nil {
		return "", false
	}
	if m := panicked.FindSubmatch(output.Bytes()); m != nil {
		return string(m[1]), false
	}
	m := failed.FindSubmatch(output.Bytes())
	switch {
	case m == nil:
		return err.Error(), false
	case crashed.Match(output.Bytes()):
		return string(m[1]) + ", a crash", false
	}
	return string(m[1]), true
}

// watched holds the output of tests. When one fails, it leaves time for its report, but not for the tests that still run.
type watched struct {
	bytes.Buffer
	end       *time.Timer
	hasFailed bool
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if !w.hasFailed && failed.Match(w.Bytes()) {
		w.hasFailed = true
		w.end.Reset(time.Second)
	}
	return n, err
}

// endAllIn ends the servers that work in a folder. Most die with the process that started them, but a daemon has another
// parent.
func endAllIn(folder string) {
	cwds, err := filepath.Glob("/proc/[0-9]*/cwd")
	check(err)
	for _, cwd := range cwds {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(cwd)))
		if in, err := os.Readlink(cwd); err == nil && strings.HasPrefix(in, folder+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// unchanged checks that the tests pass without a change, unless they have done so before, with the same modules.
func (b *bench) unchanged() error {
	if output, err := b.build(); err != nil {
		return fmt.Errorf("the module does not build: %w\n%s", err, output)
	}
	sum := sha256.New()
	for _, path := range append([]string{b.module(), b.checkModule()}, b.tests...) {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum.Write(text)
	}
	passed := filepath.Join(b.out, "passed")
	now := fmt.Sprintf("%x", sum.Sum(nil))
	if before, _ := os.ReadFile(passed); string(before) == now {
		return nil
	}
	log, err := os.Create(filepath.Join(b.out, "unchanged.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	if failure := b.fails(log, "", "", restTimeout); failure != "" {
		return fmt.Errorf("the tests fail without a change: %s: see %s", failure, log.Name())
	}
	return os.WriteFile(passed, []byte(now), 0o644)
}

// try makes the change, builds and tests, and takes it back.
func (b *bench) try(number int, m mutant) (verdict string, survives, viable bool) {
	path := filepath.Join(b.source, m.file)
	before, err := os.ReadFile(path)
	check(err)
	changed := string(before[:m.start]) + m.text + string(before[m.end:])
	check(os.WriteFile(path, []byte(changed), 0o644))
	defer func() { check(os.WriteFile(path, before, 0o644)) }()

	log, err := os.Create(filepath.Join(b.out, fmt.Sprintf("%d.log", number)))
	check(err)
	defer log.Close()
	if output, err := b.build(); err != nil {
		_, _ = log.Write(output)
		return "not viable", false, false
	}
	first := nearest[m.file]
	if first == "" {
		first = "."
	}
	if failure := b.fails(log, first, "", nearestTimeout); failure != "" {
		return "killed by " + failure, false, true
	}
	if failure := b.fails(log, "", first, restTimeout); failure != "" {
		return "killed by " + failure, false, true
	}
	return "survives", true, true
}
