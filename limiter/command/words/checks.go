package words

import "redis-throttle/limiter/stack"

// What is wrong with a call though each of its words is right.

// check refuses what no single word is to blame for.
func (p *Parser) check() error {
	if err := p.checkPairs(p.syntax.options, p.seen); err != nil {
		return err
	}
	if err := p.checkSlots(); err != nil {
		return err
	}
	if err := p.checkRequired(); err != nil {
		return err
	}
	if err := p.checkCompany(); err != nil {
		return err
	}
	if err := p.checkRoom(); err != nil {
		return err
	}
	return p.checkKinds()
}

// checkPairs refuses words that exclude each other.
func (p *Parser) checkPairs(words []*word, seen wordSet) error {
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

// checkSlots refuses an ID without leases, and leases without one.
func (p *Parser) checkSlots() error {
	s := p.syntax
	if s.slots == nil {
		return nil
	}
	hasSlots, hasID := p.seen&s.slots.set != 0, p.idsAt > 0
	switch {
	case hasSlots && !hasID:
		return p.without(slotsNeedID)
	case hasSlots:
		return nil
	case s.form == SlotsAlone:
		return p.without(settleOnce)
	case hasID:
		return p.nearName("ID", needsSlots)
	}
	return nil
}

// checkRequired refuses a call without a word that has to be there.
func (p *Parser) checkRequired() error {
	for _, w := range p.syntax.required {
		if p.seen&w.set == 0 {
			return p.without(w.name, isMissing)
		}
	}
	return nil
}

// checkCompany refuses words that mean nothing without another.
func (p *Parser) checkCompany() error {
	for _, w := range p.syntax.options {
		if w.needed != nil && p.seen&w.set != 0 && p.seen&w.needed.set == 0 {
			return p.nearName(w.name, onlyWith, w.with)
		}
	}
	return nil
}

// checkRoom refuses a count of denials where a key has no room for it beside its limits.
func (p *Parser) checkRoom() error {
	if p.r.After.Count == 0 {
		return nil
	}
	full := p.limits.Len() == stack.MaxLimits
	for i := 0; i < p.group && !full; i++ {
		full = p.groups[i].Len() == stack.MaxLimits
	}
	if full {
		return p.nearName("AFTER", takesRoom)
	}
	return nil
}

// checkKinds refuses words that do not go with the kinds of limits that were given.
func (p *Parser) checkKinds() error {
	if len(p.syntax.kinds) == 0 {
		return nil
	}
	ratesOnly := p.ratesOnly && p.limits.RatesOnly()
	for _, w := range p.syntax.options {
		switch {
		case p.seen&w.set == 0:
		case w.rates && !ratesOnly:
			return p.nearName(w.name, onlyRates)
		case w.notRatesAlone && ratesOnly:
			return p.nearName(w.name, "needs a ", p.syntax.turnKinds, onlyTurns)
		}
	}
	return nil
}
