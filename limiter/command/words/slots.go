package words

// Groups of SLOTS, which stand in place of limits in calls with several keys.

// parseSlots reads a group of SLOTS whose first word was text.
func (p *Parser) parseSlots(text []byte) error {
	s := p.syntax
	if p.limits.Len() > 0 || p.inSlots() {
		return p.Near(text, ownGroup)
	}
	p.seen |= s.slots.set
	g := &p.slotsOf[p.group]
	g.Is = true
	if s.form == SlotsAlone {
		return nil
	}
	if err := p.parseValue(s.slots, text); err != nil {
		return err
	}
	g.Slots = p.number
	if p.next == len(p.args) || !slotsTTL.is(p.args[p.next]) {
		return p.nearOrAt(text, expected, slotsTTL.name)
	}
	if err := p.parseValue(slotsTTL, p.shift()); err != nil {
		return err
	}
	g.TTLNs = p.number
	return nil
}

var slotsTTL = named(vocabulary, "TTL")[0]

// nearOrAt returns an error that points at the next word, or at text if there is none.
func (p *Parser) nearOrAt(text []byte, right ...string) error {
	if p.next < len(p.args) {
		text = p.args[p.next]
	}
	return p.Near(text, right...)
}
