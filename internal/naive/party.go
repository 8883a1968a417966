package naive

import "time"

// Terms are the words that follow a limit and belong to it.
type Terms struct {
	Take    int64 // in place of COST, if HasTake
	HasTake bool
	Spare   int64
	Shadow  bool
}

// party is a limit in a call: its state, and what the call says of it.
type party struct {
	state
	Terms
}

func partiesOf(stack []state, terms []Terms) (parties []party) {
	for i, s := range stack {
		p := party{state: s}
		if i < len(terms) {
			p.Terms = terms[i]
		}
		parties = append(parties, p)
	}
	return parties
}

// deciding are those that are no shadows.
func deciding(parties []party) (rules map[int]party) {
	rules = map[int]party{}
	for i, p := range parties {
		if !p.Shadow {
			rules[i] = p
		}
	}
	return rules
}

// units is what a call of this cost asks of the limit.
func (p party) units(cost number) number {
	if p.HasTake {
		return n(p.Take)
	}
	return cost
}

// have is the number of units that the caller can have.
func (p party) have(now number) number { return most(p.left(now).minus(n(p.Spare)), zero) }

// waiting is how long a call has to wait, and for which limit.
type waiting struct {
	rule     int
	possible bool
	ns       number
}

func (w waiting) within(longest time.Duration) bool {
	return w.possible && !n(int64(longest)).less(w.ns)
}

// until returns how long it takes until the caller can have units.
func (p party) until(now, units number) waiting {
	if units.is(zero) {
		return waiting{0, true, zero}
	}
	beside := units.plus(n(p.Spare))
	if p.capacity().less(beside) {
		return waiting{}
	}
	return waiting{0, true, p.wait(now, beside)}
}

// after is how long it takes until a call is let through by all parties, or none.
func after(now number, parties []party, o Options) number {
	wait := longest(now, parties, o.needed())
	if !wait.possible {
		return none
	}
	return most(wait.ns.minus(n(int64(o.MaxWait))), zero)
}

// needed is how many units a call needs to pass.
func (o Options) needed() number {
	if o.UpTo {
		return n(1)
	}
	return n(o.Cost)
}

// longest is the limit with the longest wait, the first of several. One that never
// has cost units has the longest there is.
func longest(now number, parties []party, cost number) waiting {
	longest := waiting{0, true, zero}
	for i, p := range parties {
		if p.Shadow {
			continue
		}
		w := p.until(now, p.units(cost))
		if !w.possible {
			return waiting{rule: i}
		}
		if longest.ns.less(w.ns) {
			longest = waiting{i, true, w.ns}
		}
	}
	return longest
}

// fewest is the limit with the fewest units left, the first of several. It is a shadow only where all are:
// the one that would have limited the call, if there is one.
func fewest(now number, parties []party, shadow int) (rule int) {
	all := len(deciding(parties)) == 0
	if all && shadow > 0 {
		return shadow - 1
	}
	rule = -1
	for i, p := range parties {
		if (all || !p.Shadow) && (rule < 0 || p.have(now).less(parties[rule].have(now))) {
			rule = i
		}
	}
	return rule
}

// shadowOf is the number of the first shadow that would have limited the call, or 0.
func shadowOf(now number, parties []party, needed number, o Options) int {
	for i, p := range parties {
		if p.Shadow && !p.until(now, p.units(needed)).within(o.MaxWait) {
			return i + 1
		}
	}
	return 0
}

// shadowed charges a shadow as it would be charged if it were enforced, of a call that the others let
// through at the end of their wait.
func (p party) shadowed(now, wait, needed, units number, o Options) (charged number, changes bool) {
	own := p.until(now, p.units(needed))
	switch {
	case units.is(zero):
	case own.within(o.MaxWait):
		if o.UpTo {
			units = least(units, p.have(now))
		}
		p.charge(now, now.plus(most(wait, own.ns)), units)
		return units, true
	case o.Force:
		charged = p.charge(now, now, units)
		return charged, charged.positive()
	case o.Strict:
		// Like any call that is limited, it corrects what is out of reach.
		changes = p.outOfReach(now)
		charged = p.punish(now, units, n(p.Spare))
		return charged, changes || charged.positive()
	}
	return zero, units.positive() && p.outOfReach(now)
}
