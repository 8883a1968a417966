package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/runnable"
)

// tree is a repository of its own with what scripts/releasable reads.
type tree struct {
	t   *testing.T
	dir string
}

func newTree(t *testing.T) tree {
	tr := tree{t, t.TempDir()}
	for _, file := range []string{"scripts/lib.sh", "scripts/version", "scripts/release-notes", "scripts/releasable", "module/version.go", "go.mod"} {
		content, err := os.ReadFile(filepath.Join("..", file))
		require.NoError(t, err)
		tr.write(file, string(content))
	}
	tr.git("init", "-q")
	return tr
}

func (tr tree) write(file, content string) {
	path := filepath.Join(tr.dir, file)
	require.NoError(tr.t, os.MkdirAll(filepath.Dir(path), 0o755))
	runnable.Write(tr.t, path, content)
}

func (tr tree) git(args ...string) {
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = tr.dir
	out, err := cmd.CombinedOutput()
	require.NoError(tr.t, err, "%s", out)
}

// commit commits a changelog whose head is the given text.
func (tr tree) commit(version, head string) {
	tr.write("CHANGELOG.md", "# Changelog\n\n"+head+"## ["+version+"] - 2026-01-01\n\n- Something.\n")
	tr.git("add", "-A")
	tr.git("commit", "-q", "--allow-empty", "-m", "a change")
}

func (tr tree) releasable() string {
	cmd := exec.Command("scripts/releasable")
	cmd.Dir = tr.dir
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	return string(out)
}

func TestAVersionIsReleasedOnce(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("./version").Output()
	require.NoError(t, err)
	version := strings.TrimSpace(string(out))
	tr := newTree(t)
	tr.commit(version, "")
	assert.Empty(t, tr.releasable())
	tr.commit(version, "## [Unreleased]\n\n")
	assert.Empty(t, tr.releasable(), "nothing is unreleased")
	tr.commit(version, "## [Unreleased]\n\n### Fixed\n\n- A fault.\n\n")
	assert.Contains(t, tr.releasable(), "CHANGELOG.md has unreleased changes, so this tree is not version "+version)

	tr.commit(version, "")
	tr.git("tag", "v"+version)
	assert.Empty(t, tr.releasable(), "the tag is on this commit")
	tr.commit(version, "")
	assert.Contains(t, tr.releasable(), "version "+version+" is commit ")
}

// The page names the commit of each version, for repositories that came without tags.
func TestTheCommitsOfVersionsAreTheirs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/internals/releasing.md")
	require.NoError(t, err)
	found := 0
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.HasPrefix(cells[1], " `v") {
			continue
		}
		version, commit := strings.Trim(cells[1], " `v"), strings.Trim(cells[2], " `")
		if exec.Command("git", "cat-file", "-e", commit).Run() != nil {
			t.Skipf("this copy of the repository has no commit %s", commit)
		}
		log, err := exec.Command("git", "show", commit+":CHANGELOG.md").Output()
		require.NoError(t, err)
		text := strings.Replace(string(log), "\n## [Unreleased]\n\n## [", "\n## [", 1) // an empty one
		_, newest, _ := strings.Cut(text, "\n## [")
		assert.True(t, strings.HasPrefix(newest, version+"]"), "%s: %.20s", version, newest)
		found++
	}
	assert.Positive(t, found)
}
