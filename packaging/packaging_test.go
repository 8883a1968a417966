// Package packaging holds what releases are packed with, and no code but this test.
package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVersionHasOnePlace(t *testing.T) {
	out, err := exec.Command("../scripts/version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	version := strings.TrimSpace(string(out))
	assert.Regexp(t, `^\d+\.\d+\.\d+$`, version)

	for _, tc := range []struct {
		name, path, old, new string
		args                 []string
		says                 string // "" where the version is printed
	}{
		{name: "as it is"},
		{name: "its tag", args: []string{"v" + version}},
		{name: "another tag", args: []string{"v9.9.9"}, says: "tag v9.9.9 is not the tag of version " + version},
		{name: "a tag without v", args: []string{version}, says: "is not the tag of version"},
		{name: "an older change log", path: "CHANGELOG.md", old: "## [" + version + "]", new: "## [0.0.9]",
			says: "the newest entry of CHANGELOG.md is for 0.0.9, and module/version.go says " + version},
		{name: "an unreleased change", path: "CHANGELOG.md", old: "## [" + version + "]", new: "## [Unreleased]\n\n## [" + version + "]"},
		{name: "no number", path: "module/version.go", old: "major =", new: "major = x", says: "module/version.go holds no version"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			for _, path := range []string{"CHANGELOG.md", "module/version.go", "scripts/version", "scripts/lib.sh"} {
				text, err := os.ReadFile(filepath.Join("..", path))
				require.NoError(t, err)
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
