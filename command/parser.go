package command

import (
	"bytes"

	"redis-throttle/stack"
)

// parser reads the words of a call. It is plain: what callers repeat is remembered (Past).
type parser struct {
	syntax *syntax
	args   [][]byte
	next   int     // of args
	seen   wordSet // options and terms
	r      *request

	limits    *stack.Stack  // where limits go
	groups    []stack.Stack // of a call with several keys: one for each
	slotsOf   []slotGroup   // and what each says that is a group of SLOTS
	group     int           // the one that limits is
	ratesOnly bool
	limit     limitWords // the limit in hand
	limitEnds int        // the index in args behind the latest limit, terms included

	// The value in hand: its text, and what it was read as.
	text   []byte
	number int64

	keys  [][]byte           // as numkeys counts them
	ids   int                // the index in args of the first id
	slots int                // and of the number of slots; 0 without
	lower [maxNumberLen]byte // room to try a value in lower case
	err   syntaxError
}

// What is wrong with words.
const (
	tooManyWords  = "ERR syntax error: too many arguments"
	tooManyIDs    = "ERR ID takes at most 94 ids at a time" // maxReleased
	noLimit       = "there must be a limit after the key"
	noLimits      = "there must be a limit after the keys"
	expected      = "expected "
	isMissing     = " is missing"
	givenTwice    = "given twice"
	cannotGoWith  = "cannot go with "
	onlyRates     = "works with RATE limits only"
	onlyWith      = "works only together with "
	onlyTurns     = "needs a WINDOW or FIXED limit; with RATE alone callers are served in order of arrival"
	misplacedOwn  = "must follow the count/period of a "
	misplacedTerm = "must follow the limit that it belongs to"
	tooManyLimits = "at most 8 limits"
	oneGroupOrAll = "there must be one group of limits for all keys, or one for each key"
	ownGroup      = "SLOTS is a group of its own; separate groups by NEXT"
	takeAndUsed   = "TAKE and USED go together"
	needsSlots    = "goes with SLOTS"
	slotsNeedID   = "SLOTS needs an ID"
	settleOnce    = "there must be a group of SLOTS, or a retry would settle twice"
	unitsAreLower = "units are written in lower case"
	severalInOne  = "contains a space; pass each word as an argument of its own"
	numKeysIs     = "; numkeys is "
	isAKey        = " is a key"
)

// read reads what follows the key of a call: limits into c.stack, the rest into r, which holds for this call. When ok is
// false the call has failed.
func (c *Call) read() (r *request, ok bool) {
	r = &c.request
	s := &c.cmd.syntax
	if c.ArgCount > len(c.Args) { // nothing that makes sense is so long
		c.Fail(s.tooMany())
		return r, false
	}
	hasLimits := len(s.kinds) > 0
	if hasLimits {
		if past := c.Past.findRequest(c.Args[1:], c.cmd.index); past != nil {
			c.stack.Load(past.limits[:past.count])
			*r = past.request
			c.compact, c.each = r.compact, r.each
			return r, true
		}
		c.stack.Reset()
	} else if s.isIDs(c.Args) {
		c.compact = false
		return r, true
	} else if past := c.findLease(); past != nil {
		c.compact = past.compact
		return past, true
	}
	p := &c.parser
	p.begin(s, r, c.Args, 1, &c.stack, nil)
	if err := p.parse(); err != nil {
		c.refuse(&p.err)
		return r, false
	}
	if m := c.Members; m != nil && (m.NamesAt != p.ids || m.SlotsAt != p.slots) {
		m.NamesAt, m.SlotsAt = p.ids, p.slots
		c.Reply = ReplyElsewhere
		return r, false
	}
	if hasLimits {
		c.Past.noteRequest(c.Args[1:], c.cmd.index, r, &c.stack)
	} else {
		c.noteLease()
	}
	c.compact, c.each = r.compact, r.each
	return r, true
}

