package words

import "bytes"

// What is wrong with words.
const (
	noLimit       = "there must be a limit after the key"
	noLimits      = "there must be a limit after the keys"
	expected      = "expected "
	isMissing     = " is missing"
	givenTwice    = "given twice"
	cannotGoWith  = "cannot go with "
	onlyRates     = "works with RATE limits only"
	onlyWith      = "works only together with "
	onlyTurns     = " limit; with RATE alone callers are served in order of arrival"
	misplacedOwn  = "must follow the count/period of a "
	misplacedTerm = "must follow the limit that it belongs to"
	tooManyLimits = "at most 8 limits"
	oneGroupOrAll = "there must be one group of limits for all keys, or one for each key"
	ownGroup      = "SLOTS is a group of its own; separate groups by NEXT"
	takeAndUsed   = "TAKE and USED go together"
	takesRoom     = "counts as one of the 8 limits of a key"
	needsSlots    = "goes with SLOTS"
	slotsNeedID   = "SLOTS needs an ID"
	settleOnce    = "there must be a group of SLOTS, or a retry would settle twice"
	unitsAreLower = "units are written in lower case"
	severalInOne  = "contains a space; pass each word as an argument of its own"
	numKeysIs     = "; numkeys is "
	isAKey        = " is a key"
)

// misread returns the error of the value in hand, which follows w.
func (p *Parser) misread(w *word, err error) error {
	switch {
	case err == error(&p.err):
		return err
	case err == ErrNoUnit:
		return p.withoutUnit()
	case err != errMalformed:
		return p.Near(p.text, err.Error())
	case !w.value.isName && bytes.IndexByte(p.text, ' ') >= 0:
		return p.Near(p.text, severalInOne)
	case w.value.hasUnit && p.isRightInLowerCase(w.value):
		return p.Near(p.text, unitsAreLower)
	}
	return p.Near(p.text, w.name, " ", w.value.right)
}

// withoutUnit returns the error of the value in hand, which is a bare number or ends in one.
func (p *Parser) withoutUnit() error {
	number := p.text[bytes.IndexByte(p.text, '/')+1:]
	if len(number) > MaxShown {
		return p.Near(p.text, "a length of time", noUnit, "500ms or 30s")
	}
	p.err = SyntaxError{points: true, word: p.text, number: number}
	return &p.err
}

// isRightInLowerCase reports whether the value in hand would be right in lower case.
func (p *Parser) isRightInLowerCase(v *value) bool {
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
func (p *Parser) unexpected(text []byte) error {
	s := p.syntax
	if first, _, several := bytes.Cut(text, []byte(" ")); several && s.has(first) {
		return p.Near(text, severalInOne)
	}
	if p.wantsLimit() {
		return p.keyOrLimit(p.Near(text, expected, s.expectedLimit))
	}
	for _, kind := range s.kinds {
		if find(kind.owned, text) != nil {
			return p.Near(text, misplacedOwn, kind.name)
		}
	}
	if find(s.terms, text) != nil {
		return p.Near(text, misplacedTerm)
	}
	return p.unexpectedOption(text)
}

// has reports whether a command takes a word anywhere, those aside that only one kind of limit has.
func (s *Syntax) has(text []byte) bool {
	return s.group(text) != nil || find(s.options, text) != nil || find(s.terms, text) != nil
}

// group is the word that begins a limit or a group of SLOTS, if text is one.
func (s *Syntax) group(text []byte) *word {
	if s.slots != nil && s.slots.is(text) {
		return s.slots
	}
	return find(s.kinds, text)
}

// unexpectedOption returns the error of a word that the command does not have. Right behind a limit, it lists what may
// follow one.
func (p *Parser) unexpectedOption(text []byte) error {
	s := p.syntax
	if p.next-1 != p.limitEnds || len(s.kinds) == 0 {
		return p.Near(text, expected, s.expected)
	}
	if kind := find(s.kinds, p.args[p.next-3]); kind != nil {
		return p.Near(text, expected, list(kind.owned), s.expectedTerm)
	}
	return p.Near(text, expected, s.expectedTerm)
}

// missesLimit returns the error of a call that ends where a limit should stand.
func (p *Parser) missesLimit() *SyntaxError {
	switch {
	case p.group > 0:
		return p.Near(p.args[len(p.args)-1], expected, p.syntax.expectedLimit)
	case p.groups == nil:
		return p.without(noLimit)
	}
	return p.keyOrLimit(p.without(noLimits))
}

// keyOrLimit adds to the error that a limit or SLOTS is missing if numkeys made a key of a word that begins one.
func (p *Parser) keyOrLimit(err *SyntaxError) *SyntaxError {
	if p.group > 0 {
		return err
	}
	for _, key := range p.keys {
		if group := p.syntax.group(key); group != nil {
			p.err.add(numKeysIs, "12345678"[len(p.keys)-1:len(p.keys)], ", so ", group.name, isAKey)
			break
		}
	}
	return err
}
