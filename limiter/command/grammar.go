package command

import (
	"fmt"
	"strings"

	"redis-throttle/limiter/stack"
)

// The grammar: every word that a call can say is one row of the vocabulary. The parser, the arguments in COMMAND
// DOCS and the texts of errors come from it. Which words a command takes stands with the command
// (Command.Terms and Command.Words).

// word is a row of the vocabulary.
type word struct {
	name  string        // in capitals
	since string        // the version that it came with, if that is none of the first
	value *value        // what follows it; nil for nothing
	not   string        // words that it cannot go with
	with  string        // the word without which it means nothing
	rates bool          // it goes with limits of kind RATE only
	turns bool          // it does not go with limits of kind RATE alone
	put   func(*parser) // stores the value that was read

	// For a word that begins a limit: the words that may follow its count/period, and what makes the limit.
	own   string
	limit func(*parser) (stack.Limit, error)

	set      wordSet // the word alone
	excluded []*word // not
	needed   *word   // with
	owned    []*word // own
}

// wordSet is a set of words, a bit for each row of the vocabulary.
type wordSet uint32

var vocabulary = numbered([]word{
	// The kinds of limits: RATE, by which callers reserve, and those by which they take turns.
	{name: "RATE", value: &quota, own: "BURST", limit: makeRate},
	{name: "WINDOW", value: &quota, limit: makePlain(stack.NewWindow)},
	{name: "FIXED", value: &calendarQuota, own: "FIRST OFFSET TZ", limit: makeFixed},

	// What may follow the count/period of some.
	{name: "BURST", value: &capacity, put: func(p *parser) { p.limit.capacity = p.number }},
	{name: "FIRST", since: v020, put: func(p *parser) { p.limit.first = true }},
	{name: "OFFSET", since: v020, value: &offset, not: "FIRST", put: func(p *parser) { p.limit.offsetNs, p.limit.offset = p.number, p.text }},
	{name: "TZ", since: v020, value: &zone, not: "FIRST", put: func(p *parser) { p.limit.zone = p.text }},

	// What may follow any limit and belongs to it.
	{name: "TAKE", since: v020, value: &units, put: func(p *parser) { p.limit.terms.Take, p.limit.terms.HasTake = p.number, true }},
	{name: "SPARE", since: v020, value: &units, put: func(p *parser) { p.limit.terms.Spare = p.number }},
	{name: "SHADOW", since: v020, put: func(p *parser) { p.limit.terms.Shadow = true }},
	{name: "USED", value: &units, put: func(p *parser) { p.limit.used, p.limit.hasUsed = p.number, true }},

	// Options of calls with limits.
	{name: next},
	{name: "ANY", not: "SLOTS", put: func(p *parser) { p.r.any = true }},
	{name: "COST", value: &units, put: func(p *parser) { p.r.Cost = p.number }},
	{name: "UPTO", not: "MAXWAIT STRICT FORCE TAKE SLOTS", put: func(p *parser) { p.r.UpTo = true }},
	{name: "STRICT", not: "MAXWAIT FORCE ANY", put: func(p *parser) { p.r.Strict = true }},
	{name: "FORCE", since: v020, not: "MAXWAIT SLOTS", put: func(p *parser) { p.r.Force = true }},
	{name: "MAXWAIT", value: &duration, not: "SLOTS", rates: true, put: func(p *parser) { p.r.MaxWaitNs = p.number }},
	{name: "BAN", since: v020, value: &duration, not: "MAXWAIT ANY SLOTS", put: func(p *parser) { p.r.banNs = p.number }},

	// Options of calls about leases, and of both. With several keys, SLOTS and TTL are a group (parseSlots).
	{name: "SLOTS", value: &slots, put: func(p *parser) { p.r.slots = p.number }},
	{name: "TTL", value: &ttl, put: func(p *parser) { p.r.ttlNs = p.number }},
	{name: "ID", value: &id},
	{name: "COUNT", value: &rows, put: func(p *parser) { p.r.rows = p.number }},
	{name: "TIMEOUT", value: &duration, put: func(p *parser) { p.r.timeoutNs, p.r.waits = p.number, true }},
	{name: "GROUP", since: v030, value: &group, with: "TIMEOUT", turns: true, put: func(p *parser) { p.r.groupAt = p.next - 1 }},
	{name: "PRIORITY", since: v030, value: &priority, with: "TIMEOUT", turns: true, put: func(p *parser) { p.r.priority = p.number }},
	{name: "COMPACT", since: v020, put: func(p *parser) { p.r.compact = true }},
	{name: "EACH", since: v030, put: func(p *parser) { p.r.each = true }},
})

// next stands between the groups of a call with several keys.
const next = "NEXT"

// slotsForm says what a group of SLOTS looks like in a command with several keys.
type slotsForm int

const (
	noSlots     slotsForm = iota
	slotsAlone            // SLOTS
	slotsForTTL           // SLOTS n TTL duration
)

// request is what the words of a call ask for.
type request struct {
	stack.Request
	compact   bool  // the integers alone
	each      bool  // the reply says what each limit alone would
	any       bool  // of several keys one is enough
	waits     bool  // for at most timeoutNs, 0 for as long as it takes
	banNs     int64 // a call that is limited bans the key for so long; 0 does not
	timeoutNs int64
	groupAt   int // the index of the group's name among the arguments; 0 for none
	priority  int64
	slots     int64
	ttlNs     int64
	rows      int64
}

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
			panic("command: more words than a wordSet holds")
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
			panic(fmt.Sprintf("command: the vocabulary has no %s", name))
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
