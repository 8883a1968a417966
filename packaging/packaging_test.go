// Package packaging holds what releases are packed with, and no code but this test.
package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
)

func TestVersionHasOnePlace(t *testing.T) {
	out, err := exec.Command("../scripts/version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	version := strings.TrimSpace(string(out))
	assert.Regexp(t, `^\d+\.\d+\.\d+$`, version)

	for _, tc := range []struct {
		name, path, old, new string
		removed              bool
		args                 []string
		says                 string // "" where the version is printed
	}{
		{name: "as it is"},
		{name: "its tag", args: []string{"v" + version}},
		{name: "another tag", args: []string{"v9.9.9"}, says: "tag v9.9.9 is not the tag of version " + version},
		{name: "a tag without v", args: []string{version}, says: "is not the tag of version"},
		{name: "an older change log", path: "CHANGELOG.md", old: "## [" + version + "]", new: "## [0.0.9]",
			says: "the newest entry of CHANGELOG.md is for 0.0.9, and module/version.go says " + version},
		{name: "no change log, as in the build of an image", path: "CHANGELOG.md", removed: true},
		{name: "an unreleased change", path: "CHANGELOG.md", old: "## [" + version + "]", new: "## [Unreleased]\n\n## [" + version + "]"},
		{name: "no number", path: "module/version.go", old: "major =", new: "major = x", says: "module/version.go holds no version"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			for _, path := range []string{"CHANGELOG.md", "module/version.go", "scripts/version", "scripts/lib.sh"} {
				text, err := os.ReadFile(filepath.Join("..", path))
				require.NoError(t, err)
				if path == tc.path && tc.removed {
					continue
				}
				if path == tc.path {
					require.Contains(t, string(text), tc.old)
					text = []byte(strings.Replace(string(text), tc.old, tc.new, 1))
				}
				copied := filepath.Join(root, path)
				require.NoError(t, os.MkdirAll(filepath.Dir(copied), 0o755))
				require.NoError(t, os.WriteFile(copied, text, 0o755))
			}
			out, err := exec.Command(filepath.Join(root, "scripts/version"), tc.args...).CombinedOutput()
			if tc.says == "" {
				require.NoError(t, err, "%s", out)
				assert.Equal(t, version+"\n", string(out))
				return
			}
			assert.Error(t, err)
			assert.Contains(t, string(out), tc.says)
		})
	}
}

// What says the version in other files says this one: the packages of clients/, and files and images that pages and
// manifests name.
func TestAllFilesSayTheSameVersion(t *testing.T) {
	allSayTheSame(t, "..")
}

// allSayTheSame checks the project in a folder, and returns its version.
func allSayTheSame(t *testing.T, root string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(root, "scripts/version")).Output()
	require.NoError(t, err)
	version := strings.TrimSpace(string(out))
	listed, err := exec.Command("git", "-C", root, "ls-files", "-z", "*.md", "*.yaml", "*.yml", "*.json", "*.toml", "*Dockerfile", ":!CHANGELOG.md", ":!bench/results").Output()
	require.NoError(t, err)
	code := 0 // as MODULE LIST shows it
	for _, part := range strings.Split(version, ".") {
		n, err := strconv.Atoi(part)
		require.NoError(t, err)
		code = code*100 + n
	}

	said := map[string]int{}
	for _, path := range strings.Split(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		for _, found := range saysVersion.FindAllStringSubmatch(string(text), -1) {
			said[path]++
			assert.Equal(t, version, found[1], "%s: %s", path, found[0])
		}
	}
	poms, err := filepath.Glob(filepath.Join(root, "clients/java/*/pom.xml"))
	require.NoError(t, err)
	patterns := map[string]string{
		"clients/python/pyproject.toml":              `(?m)^version = "(.*)"`,
		"clients/node/package.json":                  `(?m)^  "version": "(.*)"`,
		"clients/node/package-lock.json":             `"name": "@redis-throttle/client",\s+"version": "(.*)"`,
		"clients/java/pom.xml":                       `(?m)^  <version>(.*)</version>`,
		"docs/internals/releasing.md":                `git checkout v([0-9.]+)`,
		"docs/observing.md":                          `throttle_version:([0-9.]+)`,
		"docs/functions.md":                          `the function library ([0-9.]+) `,
		"packaging/kubernetes/throttle.yaml":         `image: \S+:([0-9.]+)`,
		"packaging/helm/throttle-gateway/Chart.yaml": `(?m)^(?:v|appV)ersion: (.*)`,
	}
	for _, pom := range poms {
		path, err := filepath.Rel(root, pom)
		require.NoError(t, err)
		patterns[path] = `<artifactId>redis-throttle-(?:parent|bom)</artifactId>\s+<version>(.*)</version>`
	}
	pages, err := filepath.Glob(filepath.Join(root, "clients/java/*/README.md"))
	require.NoError(t, err)
	for _, page := range append(pages, filepath.Join(root, "clients/java/README.md")) {
		path, err := filepath.Rel(root, page)
		require.NoError(t, err)
		patterns[path] = `<version>(.*)</version>`
	}
	for path, pattern := range patterns {
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
		assert.NotEmpty(t, found, "%s: %s", path, pattern)
		for _, words := range found {
			assert.Equal(t, version, words[1], path)
		}
	}
	minor := version[:strings.LastIndex(version, ".")]
	for path, text := range map[string]string{
		"README.md":              fmt.Sprintf("So %d is %s,", code, version),
		"SECURITY.md":            "| " + minor + " | yes |",
		"docs/functions.md":      fmt.Sprintf("`FUNCTION DELETE throttle_%d`", code),
		"functions/throttle.lua": fmt.Sprintf("\nlocal VERSION = %d ", code),
		"CHANGELOG.md":           "\n[" + version + "]: ",
	} {
		content, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		assert.Contains(t, string(content), text, path)
	}
	assert.GreaterOrEqual(t, len(said), 4, "%v", said)
	return version
}

