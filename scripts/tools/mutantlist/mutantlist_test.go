package mutantlist

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// matches reports whether a row of a list names a line of code that is in its file.
func matches(t *testing.T, root, name string) bool {
	t.Helper()
	file, rest, _ := strings.Cut(name, separator)
	_, marked, _ := strings.Cut(rest, separator)
	before, rest, opens := strings.Cut(marked, "«")
	changed, after, closes := strings.Cut(rest, "»")
	if !opens || !closes || changed == "" {
		return false
	}
	code, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Log(err)
		return false
	}
	return slices.ContainsFunc(strings.Split(string(code), "\n"), func(line string) bool {
		return strings.TrimSpace(line) == before+changed+after
	})
}

// A mutant that no test kills is listed with its line of code. When that line changes, the row has to follow.
func TestEachRowNamesALineOfCode(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for _, list := range []string{"mutants.txt", "mutants-c.txt", "mutants-lua.txt"} {
		names, err := Read(filepath.Join(root, "proof", list))
		if err != nil {
			t.Fatal(err)
		}
		if len(names) < 10 {
			t.Errorf("%s has %d rows", list, len(names))
		}
		for i, name := range names {
			if !matches(t, root, name) {
				t.Errorf("%s: no such line: %s", list, name)
			}
			if slices.Contains(names[:i], name) {
				t.Errorf("%s: listed twice: %s", list, name)
			}
		}
	}
}
