package command

import "redis-throttle/limiter/lease"

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

// leasesOfMany is leases of one of several keys.
func (k *Key) leasesOfMany(l *lease.Leases, nowNs int64) (problem string) {
	problem = k.leases(l, nowNs)
	if problem == "" && k.Kind == SortedSet {
		l.NextOtherMs, l.LastOtherMs = leaseEnd(k.Members.NextOther), leaseEnd(k.Members.LastOther)
	}
	return problem
}
