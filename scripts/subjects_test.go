package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Subjects are checked where a clone has commits that its origin lacks. History stays as it is, in fresh and in shallow
// clones, too.
func TestSubjectsOfNewCommitsAreShort(t *testing.T) {
	t.Parallel()
	origin := tree{t, t.TempDir()}
	for _, file := range []string{"scripts/lib.sh", "scripts/check-subjects"} {
		content, err := os.ReadFile(filepath.Join("..", file))
		require.NoError(t, err)
		origin.write(file, string(content))
	}
	check := func(tr tree) string {
		cmd := exec.Command("scripts/check-subjects")
		cmd.Dir = tr.dir
		out, err := cmd.CombinedOutput()
		if err == nil {
			return ""
		}
		return string(out)
	}
	long := strings.Repeat("é", 73) // characters, not bytes
	origin.git("init", "-q")
	assert.Empty(t, check(origin), "without a commit")
	origin.git("add", "-A")
	origin.git("commit", "-q", "-m", long)
	origin.git("commit", "-q", "--allow-empty", "-m", long)
	assert.Empty(t, check(origin), "without a remote nothing is new")

	for _, depth := range []string{"1", "100"} {
		clone := tree{t, t.TempDir()}
		clone.git("clone", "-q", "--depth", depth, "file://"+origin.dir, ".")
		assert.Empty(t, check(clone), "history")
		clone.git("commit", "-q", "--allow-empty", "-m", long[:len(long)-2])
		assert.Empty(t, check(clone), "72 characters")
		clone.git("commit", "-q", "--allow-empty", "-m", "1"+long)
		assert.Contains(t, check(clone), "a subject has at most 72 characters")
		assert.Contains(t, check(clone), "1"+long)
	}
}
