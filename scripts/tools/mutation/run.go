// Package mutation breaks code in places drawn at random, one at a time, and checks that a test fails.
package mutation

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Bench builds what is mutated and runs the tests against it.
type Bench struct {
	// Source is a copy of the code, which is changed. Out is for what is built and what the tests print.
	Source, Out string
	// Tests are compiled packages of tests. They run in the current folder, one after the other.
	Tests []string
	// Args and Env are what they are given, Built the files that they test and that Build makes. An error of Build
	// makes a mutant not viable.
	Args, Env, Built []string
	Build            func() (output []byte, err error)
	// Stages are the tests that run for a mutant of a file, up to the first that fails.
	Stages func(file string) []Stage
}

// Stage is some of the tests: those of the pattern Run without those of Skip, as go test takes them. A hang ends after
// Timeout.
type Stage struct {
	Run, Skip, Timeout string
	// IsCertain says that a failure is one: no other program on the machine can make these tests fail.
	IsCertain bool
}

// Limits for mutants that wait for ever, or that use up the memory or the disk.
const (
	allTimeout = "10m"
	limits     = `ulimit -v 8388608 -f 1048576; exec "$@"` // KiB
)

var (
	failed   = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	crashed  = regexp.MustCompile(`server \d+ crashed: `)
	panicked = regexp.MustCompile(`(?m)^panic: (.*)`) // such as a timeout
)

// fails runs tests and returns the one that fails, or "" if all pass. A test that fails has to fail again on its own:
// some tests count how often threads wake, or how late something is, and other programs on the machine can spoil that.
func (b *Bench) fails(log *os.File, s Stage) string {
	for {
		failure, mayPass := b.run(log, s)
		if !mayPass || s.IsCertain {
			return failure
		}
		alone := "^" + failure + "$"
		if again, _ := b.run(log, Stage{Run: alone, Timeout: s.Timeout}); again != "" {
			return again
		}
		s.Skip = strings.TrimPrefix(s.Skip+"|"+alone, "|")
	}
}

// run runs the tests of all packages up to the first that fails. It returns that test, and whether it is worth another
// try: not after a crash or a timeout.
func (b *Bench) run(log *os.File, s Stage) (failure string, mayPass bool) {
	for _, tests := range b.Tests {
		if failure, mayPass = b.runPackage(log, tests, s); failure != "" {
			return failure, mayPass
		}
	}
	return "", false
}

func (b *Bench) runPackage(log *os.File, path string, s Stage) (failure string, mayPass bool) {
	room := filepath.Join(b.Out, "tmp")
	check(os.RemoveAll(room))
	check(os.MkdirAll(room, 0o755))
	args := []string{"-c", limits, "bash", path, "-test.failfast", "-test.parallel", "8", "-test.run", s.Run, "-test.skip", s.Skip, "-test.timeout", s.Timeout}
	tests := exec.Command("bash", append(args, b.Args...)...)
	endGroup := func() { _ = syscall.Kill(-tests.Process.Pid, syscall.SIGKILL) }
	output := &watched{end: time.AfterFunc(time.Hour, endGroup)}
	tests.Env = append(append(os.Environ(), "TMPDIR="+room), b.Env...)
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

// watched holds the output of tests. When one fails, it leaves time for its report, but not for the tests that still
// run.
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

// endAllIn ends the servers that work in a folder. Most die with the process that started them, but a daemon has
// another parent.
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

// unchanged checks that the tests pass without a change, unless they have done so before, with the same files.
func (b *Bench) unchanged() error {
	if output, err := b.Build(); err != nil {
		return fmt.Errorf("it does not build: %w\n%s", err, output)
	}
	sum := sha256.New()
	for _, path := range append(slices.Clone(b.Built), b.Tests...) {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum.Write(text)
	}
	passed := filepath.Join(b.Out, "passed")
	now := fmt.Sprintf("%x", sum.Sum(nil))
	if before, _ := os.ReadFile(passed); string(before) == now {
		return nil
	}
	log, err := os.Create(filepath.Join(b.Out, "unchanged.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	if failure := b.fails(log, Stage{Timeout: allTimeout}); failure != "" {
		return fmt.Errorf("the tests fail without a change: %s: see %s", failure, log.Name())
	}
	return os.WriteFile(passed, []byte(now), 0o644)
}

// try makes the change, builds and tests, and takes it back.
func (b *Bench) try(number int, m Mutant) (verdict string, survives, viable bool) {
	path := filepath.Join(b.Source, m.File)
	before, err := os.ReadFile(path)
	check(err)
	changed := string(before[:m.Start]) + m.Text + string(before[m.End:])
	check(os.WriteFile(path, []byte(changed), 0o644))
	defer func() { check(os.WriteFile(path, before, 0o644)) }()

	log, err := os.Create(filepath.Join(b.Out, fmt.Sprintf("%d.log", number)))
	check(err)
	defer log.Close()
	if output, err := b.Build(); err != nil {
		_, _ = log.Write(output)
		return "not viable", false, false
	}
	for _, stage := range b.Stages(m.File) {
		if failure := b.fails(log, stage); failure != "" {
			return "killed by " + failure, false, true
		}
	}
	return "survives", true, true
}
