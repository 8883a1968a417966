package command

import (
	"slices"
	"strings"
)

// What COMMAND DOCS shows of a command.

// perLimit is the complexity of the commands that have limits.
const perLimit = "O(N) where N is the number of limits, at most 8. A WINDOW adds O(1), at most 65 entries."

// manyLimits is the complexity of the commands that have several keys with limits.
const manyLimits = "O(N*M) where N is the number of keys and M the number of limits of a key, each at most 8. A WINDOW adds O(1), at most 65 entries, and SLOTS O(log L) where L is the number of leases."

// Versions that commands or words came with.
const (
	v010 = "0.1.0"
	v020 = "0.2.0"
	v030 = "0.3.0"
)

var versions = []string{v010, v020, v030} // oldest first

// Change is what came to a command with a version of the module.
type Change struct{ Since, Changes string }

// history tells which words came to a command after its first version.
func (cmd *Command) history() (all []Change) {
	for _, version := range versions[slices.Index(versions, cmd.Since)+1:] {
		var names []string
		for _, w := range cmd.syntax.words() {
			if cmd.sinceOf(w) == version {
				names = append(names, w.name)
			}
		}
		if len(names) > 0 {
			all = append(all, Change{version, "Added " + listOf(names, "and") + "."})
		}
	}
	return all
}

// sinceOf is the version that a word came to a command with; empty if it was there from the start.
func (cmd *Command) sinceOf(w *word) string {
	for version, names := range cmd.Later {
		if slices.Contains(strings.Fields(names), w.name) {
			return version
		}
	}
	return w.since
}

// words are all words of a command, in the order of its syntax.
func (s *syntax) words() (all []*word) {
	for _, kind := range s.kinds {
		all = append(append(all, kind), kind.owned...)
	}
	all = append(all, s.terms...)
	if s.slots != nil {
		all = append(all, s.slots)
	}
	if s.form == slotsForTTL {
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
	Optional bool
	Multiple bool
	Args     []Arg
}

// replyWords are the words of the CL.LIMIT family that say how to answer.
const replyWords = " [COMPACT] [EACH]"

// keyArgs are the arguments in front of all others.
func keyArgs(keys Keys) []Arg {
	switch keys {
	case OneKey:
		return []Arg{{Name: "key", Type: ArgKey}}
	case CountedKeys:
		return []Arg{{Name: "numkeys", Type: ArgInteger}, {Name: "key", Type: ArgKey, Multiple: true}}
	}
	return nil
}

// countArgs returns how many arguments there are at least, and at most where a count says all that may be wrong. That is so
// while there is one word at the most.
func countArgs(args []Arg, s syntax) (least, most int) {
	counts := len(s.options) < 2 && len(s.kinds) == 0 && s.repeated == nil
	most = len(args)
	for _, arg := range args {
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

// args are the words of a command.
func (s *syntax) args() (args []Arg) {
	if len(s.kinds) > 0 {
		args = append(args, s.groupArg())
	}
	for _, w := range s.options {
		arg := w.arg()
		arg.Optional = find(s.required, []byte(w.name)) == nil
		arg.Multiple = w == s.repeated
		company := s.company(w)
		switch {
		case w.name == next:
			arg = Arg{Name: "next", Type: ArgBlock, Token: next, Optional: true, Multiple: true, Args: []Arg{s.groupArg()}}
		case w.needed != nil && find(s.required, []byte(w.with)) == nil:
			continue // it is in the block of the word that it needs
		case arg.Optional && company != nil:
			arg = Arg{Name: strings.ToLower(w.name), Type: ArgBlock, Optional: true, Args: append([]Arg{w.arg()}, company...)}
		}
		args = append(args, arg)
	}
	return args
}

// company are the words that mean nothing without a word.
func (s *syntax) company(of *word) (args []Arg) {
	for _, w := range s.options {
		if w.needed == of {
			args = append(args, w.optional())
		}
	}
	return args
}

// groupArg is one or more limits or, where the command takes it, a group of SLOTS.
func (s *syntax) groupArg() Arg {
	if s.form == noSlots {
		return s.limitArg()
	}
	slots := Arg{Name: "slots", Type: ArgToken, Token: s.slots.name}
	if s.form == slotsForTTL {
		slots = Arg{Name: "slots", Type: ArgBlock, Args: []Arg{s.slots.arg(), slotsTTL.arg()}}
	}
	group := s.limitArg() // flat: clients bound how deep a reply is nested
	group.Name, group.Args = "group", append(group.Args, slots)
	return group
}

// limitArg is one or more limits.
func (s *syntax) limitArg() Arg {
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
