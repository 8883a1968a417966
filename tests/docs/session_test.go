package docs_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/runnable"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// patience bounds a command that hangs, and is never waited out.
const patience = time.Minute

// step is one command of a session, and what the page says that it prints.
type step struct {
	command string
	want    []string
	line    int // in the file
}

const prompt = "$ "

func (b block) isSession() bool { return len(b.lines) > 0 && strings.HasPrefix(b.lines[0], prompt) }

func (b block) steps() (steps []step) {
	for i, line := range b.lines {
		if command, ok := strings.CutPrefix(line, prompt); ok {
			steps = append(steps, step{command: command, line: b.line + i})
		} else {
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		}
	}
	return steps
}

// lacksOnDev are the pages that are about what throttle-dev does not have.
var lacksOnDev = map[string]string{
	"docs/functions.md": "functions",
	"docs/observing.md": "keyspace events",
	"docs/operating.md": "memory limits",
}

func TestExamplesPrintWhatThePagesSay(t *testing.T) {
	t.Parallel()
	sessions := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks() {
			if b.isSession() {
				sessions++
			}
		}
		t.Run(p.path, func(t *testing.T) {
			t.Parallel()
			if program, err := server.DefaultProgram(); err == nil && program.IsDev() && lacksOnDev[p.path] != "" {
				t.Skip("this page is about what throttle-dev does not have: " + lacksOnDev[p.path])
			}
			runPage(t, p)
		})
	}
	assert.Greater(t, sessions, 20, "sessions in all pages")
}

// A call on a page is part of a session, which is run, unless it is the syntax at the head of its page, or is explained
// word by word.
func TestCallsOnPagesAreRun(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for _, line := range callsNotRun(p) {
			t.Errorf("%s:%d: no test runs this block: begin its calls with %q", p.path, line, prompt+"redis-cli")
		}
	}
}

// callsNotRun returns the lines of a page at which blocks begin with a call that is not part of a session.
func callsNotRun(p page) (lines []int) {
	for _, part := range p.parts {
		b := part.block
		isCall := b != nil && len(b.lines) > 0 && (strings.HasPrefix(b.lines[0], "CL.") || b.language == "" && strings.HasPrefix(b.lines[0], "redis-cli CL."))
		isExplained := b != nil && len(b.lines) > 1 && strings.HasPrefix(strings.TrimLeft(b.lines[1], " "), "|")
		if isCall && !isExplained && !strings.EqualFold(part.heading, p.commandName()) {
			lines = append(lines, b.line)
		}
	}
	return lines
}

// runPage tells the first difference of a page: the others mostly follow from it.
func runPage(t *testing.T, p page) {
	all := differences(t, p)
	if len(all) == 0 {
		return
	}
	d := all[0]
	t.Errorf("%s:%d: $ %s\n%s\n\nit prints:\n%s\n\nand %d more commands of the page differ", p.path, d.step.line, d.step.command, d.text, strings.Join(d.got, "\n"), len(all)-1)
}

type difference struct {
	step step
	text string
	got  []string
}

// serverOf says on which server a page's sessions are run: the page about throttle-dev has that.
func serverOf(t *testing.T, p page) []server.Option {
	t.Helper()
	if p.path != "docs/throttle-dev.md" {
		return nil
	}
	program, err := server.DevProgram()
	require.NoError(t, err)
	return []server.Option{server.Run(program)}
}

// differences runs a page's sessions on a fresh server.
func differences(t *testing.T, p page) (all []difference) {
	t.Helper()
	var s *shell
	for i, part := range p.parts {
		if part.block == nil || !part.block.isSession() {
			continue
		}
		if s == nil {
			s = newShell(t, server.Start(t, serverOf(t, p)...))
		}
		for _, step := range part.block.steps() {
			switch {
			case subscribes.MatchString(step.command):
				s.subscribe(step)
			case strings.Contains(step.command, "| od "):
				got, _ := s.run(step)
				if text := differentBytes(step.want, got, byteTable(p.parts[i:])); text != "" {
					all = append(all, difference{step, text, got})
				}
			default:
				got, c := s.run(step)
				if text := c.differs(step.want, got); text != "" {
					all = append(all, difference{step, text, got})
				}
			}
		}
	}
	if s != nil {
		all = append(all, s.subscriptions()...)
	}
	return all
}

