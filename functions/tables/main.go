// Tables puts the function library together: its rooms, and between them the words, the replies and the errors of the
// commands, from the Go code that has them. go generate ./functions writes it into functions/throttle.lua.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/words"
)

// What is generated stands between two lines that name it.
const (
	begin = "-- BEGIN GENERATED: "
	end   = "-- END GENERATED: "
)

// commands are those that the library has functions for.
var commands = []*command.Command{
	command.Throttle, command.Limit, command.Peek, command.Refund, command.Ban, command.MLimit, command.Settle,
	command.Lease, command.Renew, command.Release, command.Leases, command.Inspect,
}

// packages have the texts of errors, as string constants.
var packages = []string{"limiter/command", "limiter/command/words"}

// rooms are the files of functions/library, in the order in which they stand in the library. Lua reads a name only
// behind the line that declares it.
var rooms = []string{
	"head", "numbers", "rate", "window", "calendar", "fixed", "stack", "decisions", "keys", "leases", "values", "words", "calls", "shortcuts", "functions",
}

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

// run takes the folder of the repository.
func run(root string) error {
	joined, err := join(filepath.Join(root, "functions", "library"))
	if err != nil {
		return err
	}
	written, err := write(joined, root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "functions", "throttle.lua"), []byte(written), 0o644)
}

// join returns the rooms of a folder, one behind the other. A file that is no room is an error: servers would not load
// it.
func join(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if name, isLua := strings.CutSuffix(filepath.Base(file), ".lua"); !isLua || !slices.Contains(rooms, name) {
			return "", fmt.Errorf("%s is not among the rooms of the library", file)
		}
	}
	texts := make([]string, len(rooms))
	for i, name := range rooms {
		text, err := os.ReadFile(filepath.Join(dir, name+".lua"))
		if err != nil {
			return "", err
		}
		texts[i] = string(text)
	}
	return strings.Join(texts, "\n"), nil
}

// write puts the tables into a library. root is the folder of the repository.
func write(library, root string) (string, error) {
	version, err := version(filepath.Join(root, "module", "version.go"))
	if err != nil {
		return "", err
	}
	texts, err := texts(library, root)
	if err != nil {
		return "", err
	}
	vocabulary := fmt.Sprintf("local VERSION = %d -- of the module that it does as: major x 10000 + minor x 100 + patch\n", version) +
		block("WORDS", words.Rows(), func(r words.Row) (string, string) { return r.Name, row(r) }) +
		block("COMMANDS", commands, func(c *command.Command) (string, string) { return strings.TrimPrefix(c.Name, "CL."), table(c) }) +
		block("TEXT", texts, func(t text) (string, string) { return t.name, quoted(t.value) })
	zones, err := zones()
	if err != nil {
		return "", err
	}
	library, err = replace(library, "words", vocabulary)
	if err != nil {
		return "", err
	}
	return replace(library, "zones", zones)
}

// replace puts a text between the lines that name it.
func replace(library, name, text string) (string, error) {
	first, last := begin+name+"\n", end+name+"\n"
	before, rest, hasFirst := strings.Cut(library, first)
	_, after, hasLast := strings.Cut(rest, last)
	if !hasFirst || !hasLast {
		return "", fmt.Errorf("the library lacks the lines %q and %q", first, last)
	}
	return before + first + text + last + after, nil
}

// block is a table with a line for each element.
func block[T any](name string, all []T, line func(T) (name, value string)) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nlocal %s = {\n", name)
	for _, e := range all {
		name, value := line(e)
		fmt.Fprintf(&b, "  %s = %s,\n", name, value)
	}
	b.WriteString("}\n")
	return b.String()
}

// fields writes a table of one line, without what is empty.
type fields []string

func (f *fields) add(name, value string, isThere bool) {
	if isThere {
		*f = append(*f, name+" = "+value)
	}
}

func (f fields) String() string { return "{ " + strings.Join(f, ", ") + " }" }

