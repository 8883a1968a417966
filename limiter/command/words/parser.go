package words

import "redis-throttle/limiter/stack"

// MaxKeys is the number of keys that one call can have.
const MaxKeys = 8

// Parser reads the words of a call. It is plain: the commands remember what callers repeat.
type Parser struct {
	syntax *Syntax
	args   [][]byte
	next   int     // of args
	seen   wordSet // options and terms
	r      *Request

	limits    *stack.Stack  // where limits go
	groups    []stack.Stack // of a call with several keys: one for each
	slotsOf   []SlotGroup   // and what each says that is a group of SLOTS
	group     int           // the one that limits is
	ratesOnly bool
	limit     limitWords // the limit in hand
	limitEnds int        // the index in args behind the latest limit, terms included
	spans     [stack.MaxLimits]Span

	// The value in hand: its text, and what it was read as.
	text   []byte
	number int64

	keys    [][]byte           // as numkeys counts them
	idsAt   int                // the index in args of the first id
	slotsAt int                // and of the number of slots; 0 without
	lower   [maxNumberLen]byte // room to try a value in lower case
	err     SyntaxError
}

// Parse reads the words of a call with one key, which is the first of args: the limits into limits, which is empty, and
// the rest into r. The error holds until the next call.
func (p *Parser) Parse(s *Syntax, r *Request, args [][]byte, limits *stack.Stack) *SyntaxError {
	p.begin(s, r, args, 1, limits)
	return p.parse()
}

// ParseGroups reads the words behind the keys of a call with several, each of which has its place in groups and in
// slots. The first count places are filled in: one for all keys, or one for each. The error holds until the next call.
func (p *Parser) ParseGroups(s *Syntax, r *Request, args, keys [][]byte, groups []stack.Stack, slots []SlotGroup) (count int, err *SyntaxError) {
	groups[0].Reset()
	slots[0] = SlotGroup{}
	p.begin(s, r, args, 0, &groups[0])
	p.groups, p.slotsOf, p.keys = groups, slots, keys
	if err = p.parse(); err != nil {
		return 0, err
	}
	if count = p.group + 1; count > 1 && count < len(keys) {
		return 0, p.nearName(next, oneGroupOrAll)
	}
	return count, nil
}

// IDsAt is the index in args, as they were just read, of the first id; 0 if there is none.
func (p *Parser) IDsAt() int { return p.idsAt }

// SlotsAt is the index in args, as they were just read, of the number of slots; 0 if there is none.
func (p *Parser) SlotsAt() int { return p.slotsAt }

// Span is where words stand among the arguments: from the first on, up to the one before To.
type Span struct{ From, To int }

// LimitAt is where the words of a limit stand, terms included, as they were just read: of the i-th limit of a call with
// one key, from 0 on.
func (p *Parser) LimitAt(i int) Span { return p.spans[i] }

// begin prepares the parser for args from index next on.
func (p *Parser) begin(s *Syntax, r *Request, args [][]byte, next int, limits *stack.Stack) {
	*r = Request{}
	r.Cost = 1
	p.syntax, p.r, p.args, p.next = s, r, args, next
	p.limits, p.groups, p.slotsOf, p.group, p.keys = limits, nil, nil, 0, nil
	p.seen, p.limitEnds, p.idsAt, p.slotsAt, p.ratesOnly = 0, 0, 0, 0, true
}

// parse reads all words.
func (p *Parser) parse() *SyntaxError {
	for p.next < len(p.args) {
		if p.parseWord(p.shift()) != nil {
			return &p.err
		}
	}
	if p.wantsLimit() {
		return p.missesLimit()
	}
	if p.check() != nil {
		return &p.err
	}
	return nil
}

// parseWord reads the word text, and those that belong to it.
func (p *Parser) parseWord(text []byte) error {
	s := p.syntax
	if kind := find(s.kinds, text); kind != nil {
		return p.parseLimit(kind, text)
	}
	if s.slots != nil && s.slots.is(text) {
		return p.parseSlots(text)
	}
	option := find(s.options, text)
	switch {
	case option == nil, p.wantsLimit():
		return p.unexpected(text)
	case option == s.next:
		return p.parseNext(text)
	}
	return p.parseOption(option, text)
}

// shift returns the next of the args, and moves on.
func (p *Parser) shift() []byte {
	p.next++
	return p.args[p.next-1]
}

// wantsLimit reports whether nothing but a limit, or a group of SLOTS, may come next.
func (p *Parser) wantsLimit() bool {
	return len(p.syntax.kinds) > 0 && p.limits.Len() == 0 && !p.inSlots()
}

// inSlots reports whether the group in hand is one of SLOTS.
func (p *Parser) inSlots() bool { return p.slotsOf != nil && p.slotsOf[p.group].Is }

func (p *Parser) parseOption(w *word, text []byte) error {
	if p.seen&w.set != 0 {
		return p.Near(text, givenTwice)
	}
	p.seen |= w.set
	for {
		if err := p.parseValue(w, text); err != nil {
			return err
		}
		if w != p.syntax.repeated || p.next == len(p.args) {
			return nil
		}
	}
}

// parseNext begins the next group of limits.
func (p *Parser) parseNext(text []byte) error {
	p.ratesOnly = p.ratesOnly && p.limits.RatesOnly()
	if p.group++; p.group == len(p.groups) {
		return p.Near(text, oneGroupOrAll)
	}
	p.limits = &p.groups[p.group]
	p.limits.Reset()
	p.slotsOf[p.group] = SlotGroup{}
	return nil
}

// parseValue reads what follows a word and stores it.
func (p *Parser) parseValue(w *word, text []byte) error {
	if w.value != nil {
		if p.next == len(p.args) {
			return p.Near(text, w.name, " ", w.value.right)
		}
		switch {
		case w.value == &id && p.idsAt == 0:
			p.idsAt = p.next
		case w.value == &slots:
			p.slotsAt = p.next
		}
		p.text = p.shift()
		if err := w.value.read(p, p.text); err != nil {
			return p.misread(w, err)
		}
	}
	if w.put != nil {
		w.put(p)
	}
	return nil
}
