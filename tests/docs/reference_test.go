package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/command"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// reference is the pages of commands.
func reference(t testing.TB) (all []page) {
	t.Helper()
	for _, p := range pages(t) {
		if p.commandName() != "" {
			all = append(all, p)
		}
	}
	require.Len(t, all, len(command.All), "a page for each command")
	return all
}

// field returns one entry of a reply that is names and values by turns.
func field(reply resp.Value, name string) resp.Value {
	for i := 0; i+1 < len(reply.Elems); i += 2 {
		if reply.Elems[i].Text == name {
			return reply.Elems[i+1]
		}
	}
	return resp.Value{}
}

func texts(values []resp.Value) (all []string) {
	for _, v := range values {
		all = append(all, v.Text)
	}
	return all
}

func TestHeadsOfPagesSayWhatTheServerSays(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, p := range reference(t) {
		t.Run(p.commandName(), func(t *testing.T) {
			head := map[string]cell{}
			for _, row := range p.parts[1].table.rows[1:] {
				head[row[0].text] = row[1]
			}
			info := s.MustDo("COMMAND", "INFO", p.commandName()).Elems[0].Elems
			flags := strings.Fields(strings.ReplaceAll(head["Flags"].code[0], "deny-oom", "denyoom"))
			assert.ElementsMatch(t, append(flags, "module"), texts(info[2].Elems))
			if len(info) > 6 && len(info[6].Elems) > 0 { // some servers know no categories of modules
				want := head["ACL categories"].code
				if !s.Program.HasCategoriesOfModules() {
					want = slices.DeleteFunc(want, func(category string) bool { return category == "@throttle" })
				}
				assert.ElementsMatch(t, want, texts(info[6].Elems))
			}
			if s.Program.AtLeast(7, 0) {
				docs := s.MustDo("COMMAND", "DOCS", p.commandName()).Elems[1]
				assert.Equal(t, field(docs, "since").Text, head["Available since"].text)
				assert.Equal(t, field(docs, "complexity").Text, head["Time complexity"].text)
				var history []string
				for _, change := range field(docs, "history").Elems {
					history = append(history, change.Elems[0].Text+": "+change.Elems[1].Text)
				}
				assert.Equal(t, strings.Join(history, " "), head["History"].text)
			}
		})
	}
}

var keyword = regexp.MustCompile(`\b[A-Z]{2,}\b`)

func TestSyntaxHasTheKeywordsThatTheServerKnows(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("this server has no COMMAND DOCS")
	}
	for _, p := range reference(t) {
		syntax := strings.ReplaceAll(strings.Join(p.parts[0].block.lines, " "), strings.ToUpper(p.commandName()), "")
		assert.ElementsMatch(t, keywordsOf(s.MustDo("COMMAND", "DOCS", p.commandName()).Elems[1]),
			slices.Compact(slices.Sorted(slices.Values(keyword.FindAllString(syntax, -1)))), p.path)
	}
}

// keywordsOf collects the tokens of all arguments.
func keywordsOf(docs resp.Value) (tokens []string) {
	for _, argument := range field(docs, "arguments").Elems {
		if token := field(argument, "token").Text; token != "" {
			tokens = append(tokens, token)
		}
		tokens = append(tokens, keywordsOf(argument)...)
	}
	slices.Sort(tokens)
	return slices.Compact(tokens)
}

func TestFieldsOfRepliesAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("CONFIG", "SET", "throttle.top", "10")
	for range 2 {
		s.MustDo("CL.LIMIT", "k", "RATE", "1/h")
	}
	for path, reply := range map[string]resp.Value{
		"docs/cl.limit.md":  s.MustDo("CL.LIMIT", "k", "RATE", "1/h"),
		"docs/cl.mlimit.md": s.MustDo("CL.MLIMIT", "1", "k", "RATE", "1/h"),
		"docs/cl.top.md":    s.MustDo("CL.TOP").Elems[0],
	} {
		var names []string
		for i := 0; i < len(reply.Elems); i += 2 {
			names = append(names, reply.Elems[i].Text)
		}
		for _, p := range reference(t) {
			if p.path == path {
				assert.Equal(t, names, firstColumn(p.table(t, "Reply")), path)
			}
		}
	}

	// Of the counters of commands the page shows one.
	info := regexp.MustCompile(`(?m)^throttle_calls_.*\n`).ReplaceAllStringFunc(s.MustDo("INFO", "throttle").Text, func(line string) string {
		if strings.HasPrefix(line, "throttle_calls_limit:") {
			return line
		}
		return ""
	})
	names := regexp.MustCompile(`(?m)^(\w+):`).FindAllStringSubmatch(info, -1)
	documented := firstColumn(readPage(t, rootDir(t), filepath.Join(rootDir(t), "docs/observing.md")).table(t, "INFO"))
	require.Len(t, documented, len(names))
	for i, name := range names {
		assert.Equal(t, name[1], documented[i])
	}
}