var subscribes = regexp.MustCompile(`(?i)^redis-cli .*\bP?SUBSCRIBE\b`)

// shell runs commands for which redis-cli speaks to one server.
type shell struct {
	t          *testing.T
	env        []string
	start      time.Time
	waited     time.Duration
	subscribed []*terminal
	steps      []step
}

func newShell(t *testing.T, s *server.Server) *shell {
	t.Helper()
	cli, err := server.CLIPath()
	require.NoError(t, err)
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %q -p %d \"$@\"\n", cli, s.Port)
	runnable.Write(t, filepath.Join(bin, "redis-cli"), script)
	env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+bin, "TERM=dumb", "LC_ALL=C")
	return &shell{t: t, env: env}
}

// run returns the lines that a command prints, and how they may differ from the page.
func (s *shell) run(step step) ([]string, comparison) {
	s.t.Helper()
	if s.start.IsZero() {
		s.start = time.Now()
	}
	began := time.Now()
	term := s.open(step)
	select {
	case <-term.done:
	case <-time.After(patience):
		require.Failf(s.t, "command hangs", "line %d: %s\n%s", step.line, step.command, term.text())
	}
	got := term.lines()
	s.waited += waitOf(step.command, got)
	return got, comparison{command: step.command, slack: time.Since(s.start) - s.waited, took: time.Since(began)}
}

var waitLine = regexp.MustCompile(`"wait_ms" => \(integer\) (\d+)`)

// waitOf is how long a command was made to wait, by its own words.
func waitOf(command string, got []string) time.Duration {
	if !strings.Contains(strings.ToUpper(command), "CL.WAIT") {
		return 0
	}
	m := waitLine.FindStringSubmatch(strings.Join(got, "\n"))
	if m == nil {
		return 0
	}
	ms, _ := strconv.Atoi(m[1]) // digits by the expression
	return time.Duration(ms) * time.Millisecond
}

// subscribe starts a command and returns when it listens.
func (s *shell) subscribe(step step) {
	s.t.Helper()
	term := s.open(step)
	require.Eventually(s.t, func() bool { return strings.Contains(term.text(), "(integer) 1") }, patience, 5*time.Millisecond, step.command)
	s.subscribed = append(s.subscribed, term)
	s.steps = append(s.steps, step)
}

// subscriptions waits until the subscribers have heard as much as the page says.
func (s *shell) subscriptions() (all []difference) {
	s.t.Helper()
	for i, term := range s.subscribed {
		step := s.steps[i]
		deadline := time.Now().Add(patience)
		for len(term.lines()) < len(step.want) && time.Now().Before(deadline) {
			time.Sleep(5 * time.Millisecond)
		}
		got := term.lines()
		if text := (comparison{command: step.command}).differs(step.want, got); text != "" {
			all = append(all, difference{step, text, got})
		}
	}
	return all
}

// terminal is a command that runs in a terminal of its own, since programs print otherwise
// into a pipe.
type terminal struct {
	done chan struct{} // closed when the command has ended

	output kit.Log
}

func (s *shell) open(step step) *terminal {
	s.t.Helper()
	cmd := exec.Command("bash", "-c", step.command)
	cmd.Dir = rootDir(s.t)
	cmd.Env = s.env
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 500})
	require.NoError(s.t, err)
	term := &terminal{done: make(chan struct{})}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails only when it has ended
		<-term.done
	})
	go func() {
		defer close(term.done)
		_, _ = io.Copy(&term.output, file) // ends in EIO when the terminal's last user has ended
		_ = cmd.Wait()
		_ = file.Close()
	}()
	return term
}

func (term *terminal) text() string {
	return strings.TrimRight(strings.ReplaceAll(term.output.String(), "\r", ""), "\n")
}

func (term *terminal) lines() []string {
	if term.text() == "" {
		return nil
	}
	return strings.Split(term.text(), "\n")
}
