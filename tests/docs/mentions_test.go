package docs_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// Links to files and headings of the repository lead somewhere, on every page of it.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	root := rootDir(t)
	for path, source := range everyPage(t) {
		p := parsePage(path, []byte(source))
		for _, link := range p.links {
			if strings.Contains(link, "://") {
				continue
			}
			path, fragment, _ := strings.Cut(link, "#")
			target := p
			if path != "" {
				full := filepath.Join(root, filepath.Dir(p.path), path)
				if _, err := os.Stat(full); !assert.NoError(t, err, "%s links to %s", p.path, link) {
					continue
				}
				if fragment != "" {
					target = readPage(t, root, full)
				}
			}
			if fragment != "" {
				assert.True(t, target.headings[fragment], "%s links to %s, and there is no such heading", p.path, link)
			}
		}
	}
}

// A cell more is not shown, and one that is missing is a mistake. A | in code separates cells, too, unless \ stands
// before it.
func TestRowsOfTablesHaveAsManyCellsAsTheirHeads(t *testing.T) {
	t.Parallel()
	delimiters := regexp.MustCompile(`^\|[-:| ]+\|$`)
	separators := func(line string) int { return strings.Count(line, "|") - strings.Count(line, `\|`) }
	tables := 0
	for _, p := range pages(t) {
		lines := strings.Split(p.source, "\n")
		for i, line := range lines {
			if i == 0 || !delimiters.MatchString(line) {
				continue
			}
			tables++
			for row := i - 1; row < len(lines) && strings.HasPrefix(lines[row], "|"); row++ {
				assert.Equal(t, separators(line), separators(lines[row]), "%s:%d has another number of cells than the table's other rows", p.path, row+1)
			}
		}
	}
	assert.Greater(t, tables, 100)
}

// Both tables of contents lead to every command, and the page of the Go client to each of its packages.
func TestTablesOfContentsAreComplete(t *testing.T) {
	t.Parallel()
	root := rootDir(t)
	named := func(dir, pattern string) (paths []string) {
		found, err := filepath.Glob(filepath.Join(root, dir, pattern))
		require.NoError(t, err)
		for _, path := range found {
			path, err = filepath.Rel(filepath.Join(root, dir), path)
			require.NoError(t, err)
			paths = append(paths, path)
		}
		require.NotEmpty(t, paths)
		return paths
	}
	assert.Subset(t, readPage(t, root, filepath.Join(root, "README.md")).links, named("", "docs/cl.*.md"))
	assert.Subset(t, readPage(t, root, filepath.Join(root, "docs/README.md")).links, named("docs", "cl.*.md"))
	client := readPage(t, root, filepath.Join(root, "ratelimit/README.md")).links
	for _, file := range named("ratelimit", "*/*.go") {
		if folder := filepath.Dir(file); folder != "internal" {
			assert.Contains(t, client, folder+"/")
		}
	}
}

var testName = regexp.MustCompile(`\b(Test[A-Z]\w*|Fuzz[A-Z]\w*)(\.\.\.)?`)

// A test that a page speaks of exists. "TestSome..." stands for tests that begin so.
func TestTestsThatPagesNameExist(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	require.NoError(t, filepath.WalkDir(rootDir(t), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			source.Write(text)
			return err
		}
		if err == nil && d.IsDir() && (d.Name() == "build" || d.Name() == ".git" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		return err
	}))
	for _, p := range pages(t) {
		for _, m := range testName.FindAllStringSubmatch(p.source, -1) {
			function := "\nfunc " + m[1]
			if m[2] == "" {
				function += "("
			}
			assert.True(t, strings.Contains(source.String(), function), "%s names %s", p.path, m[0])
		}
	}
}

var (
	sourceFile  = regexp.MustCompile("`([a-z_.]+/[a-z_./*]+\\.[a-z]+)`")
	commandFile = regexp.MustCompile(`(?m)(?:^| )(?:\./)?((?:bench|cmd|docs|examples|packaging|proof|scripts|tests)/[\w./-]+)`)
)

