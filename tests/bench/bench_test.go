// Package bench runs bench/throttle-bench as people do, on the server and the module under
// test. Its figures are left alone: they mean nothing on a machine that runs tests.
package bench_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// patience ends a run that hangs before go test ends the test without a word. How long a run takes says nothing: the
// machine may be busy.
func patience(t *testing.T) time.Duration {
	deadline, ok := t.Deadline()
	if !ok {
		return math.MaxInt64
	}
	return time.Until(deadline) * 9 / 10
}

func TestMain(m *testing.M) { kit.RunBuilt(m) }

// bench is a run of the program.
type bench struct {
	*exec.Cmd
	temp   string // where its servers work
	out    string // where its results go
	stdout bytes.Buffer
	stderr bytes.Buffer
}

func newBench(t *testing.T, args ...string) *bench {
	t.Helper()
	module, err := server.ModulePath()
	require.NoError(t, err)
	redis, err := server.DefaultProgram()
	require.NoError(t, err)
	b := &bench{temp: t.TempDir(), out: t.TempDir()}
	args = append(args, "--server", redis.Path, "--module", module, "--out", b.out)
	b.Cmd = exec.Command(kit.Built(t, "bench/throttle-bench"), args...)
	b.Env = append(os.Environ(), "PEERS=", "TMPDIR="+b.temp)
	b.Stdout, b.Stderr = &b.stdout, &b.stderr
	return b
}

// run waits for the end, and asserts that nothing is left behind whatever it was.
func (b *bench) run(t *testing.T) error {
	t.Helper()
	require.NoError(t, b.Start())
	return b.wait(t)
}

func (b *bench) wait(t *testing.T) error {
	t.Helper()
	kill := time.AfterFunc(patience(t), func() { _ = b.Process.Kill() })
	err := b.Wait()
	require.True(t, kill.Stop(), "it hangs; it said:\n%s", b.stderr.String())
	assert.Empty(t, b.servers(), "servers still run")
	left, globErr := filepath.Glob(filepath.Join(b.temp, "*"))
	require.NoError(t, globErr)
	assert.Empty(t, left, "files are left")
	return err
}

// servers are the processes that work in the run's temporary folder.
func (b *bench) servers() []string {
	var pids []string
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		dir, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(dir, b.temp+"/") {
			pids = append(pids, filepath.Base(filepath.Dir(link)))
		}
	}
	return pids
}

// contender is what the results say of one.
type contender struct {
	Name    string
	Group   string
	Samples map[string][]float64
}

// results reads a file of results.
func (b *bench) results(t *testing.T, name string) (f struct {
	Contenders []contender
}) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.out, name+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &f))
	return f
}

// smaller are the flags of a run that is quicker than a quick one, at the small size.
func smaller() []string {
	return size.Of([]string{"--rounds", "1", "--latency-rounds", "1", "--calls", "100", "--keys", "16", "--memory-keys", "1024"}, nil)
}

