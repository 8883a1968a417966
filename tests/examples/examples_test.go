// Package examples runs the programs of examples/ as their readers would, each against a
// server and a cluster of its own. It compares what they print with what is promised there, and
// looks at what their middleware lets through when Redis does not decide. The manifests for Kubernetes are examples,
// too.
package examples

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// patience bounds a hang. Two of its seconds are the demonstration's own wait; on a cold
// cache the Go compiler has the rest.
const patience = 5 * time.Minute

// Most of an example's time is that wait.
func TestMain(m *testing.M) {
	size.AtOnce(8)
	os.Exit(m.Run())
}

func TestExamplesPrintWhatTheyPromise(t *testing.T) {
	for _, name := range append(names(t), recipes...) {
		for _, where := range []string{"server", "cluster"} {
			t.Run(name+"/"+where, func(t *testing.T) {
				t.Parallel()
				var nodes []*server.Server
				var env []string
				if where == "server" {
					nodes = []*server.Server{server.Start(t)}
					env = onServer(nodes[0])
				} else {
					size.NeedsFull(t)
					c := topology.StartCluster(t)
					nodes, env = c.Nodes, onCluster(c)
				}
				began := time.Now()
				printed, complaint, err := run(t, name, env)
				if where == "cluster" && name == knowsNoCluster {
					require.Error(t, err)
					require.Contains(t, complaint, refusal)
					return
				}
				require.NoError(t, err, "%s\n%s", printed, complaint)
				requireTranscript(t, promised(t, name), printed, time.Since(began))
				for _, node := range nodes {
					require.NotContains(t, node.MustDo("KEYS", "*").String(), "exports", "every slot was given back")
				}
				// A library may have to be told once or twice where keys are, but not at each call.
				most := 2
				if name == guesses {
					most += 5 // the demo's calls on several keys
				}
				require.LessOrEqual(t, moved(nodes), most, "calls go to other nodes than those of their keys")
			})
		}
	}
}

// knowsNoCluster is the one example whose client library does not, and refusal is what it
// says when it is made for a cluster all the same.
const (
	knowsNoCluster = "perl"
	refusal        = "Redis.pm knows no clusters"
)

// guesses is the one example whose client library asks any node of a cluster about several keys.
const guesses = "ruby"

// moved is how many calls nodes have sent to another one.
func moved(nodes []*server.Server) int {
	sum := 0
	for _, node := range nodes {
		n, _ := strconv.Atoi(strings.TrimPrefix(node.Info("errorstats")["errorstat_MOVED"], "count=")) // none at first
		sum += n
	}
	return sum
}

// recipes are the folders of examples/ that show something else than a middleware.
var recipes = []string{"llm-tokens"}

// names are the folders of examples/ with a middleware, one for each client.
func names(t *testing.T) (names []string) {
	entries, err := os.ReadDir(filepath.Join(root(t), "examples"))
	require.NoError(t, err)
	for _, entry := range entries {
		if entry.IsDir() && !slices.Contains(recipes, entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names
}

func root(t *testing.T) string {
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	return root
}

// onServer and onCluster are the environment in which an example finds its Redis.
func onServer(s *server.Server) []string { return []string{"REDIS_URL=redis://" + s.Addr()} }

func onCluster(c *topology.Cluster) []string {
	return append(onServer(c.Masters()[0]), "REDIS_CLUSTER=1")
}

// run runs an example and returns what it prints.
func run(t *testing.T, name string, env []string) (printed, complaint string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := command(ctx, t, name, env)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// missing tells what an example needs that is not installed, by the name of the example; "" if all is there.
var missing sync.Map

// command runs an example until it ends, or ctx does. The test is skipped if what the example needs is not installed.
func command(ctx context.Context, t *testing.T, name string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	check, _ := missing.LoadOrStore(name, sync.OnceValue(func() string {
		if out, err := exec.Command(filepath.Join(root(t), "scripts", "example"), name, "check").CombinedOutput(); err != nil {
			return strings.TrimSpace(string(out))
		}
		return ""
	}))
	if why := check.(func() string)(); why != "" {
		size.Lacks(t, why)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root(t), "scripts", "example"), append([]string{name}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	// An example may start a web server: all it started is stopped with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// promised is an example's own expected.txt, or the one that all share.
func promised(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join(root(t), "examples", name, "expected.txt"))
	if os.IsNotExist(err) {
		text, err = os.ReadFile(filepath.Join(root(t), "examples", "expected.txt"))
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
