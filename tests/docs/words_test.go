package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sharedRuns is how many runs of twelve words may stand on two pages or more. What is said twice becomes untrue once.
const sharedRuns, runLength = 60, 12

var (
	fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	heads  = regexp.MustCompile(`(?m)^\| (Available since|History|Time complexity|ACL categories|Flags) \|.*$`) // pages of commands have them alike
	word   = regexp.MustCompile(`[\p{L}\p{N}_]+(?:[.-][\p{L}\p{N}_]+)*`)
)

// everyPage is all Markdown of the repository, by its path.
func everyPage(t testing.TB) map[string]string {
	t.Helper()
	root := rootDir(t)
	listed, err := exec.Command("git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.md").Output()
	require.NoError(t, err)
	all := map[string]string{}
	for _, path := range strings.Fields(string(listed)) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) { // it is deleted, and not committed yet
			continue
		}
		require.NoError(t, err)
		all[path] = string(text)
	}
	require.Greater(t, len(all), 40)
	return all
}

// runsOnSeveralPages are the runs of words outside of blocks of code that stand on more than one page, by the pages.
func runsOnSeveralPages(pages map[string]string) map[string][]string {
	places := map[string][]string{}
	for path, text := range pages {
		words := word.FindAllString(strings.ToLower(heads.ReplaceAllString(fenced.ReplaceAllString(text, ""), "")), -1)
		for i := range max(len(words)-runLength+1, 0) {
			run := strings.Join(words[i:i+runLength], " ")
			if !slices.Contains(places[run], path) {
				places[run] = append(places[run], path)
			}
		}
	}
	byPages := map[string][]string{}
	for run, paths := range places {
		if len(paths) > 1 {
			slices.Sort(paths)
			pair := strings.Join(paths, ", ")
			byPages[pair] = append(byPages[pair], run)
		}
	}
	return byPages
}

// scripts/words prints what this finds.
func TestPagesDoNotSayTheSame(t *testing.T) {
	t.Parallel()
	pages := everyPage(t)
	runs, all := 0, 0
	var lines []string
	for path, text := range pages {
		all += len(strings.Fields(text))
		lines = append(lines, fmt.Sprintf("%6d words  %s", len(strings.Fields(text)), path))
	}
	for paths, shared := range runsOnSeveralPages(pages) {
		runs += len(shared)
		lines = append(lines, fmt.Sprintf("%6d shared %s: %s ...", len(shared), paths, slices.Min(shared)))
	}
	slices.Sort(lines)
	t.Logf("%s\n%6d words in %d pages, which share %d runs of %d words", strings.Join(lines, "\n"), all, len(pages), runs, runLength)
	assert.LessOrEqual(t, runs, sharedRuns, "say it on one page, and link to it (scripts/words lists what pages share)")
}

func TestWhatTwoPagesSayIsFound(t *testing.T) {
	t.Parallel()
	said := "one two three four five six seven eight nine ten eleven twelve"
	assert.Len(t, runsOnSeveralPages(map[string]string{"a.md": "Here: " + said + ".", "b.md": "## There\n\n" + said})["a.md, b.md"], 1)
	assert.Empty(t, runsOnSeveralPages(map[string]string{"a.md": said, "b.md": "```\n" + said + "\n```"}), "blocks of code may be alike")
}
