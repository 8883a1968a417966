// Package words is the language of the commands. A Syntax says which words a command takes, and a Parser reads those of
// a call into a Request and the call's limits. The texts of syntax errors and what COMMAND DOCS shows of words come
// from here, too. Reading a call allocates nothing.
package words

import (
	"fmt"
	"slices"
	"strings"

	"redis-throttle/limiter/stack"
)

// The grammar: every word that a call can say is one row of the vocabulary, which also names the commands that take it.
// The parser, the arguments in COMMAND DOCS and the texts of errors come from it.

// word is a row of the vocabulary.
type word struct {
	name          string        // in capitals
	of            string        // the commands that take it, without CL.; a command that requires it says so itself (Form)
	since         string        // the version that it came with, if that is none of the first
	value         *value        // what follows it; nil for nothing
	term          bool          // it may follow any limit, and belongs to it
	not           string        // words that it cannot go with
	with          string        // the word without which it means nothing
	rates         bool          // it goes with limits of kind RATE only
	notRatesAlone bool          // it does not go with limits of kind RATE alone
	put           func(*Parser) // stores the value that was read

	// For a word that begins a limit: the words that may follow its count/period, and what makes the limit.
	own   string
	limit func(*Parser) (stack.Limit, error)

	set      wordSet // the word alone
	excluded []*word // not
	needed   *word   // with
	owned    []*word // own
}

// wordSet is a set of words, a bit for each row of the vocabulary.
type wordSet uint32

// Errors and COMMAND DOCS list the words of a command in the order of these rows.
var vocabulary = numbered([]word{
	// The kinds of limits, which all commands with limits take: RATE, by which callers reserve, and those by which they
	// take turns.
	{name: "RATE", value: &quota, own: "BURST", limit: makeRate},
	{name: "WINDOW", value: &quota, limit: makePlain(stack.NewWindow)},
	{name: "FIXED", value: &calendarQuota, own: "FIRST OFFSET TZ", limit: makeFixed},

	// What may follow the count/period of some.
	{name: "BURST", value: &capacity, put: func(p *Parser) { p.limit.capacity = p.number }},
	{name: "FIRST", since: V020, put: func(p *Parser) { p.limit.first = true }},
	{name: "OFFSET", since: V020, value: &offset, not: "FIRST", put: func(p *Parser) { p.limit.offsetNs, p.limit.offset = p.number, p.text }},
	{name: "TZ", since: V020, value: &zone, not: "FIRST", put: func(p *Parser) { p.limit.zone = p.text }},

	// What may follow any limit and belongs to it.
	{name: "TAKE", of: "LIMIT MLIMIT PEEK REFUND WAIT SETTLE", term: true, since: V020, value: &units, put: func(p *Parser) { p.limit.terms.Take, p.limit.terms.HasTake = p.number, true }},
	{name: "SPARE", of: "LIMIT MLIMIT PEEK WAIT", term: true, since: V020, value: &units, put: func(p *Parser) { p.limit.terms.Spare = p.number }},
	{name: "USED", of: "SETTLE", term: true, value: &units, put: func(p *Parser) { p.limit.used, p.limit.hasUsed = p.number, true }},
	{name: "SHADOW", of: "LIMIT MLIMIT PEEK REFUND SETTLE", term: true, since: V020, put: func(p *Parser) { p.limit.terms.Shadow = true }},

	// Options of calls with limits.
	{name: next},
	{name: "ANY", of: "MLIMIT", not: "SLOTS", put: func(p *Parser) { p.r.Any = true }},
	{name: "COST", of: "LIMIT MLIMIT PEEK REFUND WAIT", value: &units, put: func(p *Parser) { p.r.Cost = p.number }},
	{name: "UPTO", of: "LIMIT MLIMIT", not: "MAXWAIT STRICT FORCE TAKE SLOTS", put: func(p *Parser) { p.r.UpTo = true }},
	{name: "STRICT", of: "LIMIT MLIMIT", not: "MAXWAIT FORCE ANY", put: func(p *Parser) { p.r.Strict = true }},
	{name: "FORCE", of: "LIMIT MLIMIT", since: V020, not: "MAXWAIT SLOTS", put: func(p *Parser) { p.r.Force = true }},
	{name: "MAXWAIT", of: "LIMIT MLIMIT", value: &duration, not: "SLOTS", rates: true, put: func(p *Parser) { p.r.MaxWaitNs = p.number }},
	{name: "BAN", of: "LIMIT MLIMIT", since: V020, value: &duration, not: "MAXWAIT ANY SLOTS", put: func(p *Parser) { p.r.BanNs = p.number }},
	{name: "AFTER", of: "LIMIT MLIMIT", since: V040, value: &denials, with: "BAN"},

	// Options of calls about leases, and of both. With several keys, SLOTS and TTL are a group (parseSlots).
	{name: "SLOTS", value: &slots, put: func(p *Parser) { p.r.Slots = p.number }},
	{name: "TTL", value: &ttl, put: func(p *Parser) { p.r.TTLNs = p.number }},
	{name: "ID", of: "MLIMIT", value: &id},
	{name: "COUNT", of: "LEASES", value: &rows, put: func(p *Parser) { p.r.Rows = p.number }},
	{name: "TIMEOUT", of: "LEASE", value: &duration, put: func(p *Parser) { p.r.TimeoutNs, p.r.Waits = p.number, true }},
	{name: "GROUP", of: "WAIT LEASE", since: V030, value: &groupName, with: "TIMEOUT", notRatesAlone: true, put: func(p *Parser) { p.r.GroupAt = p.next - 1 }},
	{name: "WEIGHT", of: "WAIT LEASE", since: V040, value: &weight, with: "GROUP", notRatesAlone: true, put: func(p *Parser) { p.r.Weight = p.number }},
	{name: "PRIORITY", of: "WAIT LEASE", since: V030, value: &priority, with: "TIMEOUT", notRatesAlone: true, put: func(p *Parser) { p.r.Priority = p.number }},
	{name: "COMPACT", of: "LIMIT MLIMIT PEEK REFUND WAIT SETTLE LEASE RENEW", since: V020, put: func(p *Parser) { p.r.Compact = true }},
	{name: "EACH", of: "LIMIT MLIMIT PEEK REFUND WAIT SETTLE", since: V030, put: func(p *Parser) { p.r.Each = true }},
})