// The names that files and images have: throttle-0.3.0-linux-amd64, redis-throttle_0.3.0-1, throttle-gateway:0.3.0,
// throttle-dev-*-0.3.0 and so on.
var saysVersion = regexp.MustCompile(`throttle(?:[-_][A-Za-z0-9*]+)*[-_:](\d+\.\d+\.\d+)`)

// scripts/set-version has a copy of the project say another version everywhere, and releases what is unreleased.
func TestAVersionIsSetInAllFiles(t *testing.T) {
	size.NeedsFull(t)
	root := t.TempDir()
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	copied := exec.Command("sh", "-c", `git ls-files -z -co --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -c -T - | tar -x -C "$0"`, root)
	copied.Dir = ".."
	out, err := copied.CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, err = run("sh", "-c", "git init -q && git add -A")
	require.NoError(t, err)
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	require.NoError(t, err)
	unreleased := strings.Replace(string(changes), "## [Unreleased]\n", "## [Unreleased]\n\n### Fixed\n\n- A fault.\n", 1)
	require.NoError(t, os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(unreleased), 0o644))
	before := allSayTheSame(t, root)

	for _, bad := range []string{"", "1.2", "v9.8.7", before, "0.0.1"} {
		said, err := run("scripts/set-version", bad)
		assert.Error(t, err, bad)
		assert.Regexp(t, "usage: scripts/set-version|is not newer than", said)
	}
	said, err := run("scripts/set-version", "9.8.7", "2031-02-03")
	require.NoError(t, err, said)
	assert.Contains(t, said, "this is version 9.8.7 now, of 2031-02-03")
	assert.Equal(t, "9.8.7", allSayTheSame(t, root))
	replaced, err := run("git", "diff", "--name-only", "--diff-filter=T")
	require.NoError(t, err, replaced)
	assert.Empty(t, replaced, "links that are files now")
	notes, err := run("scripts/release-notes")
	require.NoError(t, err, notes)
	assert.Contains(t, notes, "- A fault.")
	said, err = run("scripts/set-version", "9.8.8")
	assert.Error(t, err)
	assert.Contains(t, said, "CHANGELOG.md has nothing unreleased")
}

const changelog = `# Changelog

Of [all](README.md).

## [Unreleased]

- not yet

## [1.2.0] - 2026-01-02

- a [page](docs/a.md#b), a [site](https://example.org/x) and [here](#there)

### Fixed

- more

## [1.1.0] - 2026-01-01

## [1.10.0] - 2025-01-01

- the oldest

[1.2.0]: docs/internals/releasing.md
`

func TestReleaseNotesAreTheVersionsPartOfTheChangeLog(t *testing.T) {
	const home = "https://example.org/throttle"
	for _, tc := range []struct {
		name, version, module, homepage string
		want, says                      string
	}{
		{name: "without a home", version: "1.2.0", module: "throttle",
			want: "- a [page](docs/a.md#b), a [site](https://example.org/x) and [here](#there)\n\n### Fixed\n\n- more\n"},
		{name: "with a home", version: "1.2.0", module: "throttle", homepage: home,
			want: "- a [page](" + home + "/blob/v1.2.0/docs/a.md#b), a [site](https://example.org/x) and [here](#there)\n\n### Fixed\n\n- more\n"},
		{name: "with a home by its module", version: "1.2.0", module: "example.org/throttle",
			want: "- a [page](" + home + "/blob/v1.2.0/docs/a.md#b), a [site](https://example.org/x) and [here](#there)\n\n### Fixed\n\n- more\n"},
		{name: "the last", version: "1.10.0", module: "throttle", want: "- the oldest\n"},
		{name: "with nothing to say", version: "1.1.0", module: "throttle", says: "says nothing of version 1.1.0"},
		{name: "unknown", version: "1.1", module: "throttle", says: "says nothing of version 1.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(root, "scripts"), 0o755))
			for _, name := range []string{"release-notes", "lib.sh"} {
				text, err := os.ReadFile(filepath.Join("../scripts", name))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(root, "scripts", name), text, 0o755))
			}
			require.NoError(t, os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(changelog), 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module "+tc.module+"\n"), 0o644))
			cmd := exec.Command(filepath.Join(root, "scripts/release-notes"), tc.version)
			cmd.Env = append(os.Environ(), "HOMEPAGE="+tc.homepage)
			out, err := cmd.CombinedOutput()
			if tc.says != "" {
				assert.Error(t, err)
				assert.Contains(t, string(out), tc.says)
				return
			}
			require.NoError(t, err, "%s", out)
			assert.Equal(t, tc.want, string(out))
		})
	}
}

func TestThereAreReleaseNotesOfThisVersion(t *testing.T) {
	out, err := exec.Command("../scripts/release-notes").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "CL.THROTTLE")
}
