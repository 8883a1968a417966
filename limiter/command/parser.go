package command

import "redis-throttle/limiter/stack"

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
	for p.next < len(p.args) {
		if err := p.parseWord(p.take()); err != nil {
			return err
		}
	}
	if p.wantsLimit() {
		return p.missesLimit()
	}
	return p.check()
}

// parseWord reads the word text, and those that belong to it.
func (p *parser) parseWord(text []byte) error {
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
	if p.seen&w.set != 0 {
		return p.near(text, givenTwice)
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