func TestAQuickRunMeasuresEveryContenderAndPeer(t *testing.T) {
	t.Parallel()
	rounds := size.Of(1, 2)
	contenders := []string{"--contenders", `^(SET PX|CL\.THROTTLE .*|floor .*|other: .*|CL\.LIMIT three rates, eight stacks)$`}
	b := newBench(t, append(append(size.Of(contenders, nil), smaller()...), "--quick", "--peers", peer(t, "other")+":CL.THROTTLE")...)
	require.NoError(t, b.run(t), b.stderr.String())
	f := b.results(t, "bench")
	var names []string
	for _, c := range f.Contenders {
		names = append(names, c.Name)
		assert.Contains(t, b.stdout.String(), c.Name, "the table has it")
		for _, metric := range []string{
			"exec_us", "cpu_us", "calls_per_s", "clients_1_p50_us", "clients_1_p99.9_us",
			"clients_50_p50_us", "clients_50_p95_us", "clients_50_p99_us", "clients_50_p99.9_us", "clients_50_cpu_us",
		} {
			assert.Len(t, c.Samples[metric], rounds, "%s, %s: a figure a round", c.Name, metric)
		}
	}
	for _, name := range append(size.Of(nil, []string{
		"PING", "GET", "Lua fixed window, allowed", "Lua token bucket, denied", "Lua window log, allowed",
		"Lua permits, allowed", "Lua GCRA, allowed",
	}), "SET PX", "CL.THROTTLE allowed", "CL.THROTTLE denied", "CL.THROTTLE peek", "other: CL.THROTTLE allowed", "other: CL.THROTTLE denied",
		"floor allowed", "floor denied", "floor allowed, fields", "floor denied, fields", "CL.LIMIT three rates, eight stacks") {
		assert.Contains(t, names, name)
	}
	for _, c := range f.Contenders {
		if c.Name == "CL.THROTTLE allowed" {
			assert.Greater(t, c.Samples["bytes_per_key_1_call"][0], 35.0, "a key of 16 bytes and a value of 19")
		}
	}
	assertNamesNoMachine(t, filepath.Join(b.out, "bench.json"))

	for _, name := range []string{"bench.txt", "bench-execution.svg", "bench-headline.svg"} {
		assert.FileExists(t, filepath.Join(b.out, name))
	}
}

// A machine that is to be measured may have neither Go nor a C compiler: it gets the floors built.
func TestARunWithBuiltFloorsNeedsNoCompiler(t *testing.T) {
	t.Parallel()
	kit := t.TempDir()
	building := newBench(t, "floors", "--floors", kit)
	require.NoError(t, building.run(t), building.stderr.String())
	b := newBench(t, append(smaller(), "--quick", "--contenders", "^floor denied")...)
	b.Env = append(b.Env, "PATH=/nonexistent", "CC=", "BENCH_BUILT="+kit)
	require.NoError(t, b.run(t), b.stderr.String())
	var names []string
	for _, c := range b.results(t, "bench").Contenders {
		names = append(names, c.Name)
	}
	assert.Subset(t, names, []string{"floor denied", "floor denied, with a crossing into Go"})
	assert.Regexp(t, `caches (L1d \d+K, |unknown).*\nload [\d.]+, at the end [\d.]+\n`, b.stdout.String())
}

// Callers in line: every stage has its slowest PING.
func TestARunMeasuresCallersInLine(t *testing.T) {
	t.Parallel()
	b := newBench(t, "callers", "--callers", "1100", "--seconds", "50ms", "--settle", "0s")
	require.NoError(t, b.run(t), b.stderr.String())
	text, err := os.ReadFile(filepath.Join(b.out, "callers.txt"))
	require.NoError(t, err)
	for _, row := range []string{"no call", "BLPOP", "CL.LEASE", "CL.WAIT, a WINDOW", "CL.WAIT, a RATE"} {
		assert.Contains(t, string(text), "\n| "+row+" | 1100 |")
		assert.Contains(t, string(text), "\n| "+row+" | connect |")
	}
	for stage, rows := range map[string]int{"come": 4, "stand": 5, "1000 enter": 3, "leave": 5} {
		assert.Equal(t, rows, strings.Count(string(text), "| "+stage+" |"), string(text))
	}
	assertNamesNoMachine(t, filepath.Join(b.out, "callers.json"))
}

// On a further server, a call beside another module is compared with one alone on that server, and that one with its
// SET.
func TestARunComparesBesideAnotherModuleOnFurtherServers(t *testing.T) {
	t.Parallel()
	redis, err := server.DefaultProgram()
	require.NoError(t, err)
	b := newBench(t, append(smaller(), "--quick", "--contenders", "another module|: SET PX", "--beside-on", redis.Path)...)
	require.NoError(t, b.run(t), b.stderr.String())
	table := strings.Join(strings.Fields(b.stdout.String()), " ")
	for name, beside := range map[string]string{
		"CL.THROTTLE allowed": "SET PX", "CL.THROTTLE allowed, another module": "CL.THROTTLE allowed",
		"CL.THROTTLE denied": "SET PX", "CL.THROTTLE denied, another module": "CL.THROTTLE denied",
	} {
		assert.Regexp(t, fmt.Sprintf(`│ (\w+ [\d.]+: )%s (\w+ [\d.]+: )%s \d`, regexp.QuoteMeta(name), regexp.QuoteMeta(beside)), table)
	}
}

