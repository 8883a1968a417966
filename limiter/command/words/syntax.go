package words

import (
	"slices"
	"strings"
)

// Form is what a command says of its words. It also takes those words of the vocabulary whose row names it.
type Form struct {
	Command  string // its name, without CL.
	Required string // the words that have to be there, in the order of the syntax line; the value of one that ends in ... may be repeated
	Slots    SlotsForm
	Groups   bool // there are several keys, and a group of limits for each
}

// Syntax is what a command may be told behind its key or keys.
type Syntax struct {
	kinds    []*word // words that begin a limit; none of a command without limits
	terms    []*word // words that may follow a limit
	options  []*word // the other words, in any order
	required []*word // the options that have to be there
	repeated *word   // the option whose value may be repeated
	next     *word   // the option that begins another group
	slots    *word   // begins a group of SLOTS; nil of a command without
	form     SlotsForm
	settles  bool // USED may follow a limit

	expectedLimit string // lists of words, for errors
	expectedTerm  string
	expected      string
	turnKinds     string
}

// Compile works out the syntax of a command.
func Compile(f Form) (s Syntax) {
	for _, name := range strings.Fields(f.Required) {
		bare := strings.TrimSuffix(name, "...")
		w := named(vocabulary, bare)[0]
		s.required = append(s.required, w)
		if bare != name {
			s.repeated = w
		}
	}
	s.addOptional(f.Command)
	if len(s.terms) > 0 {
		s.addLimits(f.Groups)
	}
	groups := namesOf(s.kinds)
	if s.form = f.Slots; s.form != WithoutSlots {
		s.slots = named(vocabulary, "SLOTS")[0]
		groups = append(groups, s.slots.name)
	}
	s.expectedLimit, s.expected = oneOf(groups), oneOf(append(namesOf(s.kinds), namesOf(s.options)...))
	s.expectedTerm = list(s.terms) + s.expected
	return s
}

// addOptional adds the terms and options of a command in the order of the vocabulary. The required words stay in the
// order of the form.
func (s *Syntax) addOptional(command string) {
	required := s.required
	for i := range vocabulary {
		w := &vocabulary[i]
		at := slices.Index(required, w)
		switch {
		case at >= 0:
			s.options = append(s.options, required[:at+1]...)
			required = required[at+1:]
		case !w.isOf(command):
		case w.term:
			s.terms = append(s.terms, w)
		default:
			s.options = append(s.options, w)
		}
	}
}

// addLimits adds the words that begin limits, and groups of them.
func (s *Syntax) addLimits(groups bool) {
	s.settles = find(s.terms, []byte("USED")) != nil
	for i := range vocabulary {
		if vocabulary[i].limit != nil {
			s.kinds = append(s.kinds, &vocabulary[i])
		}
	}
	s.turnKinds = oneOf(namesOf(s.kinds[1:]))
	if groups {
		s.next = named(vocabulary, next)[0]
		s.options = append([]*word{s.next}, s.options...)
	}
}

// HasLimits reports whether calls have limits.
func (s *Syntax) HasLimits() bool { return len(s.kinds) > 0 }

// Places returns the indexes at which a call with one key has the first id and the number of slots if its words are in
// the order of the syntax line; 0 for what need not be there.
func (s *Syntax) Places() (idsAt, slotsAt int) {
	at := 1 // behind the key
	for _, w := range s.required {
		switch w.value {
		case &id:
			idsAt = at + 1
		case &slots:
			slotsAt = at + 1
		}
		at += 2
	}
	return idsAt, slotsAt
}

// IsIDs reports whether the words behind the key are ID and right ids, and may be. The parser would find the same.
func (s *Syntax) IsIDs(args [][]byte) bool {
	if len(s.required) != 1 || s.required[0] != s.repeated || len(args) < 3 || !s.repeated.is(args[1]) {
		return false
	}
	for _, text := range args[2:] {
		if !IsID(text) {
			return false
		}
	}
	return true
}

func namesOf(words []*word) (names []string) {
	for _, w := range words {
		names = append(names, w.name)
	}
	return names
}

// list is the beginning of a list of words.
func list(words []*word) (text string) {
	for _, w := range words {
		text += w.name + ", "
	}
	return text
}

// oneOf is a list of words of which one is expected.
func oneOf(names []string) string { return listOf(names, "or") }

// listOf is a list of words, with a conjunction before the last.
func listOf(names []string, conjunction string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + conjunction + " " + names[last]
}