// isIDs reports whether the words behind the key are ID and right ids, and may be. The parser would find the same.
func (s *syntax) isIDs(args [][]byte) bool {
	if s.repeated == nil || s.needed != s.repeated.set || len(args) < 3 || !s.repeated.is(args[1]) {
		return false
	}
	for _, text := range args[2:] {
		if !isID(text) {
			return false
		}
	}
	return true
}

func (s *syntax) tooMany() string {
	if s.repeated != nil {
		return tooManyIDs
	}
	return tooManyWords
}

// begin prepares the parser for args from index next on.
func (p *parser) begin(s *syntax, r *request, args [][]byte, next int, limits *stack.Stack, groups []stack.Stack) {
	*r = request{}
	r.Cost = 1
	p.syntax, p.r, p.args, p.next = s, r, args, next
	p.limits, p.groups, p.slotsOf, p.group, p.keys = limits, groups, nil, 0, nil
	p.seen, p.limitEnds, p.ids, p.slots, p.ratesOnly = 0, 0, 0, 0, true
}

// parse reads all words.
func (p *parser) parse() error {
	s := p.syntax
	for p.next < len(p.args) {
		text := p.take()
		if kind := find(s.kinds, text); kind != nil {
			if err := p.parseLimit(kind, text); err != nil {
				return err
			}
			continue
		}
		if s.slots != nil && s.slots.is(text) {
			if err := p.parseSlots(text); err != nil {
				return err
			}
			continue
		}
		option := find(s.options, text)
		if option == nil || p.wantsLimit() {
			return p.unexpected(text)
		}
		if err := p.parseOption(option, text); err != nil {
			return err
		}
	}
	if p.wantsLimit() {
		return p.missesLimit()
	}
	return p.check()
}

// take returns the next of the args.
func (p *parser) take() []byte {
	p.next++
	return p.args[p.next-1]
}

// wantsLimit reports whether nothing but a limit, or a group of SLOTS, may come next.
func (p *parser) wantsLimit() bool {
	return len(p.syntax.kinds) > 0 && p.limits.Len() == 0 && !p.inSlots()
}

// inSlots reports whether the group in hand is one of SLOTS.
func (p *parser) inSlots() bool { return p.slotsOf != nil && p.slotsOf[p.group].is }

func (p *parser) parseOption(w *word, text []byte) error {
	if w == p.syntax.next {
		return p.parseNext(text)
	}
	if p.seen&w.set != 0 {
		return p.near(text, givenTwice)
	}
	p.seen |= w.set
	if err := p.parseValue(w, text); err != nil || w != p.syntax.repeated {
		return err
	}
	for p.next < len(p.args) {
		if err := p.parseValue(w, text); err != nil {
			return err
		}
	}
	return nil
}

// parseNext begins the next group of limits.
func (p *parser) parseNext(text []byte) error {
	p.ratesOnly = p.ratesOnly && p.limits.RatesOnly()
	if p.group++; p.group == len(p.groups) {
		return p.near(text, oneGroupOrAll)
	}
	p.limits = &p.groups[p.group]
	p.limits.Reset()
	p.slotsOf[p.group] = slotGroup{}
	return nil
}

// parseValue reads what follows a word and stores it.
func (p *parser) parseValue(w *word, text []byte) error {
	if w.value != nil {
		if p.next == len(p.args) {
			return p.near(text, w.name, " ", w.value.takes)
		}
		switch {
		case w.value == &id && p.ids == 0:
			p.ids = p.next
		case w.value == &slots:
			p.slots = p.next
		}
		p.text = p.take()
		if err := w.value.read(p, p.text); err != nil {
			return p.misread(w, err)
		}
	}
	if w.put != nil {
		w.put(p)
	}
	return nil
}

// parseLimit reads a limit whose first word was text, and the words that belong to it.
func (p *parser) parseLimit(kind *word, text []byte) error {
	p.limit = limitWords{}
	if p.inSlots() {
		return p.near(text, ownGroup)
	}
	if err := p.parseValue(kind, text); err != nil {
		return err
	}
	if err := p.parseFollowing(kind.owned); err != nil {
		return err
	}
	limit, err := kind.limit(p)
	if err != nil {
		return err
	}
	if err := p.parseFollowing(p.syntax.terms); err != nil {
		return err
	}
	if p.syntax.settles {
		if err := p.settleTerms(); err != nil {
			return err
		}
	}
	if !p.limits.Add(limit.With(p.limit.terms)) {
		return p.near(text, tooManyLimits)
	}
	p.limitEnds = p.next
	return nil
}

