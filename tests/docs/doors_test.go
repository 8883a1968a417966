package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	numbered = regexp.MustCompile(`(?m)^([0-9]+)\. (.+)$`)
	lettered = regexp.MustCompile(`(?m)^- ([A-Z])\. .{20,}$`)
	titled   = regexp.MustCompile("`([A-Za-z_./]+)`: (\"[^`]+\")")
	specFile = regexp.MustCompile("[( ]`([a-z-]+\\.(txt|json))`[,)]")
)

// In docs/internals/doors.md each part of the specification has a row, each cell a test or a reason, and each test
// exists.
func TestEveryDoorIsHeldToEveryPartOfTheSpecification(t *testing.T) {
	t.Parallel()
	root := rootDir(t)
	text, err := os.ReadFile(filepath.Join(root, "docs/internals/doors.md"))
	require.NoError(t, err)
	table, lists, found := strings.Cut(string(text), "\n## Tests\n")
	require.True(t, found)

	known, used := map[string]bool{}, map[string]bool{}
	for i, m := range numbered.FindAllStringSubmatch(lists, -1) {
		require.Equal(t, strconv.Itoa(i+1), m[1], "tests are numbered in their order")
		known[m[1]] = true
		titles := titled.FindAllStringSubmatch(m[2], -1)
		assert.True(t, len(titles) > 0 || testName.MatchString(m[2]), "names no test: %s", m[0])
		for _, title := range titles { // TestTestsThatPagesNameExist is about those in Go
			source, err := os.ReadFile(filepath.Join(root, title[1]))
			if assert.NoError(t, err) {
				for _, name := range strings.Split(strings.Trim(title[2], `"`), `", "`) {
					assert.True(t, strings.Contains(string(source), name), "%s has no %q", title[1], name)
				}
			}
		}
	}
	for _, m := range lettered.FindAllStringSubmatch(lists, -1) {
		known[m[1]] = true
	}

	rows, parts := 0, map[string]bool{}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what is promised |") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for _, m := range specFile.FindAllStringSubmatch(cells[0], -1) {
			parts[m[1]] = true
		}
		for _, cell := range cells[1:] {
			for _, one := range strings.Split(strings.TrimSpace(cell), ", ") {
				assert.True(t, known[one], "%q of %s", one, cells[0])
				used[one] = true
			}
		}
	}
	assert.Greater(t, rows, 30)
	assert.Equal(t, known, used, "each test and reason is of some cell")

	for _, pattern := range []string{"spec/*.txt", "spec/*.json", "spec/clients/*.json"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			assert.True(t, parts[filepath.Base(file)], "%s has no row", file)
		}
	}
}
