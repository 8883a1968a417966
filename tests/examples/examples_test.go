// Package examples runs the programs of examples/ as their readers would, each against a
// server of its own, and compares what they print with what is promised there.
package examples

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// patience bounds a hang. Two of its seconds are the demonstration's own wait; on a cold
// cache the Go compiler has the rest.
const patience = 5 * time.Minute

// Most of an example's time is that wait, so more run at once than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}

func TestExamplesPrintWhatTheyPromise(t *testing.T) {
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	entries, err := os.ReadDir(filepath.Join(root, "examples"))
	require.NoError(t, err)
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		t.Run(entry.Name(), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			printed := run(t, root, entry.Name())
			requireTranscript(t, promised(t, root, entry.Name()), printed, time.Since(began))
		})
	}
}

// run runs an example and returns what it prints. One that lacks a package says which,
// and fails its test.
func run(t *testing.T, root, name string) string {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts", "example"), name)
	cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+server.Start(t).Addr())
	// An example may start a web server: all it started is stopped with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	require.NoError(t, err, "%s\n%s", stdout.String(), stderr.String())
	return stdout.String()
}

// promised is an example's own expected.txt, or the one of all.
func promised(t *testing.T, root, name string) string {
	text, err := os.ReadFile(filepath.Join(root, "examples", name, "expected.txt"))
	if os.IsNotExist(err) {
		text, err = os.ReadFile(filepath.Join(root, "examples", "expected.txt"))
	}
	require.NoError(t, err)
	return string(text)
}

// seconds are the numbers in a transcript that count down.
var seconds = regexp.MustCompile(`(;t=|Retry-After: )(\d+)`)

// requireTranscript compares what was promised with what was printed over a time, by
// which seconds may have become fewer.
func requireTranscript(t *testing.T, promised, printed string, over time.Duration) {
	require.Equal(t, seconds.ReplaceAllString(promised, "$1..."), seconds.ReplaceAllString(printed, "$1..."))
	want, got := countdowns(promised), countdowns(printed)
	for i := range want {
		assert.LessOrEqual(t, got[i], want[i], printed)
		assert.GreaterOrEqual(t, got[i], want[i]-int(over/time.Second)-1, printed)
	}
}

func countdowns(transcript string) (numbers []int) {
	for _, match := range seconds.FindAllStringSubmatch(transcript, -1) {
		n, _ := strconv.Atoi(match[2]) // digits by the expression
		numbers = append(numbers, n)
	}
	return numbers
}