// What a call executes and touches, beside the floor of a module in Go in the same run, which is called with the same
// words. The bounds are what was counted on Redis 7.0 and a third more. Where the heap and the stacks lie differs from
// machine to machine and from run to run, and moves a count by 400 instructions. Where code lies differs from build to
// build: the same code that the linker laid out at random (-randlayout) misses 183 to 233 lines in a denied
// CL.THROTTLE, so the bounds are a third more than the worst of these. A change that needs more makes every call
// longer.
func TestACallTouchesNoMoreThanItDid(t *testing.T) {
	t.Parallel()
	size.NeedsFull(t)
	size.NeedsProgram(t, "valgrind")
	redis, err := server.DefaultProgram()
	require.NoError(t, err)
	if redis.IsValkey() || !redis.AtLeast(7, 0) || redis.AtLeast(7, 1) {
		t.Skip("the bounds are those of Redis 7.0")
	}
	b := newBench(t, "count", "--calls", "2000", "--contenders", `^(CL\.THROTTLE (allowed|denied)|floor .*into Go|CL\.LIMIT three rates, eight stacks)$`)
	require.NoError(t, b.run(t), b.stderr.String())
	counted := map[string]map[string][]float64{}
	for _, c := range b.results(t, "count").Contenders {
		counted[c.Name] = c.Samples
	}
	of := func(name, metric string) float64 {
		require.Len(t, counted[name][metric], 1, "%s, %s", name, metric)
		return counted[name][metric][0]
	}
	for _, tt := range []struct {
		name, beside     string
		instructions, i1 float64 // more than beside
	}{
		{"CL.THROTTLE denied", "floor denied, with a crossing into Go", 1200, 225},
		{"CL.THROTTLE allowed", "floor allowed, with a crossing into Go", 2300, 325},
		{"CL.LIMIT three rates, eight stacks", "CL.LIMIT three rates, allowed", 800, 80},
	} {
		assert.Less(t, of(tt.name, "instructions")-of(tt.beside, "instructions"), tt.instructions, "instructions of %s", tt.name)
		assert.Less(t, of(tt.name, "i1_misses")-of(tt.beside, "i1_misses"), tt.i1, "misses of the cache for code, %s", tt.name)
	}
}

func TestACallThatIsNotWhatItsNameSaysFailsTheRun(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ template, want string }{
		"allowed, and called denied": {"{key} 999 1000 60", "denied, pipelined: not what its name says"},
		"an error":                   {"{key} x 1 1", "ERR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "--quick", "--contenders", "other", "--peers", peer(t, "other")+":CL.THROTTLE "+tt.template)
			var exit *exec.ExitError
			require.ErrorAs(t, b.run(t), &exit)
			assert.Equal(t, 1, exit.ExitCode())
			assert.Contains(t, b.stderr.String(), "other: CL.THROTTLE")
			assert.Contains(t, b.stderr.String(), tt.want)
			assert.NoFileExists(t, filepath.Join(b.out, "bench.json"))
		})
	}
}

// peer is the module under another name.
func peer(t *testing.T, name string) string {
	t.Helper()
	module, err := server.ModulePath()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), name+".so")
	require.NoError(t, os.Symlink(module, path))
	return path
}

// assertNamesNoMachine: results are committed, so they must not tell whose machine made
// them.
func assertNamesNoMachine(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	if len(host) > 3 { // shorter ones are anything
		assert.NotContains(t, string(text), host)
	}
	assert.NotContains(t, string(text), os.TempDir())
}
