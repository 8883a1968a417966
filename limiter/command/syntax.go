package command

import "strings"

// syntax is what a command may be told behind its key or keys.
type syntax struct {
	kinds    []*word // words that begin a limit; none of a command without limits
	terms    []*word // words that may follow a limit
	options  []*word // the other words, in any order
	required []*word // the options that have to be there
	repeated *word   // the option whose value may be repeated
	next     *word   // the option that begins another group
	slots    *word   // begins a group of SLOTS; nil of a command without
	form     slotsForm
	settles  bool // USED may follow a limit

	expectedLimit string // lists of words, for errors
	expectedTerm  string
	expected      string
	turnKinds     string
}

// syntaxOf reads how a command describes its words.
func syntaxOf(cmd *Command) (s syntax) {
	for _, name := range strings.Fields(cmd.Words) {
		bare := strings.Trim(name, "[].")
		w := named(vocabulary, bare)[0]
		s.options = append(s.options, w)
		if name[0] != '[' {
			s.required = append(s.required, w)
		}
		if strings.HasSuffix(name, "...") {
			s.repeated = w
		}
	}
	if cmd.Terms != "" {
		s.terms = named(vocabulary, cmd.Terms)
		s.settles = find(s.terms, []byte("USED")) != nil
		for i := range vocabulary {
			if vocabulary[i].limit != nil {
				s.kinds = append(s.kinds, &vocabulary[i])
			}
		}
		s.turnKinds = oneOf(namesOf(s.kinds[1:]))
		if cmd.Keys == CountedKeys {
			s.next = named(vocabulary, next)[0]
			s.options = append([]*word{s.next}, s.options...)
		}
	}
	groups := namesOf(s.kinds)
	if s.form = cmd.Slots; s.form != noSlots {
		s.slots = named(vocabulary, "SLOTS")[0]
		groups = append(groups, s.slots.name)
	}
	s.expectedLimit, s.expected = oneOf(groups), oneOf(append(namesOf(s.kinds), namesOf(s.options)...))
	s.expectedTerm = list(s.terms) + s.expected
	return s
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