func row(r words.Row) string {
	var f fields
	f.add("name", quoted(r.Name), true)
	f.add("value", quoted(r.Value), r.Value != "")
	f.add("right", quoted(r.Right), r.Right != "")
	f.add("has_unit", "true", r.HasUnit)
	f.add("is_name", "true", r.IsName)
	f.add("with", quoted(r.With), r.With != "")
	f.add("rates_only", "true", r.RatesOnly)
	f.add("excluded", list(r.Excluded), true)
	f.add("owned", list(r.Owned), true)
	return f.String()
}

// table says what a function may be told behind its keys. The key counts as an argument of a command, and does not of a
// function.
func table(c *command.Command) string {
	w := c.Words()
	least, most := c.ArgCounts()
	var f fields
	f.add("name", quoted(strings.ToLower(c.Name)), true)
	f.add("least", strconv.Itoa(least-1), true)
	f.add("most", strconv.Itoa(most-1), most >= 0)
	f.add("groups", "true", c.Keys == command.CountedKeys)
	f.add("slots", quoted("alone"), w.Slots == words.SlotsAlone)
	f.add("slots", quoted("with TTL"), w.Slots == words.SlotsWithTTL)
	f.add("settles", "true", w.Settles)
	f.add("has_id", "true", slices.Contains(w.Options, "ID"))
	f.add("repeated", quoted(w.Repeated), w.Repeated != "")
	lists := []string{"kinds = " + list(w.Kinds), "terms = " + list(w.Terms), "options = " + list(w.Options), "required = " + list(w.Required), "fields = " + list(c.Fields)}
	return "{\n    " + strings.Join(f, ", ") + ",\n    " + strings.Join(lists, ",\n    ") + ",\n  }"
}

func list(names []string) string {
	if len(names) == 0 {
		return "{}"
	}
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = quoted(name)
	}
	return "{ " + strings.Join(all, ", ") + " }"
}

// quoted is a text that has nothing to escape, as those of errors.
func quoted(text string) string { return "'" + text + "'" }

type text struct{ name, value string }

// texts are those that a library uses, by the names of the constants in Go, in alphabetical order.
func texts(library, root string) (all []text, err error) {
	constants := map[string]string{}
	for _, dir := range packages {
		if err := addConstants(constants, filepath.Join(root, dir)); err != nil {
			return nil, err
		}
	}
	var names []string
	for _, use := range regexp.MustCompile(`\bTEXT\.(\w+)`).FindAllStringSubmatch(library, -1) {
		names = append(names, use[1])
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		value, ok := constants[name]
		if !ok {
			return nil, fmt.Errorf("no text in %v is called %s", packages, name)
		}
		if strings.ContainsAny(value, "'\\\n") {
			return nil, fmt.Errorf("%s has to be quoted: %s", name, value)
		}
		all = append(all, text{name, value})
	}
	return all, nil
}

// addConstants adds the string constants of a package.
func addConstants(to map[string]string, dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if group, ok := decl.(*ast.GenDecl); ok && group.Tok == token.CONST {
				addValues(to, group)
			}
		}
	}
	return nil
}

func addValues(to map[string]string, group *ast.GenDecl) {
	for _, spec := range group.Specs {
		value := spec.(*ast.ValueSpec)
		for i, name := range value.Names {
			if i >= len(value.Values) {
				continue
			}
			if literal, ok := value.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				to[name.Name], _ = strconv.Unquote(literal.Value)
			}
		}
	}
}

// version reads the number that MODULE LIST shows for the module.
func version(path string) (n int, err error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for _, part := range []string{"major", "minor", "patch"} {
		found := regexp.MustCompile(`\b` + part + `\s*= (\d+)`).FindSubmatch(source)
		if found == nil {
			return 0, fmt.Errorf("%s does not say which %s it is", path, part)
		}
		value, err := strconv.Atoi(string(found[1]))
		if err != nil {
			return 0, err
		}
		n = 100*n + value
	}
	return n, nil
}