// A file that a page speaks of by its path exists, and so does one in a line for a shell. A * stands for some of its
// name.
func TestFilesThatPagesNameExist(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		named := sourceFile.FindAllStringSubmatch(p.source, -1)
		for _, b := range p.blocks() {
			if b.language == "sh" {
				named = append(named, commandFile.FindAllStringSubmatch(strings.Join(b.lines, "\n"), -1)...)
			}
		}
		for _, m := range named {
			if strings.HasPrefix(m[1], "build/") { // what make leaves
				continue
			}
			found, err := filepath.Glob(filepath.Join(rootDir(t), m[1]))
			require.NoError(t, err)
			assert.NotEmpty(t, found, "%s names %s", p.path, m[1])
		}
	}
}

var evidence = regexp.MustCompile("`[a-z]+/[a-z_/*]+(\\.(go|py|test\\.mts|txt))?`|\\b(Test|Fuzz)[A-Z]")

// Each promise names a test or a folder that shows it, or leads to the section about it.
func TestEachPromiseNamesWhatShowsIt(t *testing.T) {
	t.Parallel()
	rows, isPromise, promises := 0, false, []byte(nil)
	for _, name := range []string{"docs/internals/proof.md", "docs/internals/doors.md"} {
		source, err := os.ReadFile(filepath.Join(rootDir(t), name))
		require.NoError(t, err)
		promises = append(promises, source...)
	}
	for line := range strings.Lines(string(promises)) {
		cells := strings.Split(strings.ReplaceAll(line, "| |", "|  |"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| promise | ") {
			isPromise = strings.HasPrefix(line, "| promise | ") || isPromise && strings.HasPrefix(line, "|-")
			continue
		} else if !isPromise {
			continue
		}
		rows++
		require.Len(t, cells, 3, line)
		assert.True(t, evidence.MatchString(cells[1]) || strings.Contains(cells[1], "](#"), "names no test: %s", line)
	}
	assert.Greater(t, rows, 80)
}

var makeTarget = regexp.MustCompile("(?m)(?:^|`|\\s&& )make ([a-z][a-z0-9-]*)")

func TestTargetsThatPagesMakeExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(rootDir(t), "Makefile"))
	require.NoError(t, err)
	for _, p := range pages(t) {
		for _, m := range makeTarget.FindAllStringSubmatch(p.source, -1) {
			assert.True(t, regexp.MustCompile(`(?m)^`+m[1]+`:`).Match(makefile), "%s makes %s", p.path, m[1])
		}
	}
}

// Blocks that are a configuration start a server, which starts again after CONFIG REWRITE;
// those that are JSON are.
func TestConfigurationsOfPagesWork(t *testing.T) {
	t.Parallel()
	module, err := server.ModulePath()
	require.NoError(t, err)
	configurations := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks() {
			switch {
			case b.language == "json":
				assert.True(t, json.Valid([]byte(strings.Join(b.lines, "\n"))), "%s:%d", p.path, b.line)
			case len(b.lines) > 0 && strings.HasPrefix(b.lines[0], "loadmodule "):
				configurations++
				lines := slices.Clone(b.lines)
				for i := range lines {
					for _, path := range []string{"/path/to/throttle.so", "/usr/lib/redis/modules/throttle.so"} {
						lines[i] = strings.ReplaceAll(lines[i], path, module)
					}
				}
				s, err := server.TryStart(t, server.WithoutModule(), server.Config(lines...))
				if assert.NoError(t, err, "%s:%d", p.path, b.line) {
					assert.Contains(t, s.MustDo("MODULE", "LIST").String(), "throttle")
					s.MustDo("CONFIG", "REWRITE")
					s.Configure(server.KeepConfig())
					s.Restart()
					assert.Contains(t, s.MustDo("MODULE", "LIST").String(), "throttle", "after CONFIG REWRITE")
				}
			}
		}
	}
	assert.Positive(t, configurations)
}
