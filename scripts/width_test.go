package scripts_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Comments end by column 120, code by column 160. A tab has four columns.
const (
	widthOfProse = 120
	widthOfCode  = 160
)

var (
	marks = map[string]string{
		".go": "//", ".c": "//", ".h": "//", ".pml": "//", ".java": "//", ".kt": "//", ".ts": "//", ".mts": "//", ".cts": "//", ".js": "//",
		".mjs": "//", ".lua": "--", ".py": "#", ".sh": "#", ".yml": "#", ".yaml": "#", ".toml": "#", "": "#",
	}
	// What text says is data, which ends where it ends.
	literal = regexp.MustCompile("`[^`]*`|\"(\\\\.|[^\"\\\\])*\"|'(\\\\.|[^'\\\\])*'|(^|[=(,:?]) */(\\\\.|[^/\\\\* ])(\\\\.|[^/\\\\])*/")
	// In comments examples and tables are code, and what has no blank cannot be broken.
	example = regexp.MustCompile(`^[/*#-]*(\s{4,}|go:|export |\s?<t[rh]>)|^[/*#-]*\s*\S*$|https?://`)
)

// tooWide are the lines of a file that do not end in time.
func tooWide(name, text string) (lines []string) {
	mark, raw := marks[filepath.Ext(name)], "" // the end of a literal or of a comment of several lines
	if mark == "" {
		return nil
	}
	for i, line := range strings.Split(text, "\n") {
		line = strings.ReplaceAll(line, "\t", "    ")
		trimmed, width := strings.TrimSpace(line), widthOfCode
		prose := strings.HasPrefix(trimmed, mark) || raw == "*/" || raw == `""""`
		switch {
		case raw != "":
			if strings.Count(line, raw[:min(len(raw), 3)])%2 == 1 {
				raw = ""
			}
			if !prose {
				continue
			}
		case mark == "//" && strings.HasPrefix(trimmed, "/*"):
			prose = true
			if !strings.Contains(line, "*/") {
				raw = "*/"
			}
		case mark == "#" && strings.Count(line, `"""`) > 0:
			prose = strings.HasPrefix(trimmed, `"""`)
			if strings.Count(line, `"""`) == 1 && prose {
				raw = `""""`
			} else if strings.Count(line, `"""`) == 1 {
				raw = `"""`
			}
		case !prose:
			line = literal.ReplaceAllString(line, `""`)
			if before, _, opens := strings.Cut(line, "`"); mark == "//" && opens {
				line, raw = before, "`"
			}
		}
		if prose && !example.MatchString(trimmed) {
			width = widthOfProse
		}
		if n := utf8.RuneCountInString(line); n > width {
			lines = append(lines, fmt.Sprintf("%s:%d has %d columns, at most %d", name, i+1, n, width))
		}
	}
	return lines
}

func TestNoLineIsTooWide(t *testing.T) {
	t.Parallel()
	files, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "-z").Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(files), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil || filepath.Ext(name) == "" && !strings.HasPrefix(string(text), "#!") {
			continue // removed, a link to a folder, or no script
		}
		for _, line := range tooWide(name, string(text)) {
			t.Error(line)
		}
	}
}
