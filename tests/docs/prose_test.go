package docs_test

import (
	"bytes"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	markdown "github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"redis-throttle/limiter/command"
)

// longestSentence is in words. A sentence in Go's or Redis's documentation rarely has more.
const longestSentence = 40

// unplain are patterns that make readers stop, and what to write instead.
var unplain = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`^Who\b[^?]*$`), `a noun as subject: "A caller that ..."`},
	{regexp.MustCompile(`(?i)\bwhoever\b`), `"a caller that", "anyone who"`},
	{regexp.MustCompile(`(?i)\b(for|only|from|to|than|unless) who [a-z]+s\b`), `"a caller that ..."`},
	{regexp.MustCompile(`(?i)\b(as|how) things (are|stand|stood)\b`), `"after this call", "the current state"`},
	{regexp.MustCompile(`(?i)\bcome what may\b`), `"always", "even if ..."`},
	{regexp.MustCompile(`^There is nothing to\b`), `who does what: "The server does not check ..."`},
	{regexp.MustCompile(`(?i)\bof all or (of )?none\b`), `"all of them or none"`},
	{regexp.MustCompile(`(?i)\bbut for\b`), `"except for"`},
	{regexp.MustCompile(`(?i)\b(thereof|whence|lest)\b`), `plain words`},
	{regexp.MustCompile(`(?i)\bfor want of\b`), `"because there is no ..."`},
	{regexp.MustCompile(`(?i)\b(that|those) which\b|\bfirst first\b`), `"the ... that", "soonest to lapse first"`},
	{regexp.MustCompile(`(?i)\b(those|others) who\b|^One who\b`), `"callers that ...", "a client that ..."`},
	{regexp.MustCompile(`(?i)\bwhose turn (it is|comes)\b`), `"the first in line"`},
	{regexp.MustCompile(`(?i)\bwhat (is|was|were|are)( [^ .,]+){1,4} where (it|they) (is|was|were|are)\b`), `what it is, by name`},
	{regexp.MustCompile(`(?i)\bwhat has to be\b`), `"what it needs"`},
	{regexp.MustCompile(`(?i)\bwhat is behind\b`), `what it is, by name`},
	{regexp.MustCompile(`(?i)\bis the only one of \w+(,|$)`), `what follows: "different words pack differently"`},
	{regexp.MustCompile(`^\w+ (is|are) (that|those) of\b`), `what it is or does: "Options configure New", "name returns the name of ..."`},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) let through (that|who)\b`), `the request first: "how long to wait before a request is made again"`},
	{regexp.MustCompile(`(?i)\b(find|return|is|or)s? the ones? of \w+( \w+)? (that|whose)\b|^the ones? of \w+ (that|whose)\b`), `the noun: "the option that ..."`},
	{regexp.MustCompile(`(?i)\bnothing is to be\b`), `"there is nothing to correct"`},
	{regexp.MustCompile(`(?i)\bsees? to it\b`), `"makes sure that", "checks that"`},
	{regexp.MustCompile(`(?i), of which an? \w+ [^,]*\bdecided\b`), `"a result that a limit decided"`},
	{regexp.MustCompile(`(?i)\bof which (there|nobody|none)\b`), `two sentences`},
	{regexp.MustCompile(`(?i)\bof( [^ .,;:()]+){1,4} of( [^ .,;:()]+){1,4} of\b`), `fewer "of": a verb, or two sentences`},
}

// Every Markdown file, every comment and every text that the server shows is in plain English, as far as patterns can
// tell.
func TestProseIsPlain(t *testing.T) {
	t.Parallel()
	root := rootDir(t)
	for path, paragraphs := range prose(t, root) {
		for _, p := range paragraphs {
			for _, sentence := range sentences(p) {
				if problem := problemOf(sentence); problem != "" {
					t.Errorf("%s: %s\n\t%s", path, problem, sentence)
				}
			}
		}
	}
}

func problemOf(sentence string) string {
	for _, u := range unplain {
		if found := u.pattern.FindString(sentence); found != "" {
			return "\"" + found + "\": write " + u.instead
		}
	}
	if words := len(strings.Fields(sentence)); words > longestSentence {
		return "a sentence that is too long: make it two"
	}
	return ""
}

var sentenceEnd = regexp.MustCompile(`[.!?]["')\]*]*\s+|;\s+`)

func sentences(paragraph string) (all []string) {
	for len(paragraph) > 0 {
		end := sentenceEnd.FindStringIndex(paragraph)
		if end == nil {
			end = []int{len(paragraph), len(paragraph)}
		}
		all = append(all, strings.TrimSpace(paragraph[:end[1]]))
		paragraph = paragraph[end[1]:]
	}
	return all
}

// prose is the paragraphs of each file.
func prose(t testing.TB, root string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{"build", "run", ".git", "node_modules", ".venv", "dist", "testdata", "results"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		source, err := os.ReadFile(path)
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(path, ".md"):
			all[name] = paragraphsOfMarkdown(source)
		case strings.HasSuffix(path, ".go"):
			all[name] = paragraphsOfGo(t, path, source)
		case slices.Contains([]string{".c", ".h", ".pml", ".ts", ".mts", ".mjs", ".js"}, filepath.Ext(path)):
			all[name] = paragraphsOfLines(linesOfC, source)
		case filepath.Ext(path) == ".py":
			all[name] = paragraphsOfLines(linesOfPython, source)
		case filepath.Ext(path) == ".lua":
			all[name] = paragraphsOfLines(linesOfLua, source)
		case slices.Contains([]string{".yaml", ".yml", ".toml", ".sh"}, filepath.Ext(path)) || bytes.HasPrefix(source, []byte("#!")):
			all[name] = paragraphsOfLines(linesOfShell, source)
		}
		return nil
	}))
	for _, c := range command.All {
		all["COMMAND DOCS "+c.Name] = []string{c.Summary, c.Complexity}
	}
	all["errors in command"] = errorTexts(t)
	require.Greater(t, len(all), 100)
	return all
}

