package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Error is a mistake in a file.
type Error struct {
	File         string
	Line, Column int
	Text         string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Text)
}

// reader reads the nodes of a file and collects all mistakes in it.
type reader struct {
	file string
	errs []error
	// An alias can contain itself, or stand for more than memory holds.
	depth, elements int
}

// The deepest and the largest file that is read.
const (
	deepest = 64
	largest = 1_000_000
)

// fail notes a mistake at a node. Without one it is about the whole file.
func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	e := &Error{File: r.file, Text: fmt.Sprintf(format, args...)}
	if n != nil {
		e.Line, e.Column = n.Line, n.Column
	}
	r.errs = append(r.errs, e)
}

// parse returns the only document of a file, nil if it has none.
func (r *reader) parse(text string) *yaml.Node {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		r.syntax(err)
		return nil
	}
	if decoder.Decode(&second) == nil && !isNull(&second) {
		r.fail(&second, "a file has one document; this is a second one")
	}
	return resolve(&document)
}

func (r *reader) syntax(err error) {
	e := &Error{File: r.file, Text: strings.TrimPrefix(err.Error(), "yaml: ")}
	var wrong *yaml.LoadError
	if errors.As(err, &wrong) && wrong.Mark.Line > 0 {
		e.Line, e.Column, e.Text = wrong.Mark.Line, max(wrong.Mark.Column, 1), wrong.Message
	}
	if e.Text != "EOF" { // an empty file has no document, which is told elsewhere
		r.errs = append(r.errs, e)
	}
}

// resolve is what a document or an alias stands for.
func resolve(n *yaml.Node) *yaml.Node {
	for n != nil {
		switch {
		case n.Kind == yaml.DocumentNode && len(n.Content) > 0:
			n = n.Content[0]
		case n.Kind == yaml.AliasNode:
			n = n.Alias
		default:
			return n
		}
	}
	return nil
}

func isNull(n *yaml.Node) bool {
	n = resolve(n)
	return n == nil || n.Kind == 0 || (n.Kind == yaml.ScalarNode && n.Tag == "!!null")
}

// field is a key of a mapping, and what reads its value.
type field struct {
	name string
	read func(*yaml.Node)
}

// fields reads a mapping. An unknown key is a mistake, as upstream has it: it may be a limit that is misspelled.
func (r *reader) fields(n *yaml.Node, known ...field) {
	n = resolve(n)
	if n == nil || n.Kind != yaml.MappingNode {
		r.fail(n, "expected a mapping, such as %s: ...", known[0].name)
		return
	}
	seen := map[string]bool{}
	var merged []*yaml.Node
	r.pairs(n, seen, &merged, known)
	for i := 0; i < len(merged) && i < 100; i++ { // what "<<" brings gives way to what is there
		source := resolve(merged[i])
		if source.Kind == yaml.SequenceNode {
			merged = append(merged, source.Content...)
			continue
		}
		inherited := map[string]bool{}
		r.pairs(without(source, seen), inherited, &merged, known)
		for name := range inherited {
			seen[name] = true
		}
	}
}

// without is a mapping without the keys that were seen.
func without(n *yaml.Node, seen map[string]bool) *yaml.Node {
	rest := *n
	rest.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !seen[n.Content[i].Value] {
			rest.Content = append(rest.Content, n.Content[i], n.Content[i+1])
		}
	}
	return &rest
}

func (r *reader) pairs(n *yaml.Node, seen map[string]bool, merged *[]*yaml.Node, known []field) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), n.Content[i+1]
		if key.Tag == "!!merge" {
			*merged = append(*merged, value)
			continue
		}
		at := slices.IndexFunc(known, func(f field) bool { return f.name == key.Value })
		switch {
		case key.Kind != yaml.ScalarNode || at < 0:
			r.fail(key, "unknown key %q: expected %s", key.Value, names(known))
		case seen[key.Value]:
			r.fail(key, "the key %q is there twice", key.Value)
		default:
			known[at].read(value)
		}
		seen[key.Value] = true
	}
}

func names(known []field) string {
	var all []string
	for _, f := range known {
		all = append(all, f.name)
	}
	if len(all) == 1 {
		return all[0]
	}
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

// list reads each element of a sequence. null is an empty one.
func (r *reader) list(n *yaml.Node, read func(*yaml.Node)) {
	if isNull(n) {
		return
	}
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "expected a list")
		return
	}
	r.depth++
	defer func() { r.depth-- }()
	for _, element := range n.Content {
		if r.elements++; r.depth > deepest || r.elements > largest {
			r.fail(n, "there are lists in lists, more than %d deep, or more than %d elements", deepest, largest)
			r.elements = largest // one mistake for each list that is still open
			return
		}
		read(resolve(element))
	}
}

// text reads a scalar as it is written, so that value: 42 is the text 42.
func (r *reader) text(n *yaml.Node) string {
	n = resolve(n)
	switch {
	case isNull(n):
		return ""
	case n.Kind != yaml.ScalarNode:
		r.fail(n, "expected a text")
		return ""
	}
	return n.Value
}

// word reads one of some words.
func (r *reader) word(n *yaml.Node, words ...string) string {
	w := r.text(n)
	if !slices.Contains(words, w) {
		r.fail(resolve(n), "%q: expected %s", w, strings.Join(words, ", "))
		return words[0]
	}
	return w
}

// boolean also reads the words of YAML 1.1, in which the files of upstream are written.
func (r *reader) boolean(n *yaml.Node) bool {
	switch strings.ToLower(r.text(n)) {
	case "true", "yes", "on", "y":
		return true
	case "false", "no", "off", "n", "":
		return false
	}
	r.fail(resolve(n), "%q: expected true or false", resolve(n).Value)
	return false
}

// number reads an integer between two bounds.
func (r *reader) number(n *yaml.Node, least, most int64) int64 {
	text := r.text(n)
	i, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64)
	if err != nil || i < least || i > most {
		r.fail(resolve(n), "%q: expected an integer from %d to %d", text, least, most)
		return least
	}
	return i
}
