package command

import (
	"redis-throttle/lease"
)

// Groups of SLOTS, which stand in place of limits in calls with several keys.

// slotGroup is what a group of SLOTS says; the zero value is a group of limits.
type slotGroup struct {
	is           bool
	slots, ttlNs int64 // of the form slotsForTTL
}

// parseSlots reads a group of SLOTS whose first word was text.
func (p *parser) parseSlots(text []byte) error {
	s := p.syntax
	if p.limits.Len() > 0 || p.inSlots() {
		return p.near(text, ownGroup)
	}
	p.seen |= s.slots.set
	g := &p.slotsOf[p.group]
	g.is = true
	if s.form == slotsAlone {
		return nil
	}
	if err := p.parseValue(s.slots, text); err != nil {
		return err
	}
	g.slots = p.number
	if p.next == len(p.args) || !slotsTTL.is(p.args[p.next]) {
		return p.nearOrAt(text, expected, slotsTTL.name)
	}
	if err := p.parseValue(slotsTTL, p.take()); err != nil {
		return err
	}
	g.ttlNs = p.number
	return nil
}

var slotsTTL = named(vocabulary, "TTL")[0]

// nearOrAt returns an error that points at the next word, or at text if there is none.
func (p *parser) nearOrAt(text []byte, right ...string) error {
	if p.next < len(p.args) {
		text = p.args[p.next]
	}
	return p.near(text, right...)
}

// checkSlots refuses an ID without leases, and leases without one.
func (p *parser) checkSlots() error {
	hasSlots, hasID := p.seen&p.syntax.slots.set != 0, p.ids > 0
	switch {
	case hasSlots && !hasID:
		return p.without(slotsNeedID)
	case hasSlots:
		return nil
	case p.syntax.form == slotsAlone:
		return p.without(settleOnce)
	case hasID:
		return p.nearName("ID", needsSlots)
	}
	return nil
}

// settleTerms makes the difference between USED and TAKE what the limit in hand is charged.
func (p *parser) settleTerms() error {
	l := &p.limit
	if l.terms.HasTake != l.hasUsed {
		return p.near(l.quota, takeAndUsed)
	}
	l.terms.Take, l.terms.HasTake = l.used-l.terms.Take, true
	return nil
}

var idWord = named(vocabulary, "ID")[0]

// findGroups returns what the words behind the keys were read as in an earlier call, or nil. Ids differ from call to call, so what is
// remembered has none.
func (c *Call) findGroups(words [][]byte) *pastGroups {
	at := c.idIn(words)
	if at < 0 {
		return c.Past.findGroups(words, c.cmd.index)
	}
	id := words[at]
	if len(id) == 0 || len(id) > maxIDLen {
		return nil
	}
	words[at] = nil
	past := c.Past.findGroups(words, c.cmd.index)
	words[at] = id
	return past
}

// noteGroups remembers what the words behind the keys were read as: r, and the first so many groups of c.Many.
func (c *Call) noteGroups(words [][]byte, r *request, groups int) {
	m := c.Many
	at := c.idIn(words)
	if at < 0 {
		c.Past.noteGroups(words, c.cmd.index, r, m.stacks[:groups], m.slots[:groups])
		return
	}
	id := words[at]
	words[at] = nil
	c.Past.noteGroups(words, c.cmd.index, r, m.stacks[:groups], m.slots[:groups])
	words[at] = id
}

// idIn is the index of the id in the words behind the keys if it is where the leases were looked up, or -1.
func (c *Call) idIn(words [][]byte) int {
	at := c.Members.NamesAt - 1 - len(c.Keys)
	if at < 1 || at >= len(words) || !idWord.is(words[at-1]) {
		return -1
	}
	return at
}

// findID sees to it that the leases of the ID that was just read were looked up. When ok is false they have to be.
func (c *Call) findID() (ok bool) {
	if c.parser.ids == 0 {
		return true
	}
	at := 1 + len(c.Keys) + c.parser.ids
	ok = true
	for i := range c.Keys {
		k := &c.Keys[i]
		ok = ok && (k.Kind != SortedSet || k.Members.NamesAt == at)
		k.Members.NamesAt = at
	}
	if !ok {
		c.Reply = ReplyElsewhere
	}
	return ok
}

// leasesOfMany is leases of one of several keys.
func (k *Key) leasesOfMany(l *lease.Leases, nowNs int64) (problem string) {
	problem = k.leases(l, nowNs)
	if problem == "" && k.Kind == SortedSet {
		l.NextOtherMs, l.LastOtherMs = leaseEnd(k.Members.NextOther), leaseEnd(k.Members.LastOther)
	}
	return problem
}