// next stands between the groups of a call with several keys.
const next = "NEXT"

// isOf reports whether the row names a command, which is given without CL.
func (w *word) isOf(command string) bool { return slices.Contains(strings.Fields(w.of), command) }

// A word is written in ASCII letters.
func (w *word) is(text []byte) bool {
	if len(text) != len(w.name) {
		return false
	}
	for i, c := range text {
		if c&^0x20 != w.name[i] {
			return false
		}
	}
	return true
}

var idWord = named(vocabulary, "ID")[0]

// SpellsID reports whether text is the word ID.
func SpellsID(text []byte) bool { return idWord.is(text) }

// find returns the word that text spells, or nil.
func find(words []*word, text []byte) *word {
	for _, w := range words {
		if w.is(text) {
			return w
		}
	}
	return nil
}

func numbered(words []word) []word {
	for i := range words {
		words[i].set = 1 << i
		if words[i].set == 0 {
			panic("words: more words than a wordSet holds")
		}
	}
	for i := range words {
		words[i].excluded, words[i].owned = named(words, words[i].not), named(words, words[i].own)
		if words[i].with != "" {
			words[i].needed = named(words, words[i].with)[0]
		}
	}
	return words
}

// named returns the rows of words with names, which spaces separate.
func named(words []word, names string) (rows []*word) {
	for _, name := range strings.Fields(names) {
		w := rowOf(words, name)
		if w == nil {
			panic(fmt.Sprintf("words: the vocabulary has no %s", name))
		}
		rows = append(rows, w)
	}
	return rows
}

func rowOf(words []word, name string) *word {
	for i := range words {
		if words[i].name == name {
			return &words[i]
		}
	}
	return nil
}
