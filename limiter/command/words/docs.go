package words

import (
	"slices"
	"strings"
)

// What COMMAND DOCS shows of the words of a command.

// Versions that commands or words came with.
const (
	V010 = "0.1.0"
	V020 = "0.2.0"
	V030 = "0.3.0"
	V040 = "0.4.0"
	V050 = "0.5.0"
)

// The complexity of commands that have limits: on one key, and on several.
const (
	PerLimit       = "O(N) where N is the number of limits, at most 8. A WINDOW adds O(1), at most 65 entries."
	PerKeyAndLimit = "O(N*M) where N is the number of keys and M the number of limits of a key, each at most 8. A WINDOW adds O(1), at most 65 entries, and SLOTS O(log L) where L is the number of leases."
)

var versions = []string{V010, V020, V030, V040, V050} // oldest first

// Change is what came to a command with a version of the module.
type Change struct{ Since, Changes string }

// History tells which words came to a command after its first version, since: those of its arguments, and those of the
// vocabulary. later are words by the version that they came to the command with, where that is not the one in the
// vocabulary.
func (s *Syntax) History(since string, args []Arg, later map[string]string) (all []Change) {
	for _, version := range versions[slices.Index(versions, since)+1:] {
		var names []string
		for _, arg := range args {
			if arg.Since == version {
				names = append(names, arg.Token)
			}
		}
		for _, w := range s.words() {
			if w.sinceIn(later) == version {
				names = append(names, w.name)
			}
		}
		if len(names) > 0 {
			all = append(all, Change{version, "Added " + listOf(names, "and") + "."})
		}
	}
	return all
}

// sinceIn is the version that the word came to a command with; empty if it was there from the start.
func (w *word) sinceIn(later map[string]string) string {
	for version, names := range later {
		if slices.Contains(strings.Fields(names), w.name) {
			return version
		}
	}
	return w.since
}

// words are all words of a command, in the order of its syntax.
func (s *Syntax) words() (all []*word) {
	for _, kind := range s.kinds {
		all = append(append(all, kind), kind.owned...)
	}
	all = append(all, s.terms...)
	if s.slots != nil {
		all = append(all, s.slots)
	}
	if s.form == SlotsWithTTL {
		all = append(all, slotsTTL)
	}
	return append(all, s.options...)
}

// ArgType is what an argument is, as COMMAND DOCS shows it.
type ArgType int

const (
	ArgKey     ArgType = iota
	ArgString          // text
	ArgInteger         // number
	ArgToken           // the token itself
	ArgOneOf           // one of Args
	ArgBlock           // all of Args, in their order
)

// Arg is one argument.
type Arg struct {
	Name     string
	Type     ArgType
	Token    string // the word in front
	Since    string // the version that Token came with, if that is not the command's first
	Optional bool
	Multiple bool
	Args     []Arg
}

// CountArgs returns how many arguments there are at least, those in front of the words included, and at most where a
// count says all that may be wrong. That is so while there is one word at the most. Otherwise most is -1.
func (s *Syntax) CountArgs(front []Arg) (least, most int) {
	counts := len(s.options) < 2 && len(s.kinds) == 0 && s.repeated == nil
	most = len(front)
	for _, arg := range front {
		if !arg.Optional {
			least++
		}
		counts = counts && !arg.Multiple
	}
	for _, w := range s.options {
		most++
		if w.value != nil {
			most++
		}
	}
	if !counts {
		most = -1
	}
	return least, most
}

// Args are the words of a command.
func (s *Syntax) Args() (args []Arg) {
	if len(s.kinds) > 0 {
		args = append(args, s.groupArg())
	}
	for _, w := range s.options {
		arg := w.arg()
		arg.Optional = find(s.required, []byte(w.name)) == nil
		arg.Multiple = w == s.repeated
		switch {
		case w.name == next:
			arg = Arg{Name: "next", Type: ArgBlock, Token: next, Optional: true, Multiple: true, Args: []Arg{s.groupArg()}}
		case w.needed != nil && find(s.required, []byte(w.with)) == nil:
			continue // it is in the block of the word that it needs
		case arg.Optional:
			arg = s.optional(w)
		}
		args = append(args, arg)
	}
	return args
}

// optional is a word that need not be there, with those that mean nothing without it.
func (s *Syntax) optional(w *word) Arg {
	args := []Arg{w.arg()}
	for _, other := range s.options {
		if other.needed == w {
			args = append(args, s.optional(other))
		}
	}
	if len(args) == 1 {
		return w.optional()
	}
	return Arg{Name: strings.ToLower(w.name), Type: ArgBlock, Optional: true, Args: args}
}

// groupArg is one or more limits or, where the command takes it, a group of SLOTS.
func (s *Syntax) groupArg() Arg {
	if s.form == WithoutSlots {
		return s.limitArg()
	}
	slots := Arg{Name: "slots", Type: ArgToken, Token: s.slots.name}
	if s.form == SlotsWithTTL {
		slots = Arg{Name: "slots", Type: ArgBlock, Args: []Arg{s.slots.arg(), slotsTTL.arg()}}
	}
	group := s.limitArg() // flat: clients bound how deep a reply is nested
	group.Name, group.Args = "group", append(group.Args, slots)
	return group
}

// limitArg is one or more limits.
func (s *Syntax) limitArg() Arg {
	limit := Arg{Name: "limit", Type: ArgOneOf, Multiple: true}
	for _, kind := range s.kinds {
		args := append([]Arg{kind.arg()}, alternatives(kind.owned)...)
		for _, term := range s.terms {
			args = append(args, term.optional())
		}
		limit.Args = append(limit.Args, Arg{Name: strings.ToLower(kind.name), Type: ArgBlock, Args: args})
	}
	return limit
}

// alternatives are words of which all others exclude the first, or which all go together.
func alternatives(words []*word) (args []Arg) {
	for _, w := range words {
		args = append(args, w.optional())
	}
	if len(words) < 2 || find(words[1].excluded, []byte(words[0].name)) == nil {
		return args
	}
	first := args[0]
	first.Optional = false
	return []Arg{{Name: "windows", Type: ArgOneOf, Optional: true, Args: []Arg{first, {Name: "calendar", Type: ArgBlock, Args: args[1:]}}}}
}

// arg is the word and what follows it.
func (w *word) arg() Arg {
	switch {
	case w.value == nil:
		return Arg{Name: strings.ToLower(w.name), Type: ArgToken, Token: w.name}
	case w.value.integer:
		return Arg{Name: w.value.arg, Type: ArgInteger, Token: w.name}
	}
	return Arg{Name: w.value.arg, Type: ArgString, Token: w.name}
}

func (w *word) optional() Arg {
	arg := w.arg()
	arg.Optional = true
	return arg
}
