// Package scripts tests scripts whose failure nobody would notice.
package scripts_test

import (
	"cmp"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
)

// show is a target whose recipe hands ARGS on as those of the Makefile do, to a program that
// prints each argument in brackets.
const show = `show: ; @scripts/with-args printf '[%s]' first`

func makeShow(t *testing.T, args string, environment ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("make", "--silent", "--eval", show, "show")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), environment...)
	if environment == nil {
		cmd.Args = append(cmd.Args, "ARGS="+args)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestArgsReachAProgramAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                          "[first]",
		"-run A|B":                  "[first][-run][A|B]",
		"-run ^(A|B)$|C$":           "[first][-run][^(A|B)$|C$]",
		"-run 'A B' -v":             "[first][-run][A B][-v]",
		`-run "A'B"`:                "[first][-run][A'B]",
		"a; echo b && $(echo c) $$": "[first][a;][echo][b][&&][$(echo][c)][$$]",
		"* > x `echo b` # c":        "[first][*][>][x][`echo][b`][#][c]",
	} {
		got, err := makeShow(t, args)
		require.NoError(t, err, "%s: %s", args, got)
		assert.Equal(t, want, got, "make show ARGS=%s", args)
		got, err = makeShow(t, args, "ARGS="+args)
		require.NoError(t, err, "%s: %s", args, got)
		assert.Equal(t, want, got, "ARGS=%s make show", args)
	}
	out, err := makeShow(t, "-run 'A")
	require.Error(t, err)
	assert.Contains(t, out, "ARGS has a quote without its other half: -run 'A")
}

// What a recipe spells out, the shell reads.
func TestRecipesLeaveWhatPeopleWriteInTheEnvironment(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		for _, name := range []string{"ARGS", "SERVER", "PEERS", "PORT"} {
			assert.NotContains(t, line, "$("+name+")")
		}
	}
}

func TestTheModulePathIsSetEverywhereAndBack(t *testing.T) {
	t.Parallel()
	size.NeedsFull(t)
	const path = "example.org/another/path"
	dir := copyTree(t)
	was := modulePath(t)
	before := contents(t, dir)

	for _, wrong := range []string{"", was, "a b", "/a", "a//b", "a/", "https://example.org/a", "a#b", "-a"} {
		cmd := exec.Command("scripts/set-module-path", wrong)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.Error(t, err, wrong)
		assert.Regexp(t, "^error: ", string(out), wrong)
	}
	require.Empty(t, differences(before, contents(t, dir)), "what is no module path changes nothing")

	run(t, dir, "scripts/set-module-path", path)
	for name, text := range contents(t, dir) {
		if strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "go.mod") {
			assert.False(t, strings.Contains(text, `"`+was+"/"), name)
			assert.False(t, strings.Contains(text, "module "+was), name)
		}
	}
	assert.Contains(t, contents(t, dir)["Makefile"], "-X "+path+"/module.commit")
	// Every import is found, those of tests included.
	packages := run(t, dir, "go", "list", "-test", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "work")
	assert.Contains(t, packages, path+"/ratelimit\n")
	assert.Contains(t, packages, path+"/ratelimit/guard\n")
	assert.Contains(t, packages, path+"/ratelimit/rueidislimit\n")
	assert.Contains(t, packages, path+"/ratelimit/grpclimit\n")
	assert.Contains(t, packages, path+"/tests/adapters\n")
	assert.Contains(t, packages, path+"/tests/examples\n")
	assert.Contains(t, packages, path+"/bench/throttle-bench\n")
	assert.NotContains(t, "\n"+packages, "\n"+was+"/")

	run(t, dir, "scripts/set-module-path", was)
	assert.Empty(t, differences(before, contents(t, dir)))
}

// A program that imports the client as README says is asked for what the client needs, and
// for nothing that the project's tests, the module or the benchmark need. So is one that imports
// the guard or what connects the client to another library.
func TestTheClientBringsItsOwnRequirementsAlone(t *testing.T) {
	t.Parallel()
	size.NeedsFull(t)
	needed := []string{
		"github.com/dunglas/httpsfv", "github.com/redis/go-redis/v9",
		"github.com/cespare/xxhash/v2", "go.uber.org/atomic", "golang.org/x/sys", // needed by go-redis
	}
	for folder, more := range map[string][]string{
		"ratelimit":               nil,
		"ratelimit/guard":         {"github.com/sony/gobreaker/v2"},
		"ratelimit/promlimit":     {"github.com/prometheus/", "github.com/beorn7/perks", "github.com/munnerz/goautoneg", "google.golang.org/protobuf"},
		"ratelimit/otellimit":     {"go.opentelemetry.io/", "github.com/go-logr/"},
		"ratelimit/grpclimit":     {"google.golang.org/grpc", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf", "golang.org/x/"},
		"ratelimit/rueidislimit":  {"github.com/redis/rueidis"},
		"ratelimit/ratelimittest": nil,
	} {
		dir := t.TempDir()
		run(t, dir, "go", "mod", "init", "example.org/app")
		for _, project := range []string{modulePath(t), modulePath(t) + "/ratelimit", modulePath(t) + "/" + folder} {
			path, err := filepath.Abs(filepath.Join("..", strings.TrimPrefix(project, modulePath(t))))
			require.NoError(t, err)
			run(t, dir, "go", "mod", "edit", "-replace", project+"="+path)
		}
		run(t, dir, "go", "get", modulePath(t)+"/"+folder)
		text, err := os.ReadFile(filepath.Join(dir, "go.sum"))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			module := strings.Fields(line)[0]
			assert.True(t, slices.ContainsFunc(append(more, needed...), func(path string) bool { return strings.HasPrefix(module, path) }),
				"%s needs %s", folder, module)
		}
	}
}

// modulePath is the path of the root's module.
func modulePath(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	return regexp.MustCompile(`(?m)^module (\S+)$`).FindStringSubmatch(string(text))[1]
}

// A program that imports a decision gets no library with it: the root's module has libraries for tests alone, and no
// replacement that would hold for a whole workspace.
func TestTheLimiterRequiresLibrariesForTestsAlone(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	var required []string
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\s*(\S+) v\S+`).FindAllStringSubmatch(string(text), -1) {
		required = append(required, m[1])
	}
	assert.ElementsMatch(t, []string{"github.com/stretchr/testify", "pgregory.net/rapid", "go.yaml.in/yaml/v3"}, required)
	assert.NotContains(t, string(text), "replace")
}

// copyTree copies the checkout, without what git ignores, and makes it one that git knows.
func copyTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "..", "sh", "-c", `git ls-files -z -co --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -c -T - | tar -x -C "$0"`, dir)
	run(t, dir, "git", "init", "-q")
	run(t, dir, "git", "add", "-A")
	return dir
}

// contents are the files below a folder by name, without git's own.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == ".git" {
			return cmp.Or(err, fs.SkipDir)
		}
		if entry.Type().IsRegular() {
			text, err := os.ReadFile(filepath.Join(dir, name))
			files[name] = string(text)
			return err
		}
		return nil
	}))
	return files
}

func differences(a, b map[string]string) (names []string) {
	for name := range a {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	return names
}

func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s %q: %s", program, args, stderr.String())
	return string(out)
}
