package scripts_test

import (
	"go/version"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A tag can be moved to other code, a commit cannot.
func TestWorkflowsNameCommitsOfActions(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	pinned := regexp.MustCompile(`^\s*- uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	uses := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "uses:") {
				uses++
				assert.Regexp(t, pinned, strings.TrimRight(line, "\n"), file)
			}
		}
	}
	assert.Positive(t, uses)
}

func TestDependabotKnowsEveryFolderWithDependencies(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile("../.github/dependabot.yml")
	require.NoError(t, err)
	for _, kind := range []struct{ ecosystem, file string }{{"gomod", "go.sum"}, {"npm", "package-lock.json"}, {"docker", "Dockerfile"}} {
		var folders []string
		for name := range strings.Lines(run(t, "..", "git", "ls-files", "*"+kind.file)) {
			folders = append(folders, `"`+path.Join("/", path.Dir(strings.TrimSpace(name)))+`"`)
		}
		slices.Sort(folders)
		want := "package-ecosystem: " + kind.ecosystem + "\n    directories: [" + strings.Join(folders, ", ") + "]\n"
		assert.Contains(t, string(config), want)
	}
}

// A job that names a script or a target of make that does not exist fails only on GitHub.
func TestWorkflowsRunCommandsThatExist(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	command := regexp.MustCompile(`(?m)^\s*(?:- )?run: (make|scripts/[\w-]+|\.ci/run)((?: [\w-]+)*)`)
	found := map[string]bool{}
	for _, file := range append(files, "../.ci/run") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		lines := string(text)
		if path.Base(file) == "run" {
			lines = regexp.MustCompile(`(?m)^(make|scripts/)`).ReplaceAllString(lines, "run: $1")
		}
		for _, m := range command.FindAllStringSubmatch(lines, -1) {
			found[m[1]] = true
			if m[1] != "make" {
				info, err := os.Stat("../" + m[1])
				if assert.NoError(t, err, file) {
					assert.NotZero(t, info.Mode()&0o111, "%s is not executable", m[1])
				}
				continue
			}
			for target := range strings.FieldsSeq(m[2]) {
				assert.Regexp(t, `(?m)^`+target+`( [\w-]+)*:`, string(makefile), "%s: make %s", file, target)
			}
		}
	}
	for _, expected := range []string{"make", ".ci/run", "scripts/test-anywhere", "scripts/version"} {
		assert.True(t, found[expected], "the workflows run no %s", expected)
	}
}

// In the images, Go fetches no newer one: an older image would build with less than go.work asks for.
func TestNoImageHasAnOlderGoThanIsAskedFor(t *testing.T) {
	t.Parallel()
	asked := map[string]string{}
	for _, file := range []string{"../go.work", "../module/go.mod", "../gateway/go.mod", "../cmd/throttle-dev/go.mod"} { // what is released is built without go.work
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		found := regexp.MustCompile(`(?m)^toolchain (go\S+)$`).FindSubmatch(text)
		require.NotNil(t, found, file)
		asked[file] = string(found[1])
	}
	for file, toolchain := range asked {
		require.Equal(t, asked["../go.work"], toolchain, file)
	}
	files, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	images := 0
	for _, file := range append(files, "../Dockerfile", "../gateway/Dockerfile") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`\bgolang:(\d[\d.]*)`).FindAllStringSubmatch(string(text), -1) {
			images++
			assert.GreaterOrEqual(t, version.Compare("go"+m[1], asked["../go.work"]), 0, "%s: %s", file, m[0])
		}
	}
	assert.GreaterOrEqual(t, images, 7)
}

// Dependabot reads literal images only: an ARG in a FROM line hides what it stands for.
func TestDockerfileNamesServersThatAreKeptCurrent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../Dockerfile")
	require.NoError(t, err)
	stages := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^FROM (\S+) AS (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		stages[m[2]] = m[1]
	}
	assert.Regexp(t, `^redis:8\.\d+\.\d+-trixie$`, stages["redis"])
	assert.Regexp(t, `^valkey/valkey:9\.\d+\.\d+-trixie$`, stages["valkey"])
	assert.Regexp(t, `^golang:\d+\.\d+\.\d+-bookworm$`, stages["build"], "its glibc is no newer than the servers'")
	assert.Contains(t, string(text), "\nARG SERVER=redis\n", "the stage that is built on by default")
	assert.Contains(t, string(text), "\nFROM ${SERVER}\n")
}