// parseFollowing reads words as long as they are of those that may follow a limit.
func (p *parser) parseFollowing(words []*word) error {
	var seen wordSet
	for p.next < len(p.args) {
		w := find(words, p.args[p.next])
		if w == nil {
			break
		}
		text := p.take()
		if seen&w.set != 0 {
			return p.near(text, givenTwice)
		}
		seen |= w.set
		if err := p.parseValue(w, text); err != nil {
			return err
		}
	}
	p.seen |= seen
	return p.checkPairs(words, seen)
}

// check refuses what no single word is to blame for.
func (p *parser) check() error {
	if p.syntax.pairs {
		if err := p.checkPairs(p.syntax.options, p.seen); err != nil {
			return err
		}
	}
	if p.syntax.slots != nil {
		if err := p.checkSlots(); err != nil {
			return err
		}
	}
	if p.syntax.needed&^p.seen != 0 {
		return p.misses()
	}
	if p.syntax.pairs {
		if err := p.checkCompany(); err != nil {
			return err
		}
	}
	if len(p.syntax.kinds) == 0 {
		return nil
	}
	ratesOnly := p.ratesOnly && p.limits.RatesOnly()
	for _, w := range p.syntax.options {
		switch {
		case p.seen&w.set == 0:
		case w.rates && !ratesOnly:
			return p.nearName(w.name, onlyRates)
		case w.turns && ratesOnly:
			return p.nearName(w.name, onlyTurns)
		}
	}
	return nil
}

// checkCompany refuses words that mean nothing without another.
func (p *parser) checkCompany() error {
	for _, w := range p.syntax.options {
		if w.needed != nil && p.seen&w.set != 0 && p.seen&w.needed.set == 0 {
			return p.nearName(w.name, onlyWith, w.with)
		}
	}
	return nil
}

// misses returns the error of a call without a word that has to be there.
func (p *parser) misses() error {
	for _, w := range p.syntax.required {
		if p.seen&w.set == 0 {
			return p.without(w.name, isMissing)
		}
	}
	return nil
}

// checkPairs refuses words that exclude each other.
func (p *parser) checkPairs(words []*word, seen wordSet) error {
	for _, w := range words {
		if seen&w.set == 0 {
			continue
		}
		for _, other := range w.excluded {
			if seen&other.set != 0 {
				return p.nearName(w.name, cannotGoWith, other.name)
			}
		}
	}
	return nil
}

// misread returns the error of the value in hand, which follows w.
func (p *parser) misread(w *word, err error) error {
	switch {
	case err == error(&p.err):
		return err
	case err == errNoUnit:
		return p.withoutUnit()
	case err != errMalformed:
		return p.near(p.text, err.Error())
	case !w.value.isName && bytes.IndexByte(p.text, ' ') >= 0:
		return p.near(p.text, severalInOne)
	case w.value.hasUnit && p.isRightInLowerCase(w.value):
		return p.near(p.text, unitsAreLower)
	}
	return p.near(p.text, w.name, " ", w.value.takes)
}

// withoutUnit returns the error of the value in hand, which is a bare number or ends in one.
func (p *parser) withoutUnit() error {
	number := p.text[bytes.IndexByte(p.text, '/')+1:]
	if len(number) > shown {
		return p.near(p.text, "a length of time", noUnit, "500ms or 30s")
	}
	p.err = syntaxError{points: true, word: p.text, number: number}
	return &p.err
}

// isRightInLowerCase reports whether the value in hand would be right in lower case.
func (p *parser) isRightInLowerCase(v *value) bool {
	if len(p.text) > len(p.lower) {
		return false
	}
	lower := p.lower[:copy(p.lower[:], p.text)]
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c | 0x20
		}
	}
	return v.read(p, lower) == nil
}

