package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// reader reads the nodes of a file and collects all mistakes in it.
type reader struct {
	file   string
	errs   []error
	doubts []string
	// An alias can contain itself, or stand for more than memory holds.
	depth, elements, most int

	document *yaml.Node            // of a resource, whose nodes have no lines
	paths    map[*yaml.Node]string // of its nodes
}

// The deepest file that is read, how many elements its aliases may stand for beside those that are written out, and how
// many mappings come into one by "<<".
const (
	deepest      = 64
	mostRepeated = 20_000
	mostMerged   = 100
)

// fail notes a mistake at a node. Without one it is about the whole file.
func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, errors.New(r.place(n)+": "+fmt.Sprintf(format, args...)))
}

// doubt notes what is no mistake, but hardly what the author wanted.
func (r *reader) doubt(n *yaml.Node, format string, args ...any) {
	r.doubts = append(r.doubts, r.place(n)+": "+fmt.Sprintf(format, args...))
}

func (r *reader) place(n *yaml.Node) string {
	if n != nil && n.Line > 0 {
		return fmt.Sprintf("%s:%d:%d", r.file, n.Line, n.Column)
	}
	if r.document != nil && r.paths == nil {
		r.paths = map[*yaml.Node]string{}
		pathsOf(r.document, "", r.paths)
	}
	if path := r.paths[n]; path != "" {
		return r.file + ": " + path
	}
	return r.file
}

// parse returns the only document of a file, nil if it has none.
func (r *reader) parse(text string) *yaml.Node {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		var wrong *yaml.LoadError
		switch {
		case errors.As(err, &wrong) && wrong.Mark.Line > 0:
			r.fail(&yaml.Node{Line: wrong.Mark.Line, Column: max(wrong.Mark.Column, 1)}, "%s", wrong.Message)
		case !errors.Is(err, io.EOF): // an empty file has no document, which is told elsewhere
			r.fail(nil, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		return nil
	}
	if decoder.Decode(&second) == nil && !isNull(&second) {
		r.fail(&second, "a file has one document; this is a second one")
	}
	r.most = size(&document) + mostRepeated
	return resolve(&document)
}

// built prepares for a document that no text was parsed for.
func (r *reader) built(document *yaml.Node) { r.document, r.most = document, size(document) }

// size is how many nodes are written out in a file.
func size(n *yaml.Node) int {
	all := 1
	for _, inner := range n.Content {
		all += size(inner)
	}
	return all
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

// fields are the values of a mapping by key. An unknown key is a mistake, as upstream has it: it may be a limit that is
// misspelled.
func (r *reader) fields(n *yaml.Node, known ...string) map[string]*yaml.Node {
	n = resolve(n)
	if n == nil || n.Kind != yaml.MappingNode {
		r.fail(n, "expected a mapping, such as %s: ...", known[0])
		return nil
	}
	values := map[string]*yaml.Node{}
	sources := []*yaml.Node{n}
	for i := 0; i < len(sources); i++ { // what "<<" brings comes behind, and gives way to what is there
		if i > mostMerged {
			r.fail(n, `"<<" brings more than %d mappings into this one`, mostMerged)
			break
		}
		source := resolve(sources[i])
		if source.Kind == yaml.SequenceNode {
			sources = append(sources, source.Content...)
			continue
		}
		own := map[string]bool{}
		for j := 0; j+1 < len(source.Content); j += 2 {
			key, value := resolve(source.Content[j]), source.Content[j+1]
			switch {
			case key.Tag == "!!merge":
				sources = append(sources, value)
				continue
			case key.Kind != yaml.ScalarNode || !slices.Contains(known, key.Value):
				r.fail(key, "unknown key %q: expected %s", key.Value, alternatives(known))
			case own[key.Value]:
				r.fail(key, "the key %q is there twice", key.Value)
			case values[key.Value] == nil:
				values[key.Value] = value
			}
			own[key.Value] = true
		}
	}
	return values
}

// alternatives are words as a sentence lists them.
func alternatives(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
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
		if r.elements++; r.depth > deepest || r.elements > r.most {
			r.fail(n, "there are lists in lists, more than %d deep, or aliases that stand for more than %d elements", deepest, mostRepeated)
			r.elements = r.most // one mistake for each list that is still open
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

// word reads one of some words, the first of which is the default.
func (r *reader) word(n *yaml.Node, words ...string) string {
	w := r.text(n)
	switch {
	case n == nil:
		return words[0]
	case !slices.Contains(words, w):
		r.fail(resolve(n), "%q: expected %s", w, strings.Join(words, ", "))
		return words[0]
	}
	return w
}

// boolean also reads the words of YAML 1.1, in which the files of upstream are written.
func (r *reader) boolean(n *yaml.Node) bool {
	switch text := r.text(n); strings.ToLower(text) {
	case "true", "yes", "on", "y":
		return true
	case "false", "no", "off", "n", "":
	default:
		r.fail(resolve(n), "%q: expected true or false", text)
	}
	return false
}

// number reads an integer between two bounds, which may be left out.
func (r *reader) number(n *yaml.Node, otherwise, least, most int64) int64 {
	if n == nil {
		return otherwise
	}
	text := r.text(n)
	i, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64)
	if err != nil || i < least || i > most {
		r.fail(resolve(n), "%q: expected an integer from %d to %d", text, least, most)
		return least
	}
	return i
}
