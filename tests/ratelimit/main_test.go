// Package ratelimit tests the Go client against real servers. What needs no server is
// tested beside the client, whose module requires no server either.
package ratelimit_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/server"
)

const day = 24 * time.Hour

func TestMain(m *testing.M) {
	logging.Disable() // a client that fails to reach a dead server says so, often
	os.Exit(m.Run())
}

// patience bounds a hang; on a cold cache the Go compiler has most of it.
const patience = 5 * time.Minute

func TestExamplesOfTheDocumentationPrintWhatTheyPromise(t *testing.T) {
	t.Parallel()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	for _, folder := range []string{".", "httplimit", "leases", "policies", "xrate", "cached", "batched", "observed", "pipelimit", "retry", "sloglimit", "promlimit", "otellimit", "grpclimit"} {
		t.Run(folder, func(t *testing.T) {
			if folder != "." { // each takes seconds to build
				size.NeedsFull(t)
			}
			folder := filepath.Join(root, "ratelimit", folder)
			files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
			require.NoError(t, err)
			examples := 0
			for _, file := range files {
				source, err := os.ReadFile(file)
				require.NoError(t, err)
				examples += strings.Count(string(source), "\nfunc Example")
			}
			require.Positive(t, examples, folder)

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-v", "-run", "^(Example|TestALoginPage)", ".")
			cmd.Dir = folder
			cmd.Env = append(os.Environ(), "THROTTLE_ADDR="+server.Start(t).Addr())
			printed, err := cmd.CombinedOutput()
			require.NoError(t, err, string(printed))
			assert.Equal(t, examples, strings.Count(string(printed), "--- PASS: Example"), string(printed))
		})
	}
}

func TestProgramOfTheReadmeRuns(t *testing.T) {
	t.Parallel()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "ratelimit", "README.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "```go\n")
	require.True(t, found)
	program, rest, _ := strings.Cut(rest, "```\n")
	require.NotContains(t, rest, "```go", "there is one program")
	program = strings.Replace(program, "127.0.0.1:6379", server.Start(t).Addr(), 1)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o644))

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "run", file)
	cmd.Dir = root // for go.work
	assert.Equal(t, "limited: false remaining: 9 retry after: 0s\n", printedBy(t, cmd))
}

// printedBy is the standard output alone: on the other, the go command says what it downloads.
func printedBy(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var says bytes.Buffer
	cmd.Stderr = &says
	printed, err := cmd.Output()
	require.NoError(t, err, "%v\n%s\n%s", cmd, printed, &says)
	return string(printed)
}

// client is what ratelimit.New takes.
type client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}