// unexpected returns the error of a word that may not stand where it does.
func (p *parser) unexpected(text []byte) error {
	s := p.syntax
	if first, _, several := bytes.Cut(text, []byte(" ")); several && (find(s.kinds, first) != nil || find(s.options, first) != nil || find(s.terms, first) != nil) {
		return p.near(text, severalInOne)
	}
	if p.wantsLimit() {
		return p.keyOrLimit(p.near(text, expected, s.expectedLimit))
	}
	for _, kind := range s.kinds {
		if find(kind.owned, text) != nil {
			return p.near(text, misplacedOwn, kind.name)
		}
	}
	switch {
	case find(s.terms, text) != nil:
		return p.near(text, misplacedTerm)
	case p.next-1 != p.limitEnds || len(s.kinds) == 0:
		return p.near(text, expected, s.expected)
	}
	if kind := find(s.kinds, p.args[p.next-3]); kind != nil {
		return p.near(text, expected, list(kind.owned), s.expectedTerm)
	}
	return p.near(text, expected, s.expectedTerm)
}

// missesLimit returns the error of a call that ends where a limit should stand.
func (p *parser) missesLimit() error {
	switch {
	case p.group > 0:
		return p.near(p.args[len(p.args)-1], expected, p.syntax.expectedLimit)
	case p.groups == nil:
		return p.without(noLimit)
	}
	return p.keyOrLimit(p.without(noLimits))
}

// keyOrLimit adds to the error that a limit is missing if numkeys made a key of a word that begins one.
func (p *parser) keyOrLimit(err error) error {
	if p.group > 0 {
		return err
	}
	for _, key := range p.keys {
		if kind := find(p.syntax.kinds, key); kind != nil {
			p.err.add(numKeysIs, "12345678"[len(p.keys)-1:len(p.keys)], ", so ", kind.name, isAKey)
			break
		}
	}
	return err
}

// syntaxError is an error of words: the word that it points at, if any, and what would be right.
type syntaxError struct {
	points bool
	name   string // the word, in capitals; or else
	word   []byte // as it was given
	right  [8]string
	parts  int    // of right
	number []byte // what needs a unit, in place of right
}

// shown is how much of a word an error shows, in bytes.
const shown = 40

func (e *syntaxError) add(right ...string) { e.parts += copy(e.right[e.parts:], right) }

// near returns an error that points at a word.
func (p *parser) near(word []byte, right ...string) *syntaxError {
	p.err = syntaxError{points: true, word: word}
	p.err.add(right...)
	return &p.err
}

// nearName returns an error that points at a word of the vocabulary, wherever it stands.
func (p *parser) nearName(name string, right ...string) *syntaxError {
	p.err = syntaxError{points: true, name: name}
	p.err.add(right...)
	return &p.err
}

// without returns an error that points at no word.
func (p *parser) without(right ...string) *syntaxError {
	p.err = syntaxError{}
	p.err.add(right...)
	return &p.err
}

func (e *syntaxError) Error() string { return string(e.appendTo(nil)) }

// appendTo appends the error's text. Of a long word it shows the beginning.
func (e *syntaxError) appendTo(text []byte) []byte {
	text = append(text, "ERR syntax error"...)
	if e.points {
		text = append(text, " near '"...)
		text = append(text, e.name...)
		text = append(text, e.word[:min(len(e.word), shown)]...)
		if len(e.word) > shown {
			text = append(text, "..."...)
		}
		text = append(text, '\'')
	}
	text = append(text, ": "...)
	if e.number != nil {
		return appendNoUnit(text, e.number)
	}
	for _, part := range e.right[:e.parts] {
		text = append(text, part...)
	}
	return text
}

// refuse makes the call an error and undoes what it was going to write.
func (c *Call) refuse(err *syntaxError) {
	c.keep()
	c.Reply = ReplyError
	c.Error = err.appendTo(c.error[:0])
}
