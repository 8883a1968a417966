package size_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
)

func TestShortTestsAreSmall(t *testing.T) {
	t.Setenv("PROVE", "")
	assert.Equal(t, testing.Short(), size.Of("small", "full") == "small")
	assert.Equal(t, size.Of(1, 2), size.OfProof(1, 2, 3))
	t.Run("what has no small size is skipped", func(t *testing.T) {
		t.Cleanup(func() { assert.Equal(t, testing.Short(), t.Skipped()) })
		size.NeedsFull(t)
	})
	t.Setenv("PROVE", "1")
	assert.Equal(t, 3, size.OfProof(1, 2, 3))
}

// A test with a switch of its own would be left out of the sizes without anybody noticing.
func TestNoOtherTestAsksHowLongItMayTake(t *testing.T) {
	elsewhere := regexp.MustCompile(`testing\.Short\(\)|Getenv\("PROVE"\)`)
	root := filepath.Join("..", "..")
	read := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (name == "internal/size" || slices.Contains([]string{".git", "build", "run", "node_modules"}, d.Name())) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		source, err := os.ReadFile(path)
		read++
		// A test that runs itself in another process passes the size on.
		if name != "tests/hosts/inside.go" {
			assert.False(t, elsewhere.Match(source), "%s: ask package size", name)
		}
		return err
	}))
	require.Greater(t, read, 100)
}