// paragraphsOfMarkdown leaves out blocks of code; code in a line is one word.
func paragraphsOfMarkdown(source []byte) (all []string) {
	tree := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	_ = markdown.Walk(tree, func(n markdown.Node, entering bool) (markdown.WalkStatus, error) {
		switch n.(type) {
		case *markdown.Paragraph, *markdown.TextBlock, *markdown.Heading, *extensionast.TableCell:
			if entering {
				all = append(all, plainWithoutCode(n, source))
			}
			return markdown.WalkSkipChildren, nil
		}
		return markdown.WalkContinue, nil
	})
	return all
}

func plainWithoutCode(n markdown.Node, source []byte) string {
	var b strings.Builder
	_ = markdown.Walk(n, func(n markdown.Node, entering bool) (markdown.WalkStatus, error) {
		switch n := n.(type) {
		case *markdown.CodeSpan:
			if entering {
				b.WriteString("CODE")
			}
			return markdown.WalkSkipChildren, nil
		case *markdown.Text:
			if entering {
				b.Write(n.Segment.Value(source))
				if n.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		}
		return markdown.WalkContinue, nil
	})
	return b.String()
}

// paragraphsOfGo returns the paragraphs of all comments.
func paragraphsOfGo(t testing.TB, path string, source []byte) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ParseComments)
	require.NoError(t, err)
	for _, group := range file.Comments {
		all = append(all, paragraphsOfComment(group.Text())...)
	}
	return all
}

// Comments that fill lines, which may be several, and those behind code: in C, Promela and JavaScript; in shell scripts and
// YAML; in Lua; and in Python, which has docstrings too.
var (
	linesOfC      = regexp.MustCompile(`(?m)(^[ \t]*//.*\n)+|[ \t]//[ ].*$|(?s)/\*.*?\*/`)
	linesOfShell  = regexp.MustCompile(`(?m)(^[ \t]*#([ ].*)?\n)+|[ \t]#[ ].*$`)
	linesOfLua    = regexp.MustCompile(`(?m)(^[ \t]*--([ ].*)?\n)+|[ \t]--[ ].*$`)
	linesOfPython = regexp.MustCompile(`(?s:(\A|:\n)[ \t]*""".*?""")|` + linesOfShell.String())
	markOfLine    = regexp.MustCompile(`\A:\n|(?m)^[ \t]*(//|/?\*+/?|#|--|""")[ ]?|[ ]*(\*/|""")|^[ \t]+`)
)

func paragraphsOfLines(lines *regexp.Regexp, source []byte) (all []string) {
	for _, group := range lines.FindAllString(string(source), -1) {
		all = append(all, paragraphsOfComment(markOfLine.ReplaceAllString(group, ""))...)
	}
	return all
}

func paragraphsOfComment(source string) (all []string) {
	doc := new(comment.Parser).Parse(source)
	var collect func([]comment.Block)
	collect = func(blocks []comment.Block) {
		for _, block := range blocks {
			switch b := block.(type) {
			case *comment.Paragraph:
				all = append(all, plainOfComment(b.Text))
			case *comment.List:
				for _, item := range b.Items {
					collect(item.Content)
				}
			}
		}
	}
	collect(doc.Content)
	return all
}

func plainOfComment(parts []comment.Text) string {
	var b strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case comment.Plain:
			b.WriteString(string(p))
		case comment.Italic:
			b.WriteString(string(p))
		case *comment.DocLink:
			b.WriteString(plainOfComment(p.Text))
		case *comment.Link:
			b.WriteString(plainOfComment(p.Text))
		}
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}
