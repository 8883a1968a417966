package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"redis-throttle/tests/server"
)

// page is one Markdown file.
type page struct {
	path     string // from the repository's root
	source   string
	parts    []part // blocks and tables, in order
	links    []string
	headings map[string]bool // as the anchors of links
}

// part is a fenced block or a table; the other is nil.
type part struct {
	heading string // the one it stands under
	block   *block
	table   *table
}

type block struct {
	language string
	lines    []string
	line     int // of the first, in the file
}

type table struct{ rows [][]cell }

type cell struct {
	text string   // without marks
	code []string // what is set as code
}

func (p page) blocks() (blocks []block) {
	for _, part := range p.parts {
		if part.block != nil {
			blocks = append(blocks, *part.block)
		}
	}
	return blocks
}

// table returns the first table under a heading, with its head as first row.
func (p page) table(t testing.TB, heading string) table {
	t.Helper()
	for _, part := range p.parts {
		if part.table != nil && part.heading == heading {
			return *part.table
		}
	}
	require.Failf(t, "no table", "%s has none under %q", p.path, heading)
	return table{}
}

// commandName is the command that a page of the reference is about, "" for other pages.
func (p page) commandName() string {
	if name := filepath.Base(p.path); strings.HasPrefix(name, "cl.") {
		return strings.TrimSuffix(name, ".md")
	}
	return ""
}

// pages reads README.md, the other pages beside it, and all of docs/.
func pages(t testing.TB) (all []page) {
	t.Helper()
	root := rootDir(t)
	paths, err := filepath.Glob(filepath.Join(root, "*.md"))
	require.NoError(t, err)
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			paths = append(paths, path)
		}
		return err
	})
	require.NoError(t, err)
	for _, path := range paths {
		all = append(all, readPage(t, root, path))
	}
	require.NotEmpty(t, all)
	return all
}

func rootDir(t testing.TB) string {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	return root
}

func readPage(t testing.TB, root, path string) page {
	t.Helper()
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	path, err = filepath.Rel(root, path)
	require.NoError(t, err)
	return parsePage(path, source)
}

func parsePage(path string, source []byte) page {
	p := page{path: path, source: string(source), headings: map[string]bool{}}
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	heading := ""
	_ = ast.Walk(markdown.Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			heading = plain(n, source)
			p.headings[anchor(heading)] = true
		case *ast.FencedCodeBlock:
			p.parts = append(p.parts, part{heading: heading, block: newBlock(n, source)})
		case *extensionast.Table:
			p.parts = append(p.parts, part{heading: heading, table: newTable(n, source)})
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
		}
		return ast.WalkContinue, nil
	})
	return p
}

func newBlock(n *ast.FencedCodeBlock, source []byte) *block {
	b := &block{language: string(n.Language(source))}
	for i := range n.Lines().Len() {
		segment := n.Lines().At(i)
		if i == 0 {
			b.line = strings.Count(string(source[:segment.Start]), "\n") + 1
		}
		b.lines = append(b.lines, strings.TrimRight(string(segment.Value(source)), "\n"))
	}
	return b
}

func newTable(n *extensionast.Table, source []byte) *table {
	t := &table{}
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []cell
		for c := row.FirstChild(); c != nil; c = c.NextSibling() {
			cells = append(cells, cell{text: plain(c, source), code: codes(c, source)})
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

// plain is the text of a node without marks.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(source))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

func codes(n ast.Node, source []byte) (all []string) {
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if c, ok := n.(*ast.CodeSpan); ok && entering {
			all = append(all, plain(c, source))
		}
		return ast.WalkContinue, nil
	})
	return all
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor is the name by which GitHub links to a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