func firstColumn(t table) (names []string) {
	for _, row := range t.rows[1:] {
		names = append(names, row[0].code...)
	}
	return names
}

// examplesInWords are examples that are too long to be spelled out.
var examplesInWords = map[string]string{
	"a call of more than 94 ids":        "CL.RELEASE jobs ID" + strings.Repeat(" a", 95),
	"a call of more than 96 arguments":  "CL.LIMIT user:42" + strings.Repeat(" RATE 5/s", 48),
	"a call of more than 800 arguments": "CL.MLIMIT 1 user:42" + strings.Repeat(" RATE 5/s", 400),
}

// answered is an error, and the calls of which the last is answered with it.
type answered struct {
	calls []string
	text  string
}

// errorsOfCommands is errors.txt.
func errorsOfCommands(t testing.TB) (all []answered) {
	t.Helper()
	source, err := os.ReadFile("errors.txt")
	require.NoError(t, err)
	var calls []string
	for line := range strings.Lines(string(source)) {
		line = strings.TrimSuffix(line, "\n")
		if call, ok := strings.CutPrefix(line, "> "); ok {
			calls = append(calls, call)
		} else if line != "" && !strings.HasPrefix(line, "#") {
			require.NotEmpty(t, calls, line)
			all = append(all, answered{calls, line})
			calls = nil
		}
	}
	require.Empty(t, calls)
	require.Greater(t, len(all), 50)
	return all
}

func TestErrorsAreAnsweredToTheirExamples(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("aliases", "GCRA"))
	s.MustDo("RPUSH", "a:list", "1")
	s.MustDo("SET", "a:text", "hello")
	for _, example := range errorsOfCommands(t) {
		var reply resp.Value
		for _, call := range example.calls {
			if long := examplesInWords[call]; long != "" {
				call = long
			}
			reply = s.Do(argumentsOf(call)...)
		}
		assert.True(t, reply.IsError(), example.calls)
		assert.Equal(t, example.text, reply.Text, example.calls)
	}
}

// What docs/errors.md explains are errors that there are.
func TestErrorsThatThePageExplainsExist(t *testing.T) {
	t.Parallel()
	all := errorsOfCommands(t)
	explained := 0
	for _, row := range readPage(t, rootDir(t), filepath.Join(rootDir(t), "docs/errors.md")).table(t, "Errors").rows[1:] {
		for _, text := range row[0].code {
			explained++
			assert.True(t, slices.ContainsFunc(all, func(a answered) bool { return strings.Contains(a.text, text) }), "no error has %q", text)
		}
	}
	assert.GreaterOrEqual(t, explained, 10)
}

// argumentsOf splits a line of the docs at its spaces, except between double quotes.
func argumentsOf(line string) (arguments []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			arguments = append(arguments, part)
		} else {
			arguments = append(arguments, strings.Fields(part)...)
		}
	}
	return arguments
}

// Every text of an error in the source has an example in errors.txt.
func TestTheErrorsOfTheSourceHaveExamples(t *testing.T) {
	t.Parallel()
	var examples []string
	for _, example := range errorsOfCommands(t) {
		examples = append(examples, example.text)
	}
	all := strings.Join(examples, "\n")
	texts := errorTexts(t)
	for _, text := range texts {
		assert.True(t, strings.Contains(all, text), "errors.txt lacks the error %q", text)
	}
	for _, error := range examples {
		assert.True(t, slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(error, text) }) ||
			strings.HasPrefix(error, "ERR wrong number of arguments for "), "the source has no %q", error)
	}
}

// errorTexts is the constants that errors are made of: those of the commands, except for the
// words in which several describe themselves.
func errorTexts(t testing.TB) (texts []string) {
	t.Helper()
	folder := filepath.Join(rootDir(t), "limiter/command")
	commands, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	language, err := filepath.Glob(filepath.Join(folder, "*/*.go"))
	require.NoError(t, err)
	for _, name := range append(commands, language...) {
		if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "docs.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if declaration, ok := n.(*ast.GenDecl); !ok || declaration.Tok != token.CONST {
				return !ok
			}
			ast.Inspect(n, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, err := strconv.Unquote(literal.Value)
					require.NoError(t, err)
					texts = append(texts, text)
				}
				return true
			})
			return false
		})
	}
	require.Greater(t, len(texts), 20)
	return texts
}
