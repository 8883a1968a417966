package naive

import "slices"

// Call is what a call asks of one of its keys.
type Call struct {
	Model  *Model
	Limits []Limit
	Terms  []Terms // of the limits, in their order
}

// TakeAll is CL.MLIMIT without ANY. The Terms of the options are not looked at: each Call has its own.
func TakeAll(nowNs int64, calls []Call, o Options) Reply {
	now := n(nowNs)
	banned, until := -1, now.plus(n(int64(o.Ban)))
	for i, c := range calls {
		c.Model.look(now)
		if c.Model.banned(now) && (banned < 0 || calls[banned].Model.ban.less(c.Model.ban)) {
			banned = i
		}
	}
	if banned < 0 {
		var writes []int
		for _, c := range calls {
			writes = append(writes, c.Model.writes)
		}
		reply := takeAll(now, askAll(calls...), o)
		if reply.Limited == 1 && o.Ban > 0 && !reply.RetryAfter.is(none) && !reply.counts {
			calls[reply.Key-1].Model.banDenied(until, writes[reply.Key-1])
			reply.RetryAfter = most(reply.RetryAfter, n(int64(o.Ban)))
		}
		return reply
	}
	granted := int64(0)
	switch longest := calls[banned].Model; {
	case o.Force: // charges all, behind their bans
		o.After = After{}
		granted = takeAll(now, askAll(calls...), o).Granted
	case o.Strict && o.Ban > 0:
		longest.banUntil(until)
	}
	var parties []party
	for _, a := range askAll(calls...) {
		parties = append(parties, a.parties...)
	}
	return calls[banned].ofTheBan(now, banned, after(now, parties, o), granted)
}

func (c Call) ofTheBan(now number, i int, after number, granted int64) Reply {
	reply := c.Model.ofTheBan(now, c.Limits, after, granted)
	reply.Key = int64(i + 1)
	return reply
}

// TakeAny is CL.MLIMIT with ANY.
func TakeAny(nowNs int64, calls []Call, o Options) Reply {
	now := n(nowNs)
	for _, c := range calls {
		c.Model.look(now)
	}
	chosen, _ := bestOffer(now, calls, o)
	c := calls[chosen]
	before := 0 // limits of the keys before the chosen one
	for _, other := range calls[:chosen] {
		before += len(other.Limits)
	}
	o.Terms = c.Terms
	reply := c.Model.Take(nowNs, c.Limits, o)
	reply.Key = int64(chosen + 1)
	if reply.Limited == 1 { // of all keys, also after the chosen one was charged
		_, shortest := bestOffer(now, calls, o)
		reply.RetryAfter = shortest.retry
	}
	if reply.Rule > 0 {
		reply.Rule += int64(before)
	}
	if reply.Shadow > 0 {
		reply.Shadow += int64(before)
	}
	return reply
}

// bestOffer is the best that one of the keys offers, and which one it is.
func bestOffer(now number, calls []Call, o Options) (key int, best offer) {
	for i, a := range askAll(calls...) {
		if offer := a.offer(now, o); i == 0 || offer.better(best) {
			key, best = i, offer
		}
	}
	return key, best
}

// offer is what a key offers a call with ANY: how long until the call can succeed, and how long it then
// waits for its slot.
type offer struct {
	possible    bool
	retry, wait number
}

func (a *asked) offer(now number, o Options) offer {
	retry := after(now, a.parties, o)
	if a.Model.banned(now) { // a slot behind the ban cannot be reserved
		retry = later(retry, a.Model.restOfBan(now))
		return offer{!retry.is(none), retry, zero}
	}
	wait := longest(now, a.parties, o.needed())
	return offer{wait.possible, retry, wait.ns}
}

func (a offer) better(b offer) bool {
	switch {
	case a.possible != b.possible:
		return a.possible
	case !a.retry.is(b.retry):
		return a.retry.less(b.retry)
	}
	return a.retry.is(zero) && a.wait.less(b.wait)
}

// asked is a key of a call with what was found there.
type asked struct {
	Call
	stack   []state
	parties []party
	first   int // how many limits the keys before it have
	changes bool
	charged []number // of a call that was limited, or a settlement
	denials []kept   // the count that the call has changed, if any
	settles bool
}

func askAll(calls ...Call) (all []*asked) {
	first := 0
	for _, c := range calls {
		stack := c.Model.stack(c.Limits)
		all = append(all, &asked{Call: c, stack: stack, parties: partiesOf(stack, c.Terms), first: first})
		first += len(stack)
	}
	return all
}

// write makes what the call left of each key that it changed what the key holds.
func write(now number, all []*asked) {
	for _, a := range all {
		if a.changes {
			a.Model.write(now, a.Limits, a.stack, a.denials, a.adds)
		}
	}
}

// adds says whether a limit that the key lacks is added to it. A settlement adds those that it charges, and in front of
// one also those that the next call would find its state for.
func (a *asked) adds(limit int) bool {
	if !a.settles {
		return true
	}
	claims := a.Model.claims(a.Limits)
	for i := limit; i < len(a.Limits); i++ {
		one, other := a.Limits[limit], a.Limits[i]
		alike := one.Kind == other.Kind && (one.Kind == Rate || one.id() == other.id())
		if alike && claims[i] < 0 && a.charged[i].positive() {
			return true
		}
	}
	return false
}

// takeAll decides the limits of all keys at one instant. None of them is banned, or it is charged behind its ban.
func takeAll(now number, all []*asked, o Options) Reply {
	var parties []party
	var of []*asked // of which key each is
	for _, a := range all {
		parties = append(parties, a.parties...)
		of = append(of, slices.Repeat([]*asked{a}, len(a.parties))...)
	}
	// needed is what the call needs to pass, and taken what it then takes.
	needed, taken := o.needed(), n(o.Cost)
	if o.UpTo {
		for _, p := range deciding(parties) {
			taken = least(taken, p.have(now))
		}
	}
	shadow := shadowOf(now, parties, needed, o)
	wait := longest(now, parties, needed)
	if wait.within(o.MaxWait) && !o.denied {
		var charged []number
		for i, p := range parties {
			units, changes := p.units(taken), false
			if p.Shadow {
				units, changes = p.shadowed(now, wait.ns, needed, units, o)
			} else if changes = units.positive(); changes {
				p.charge(now, now.plus(wait.ns), units)
			}
			charged, of[i].changes = append(charged, units), of[i].changes || changes
		}
		write(now, all)
		rule := fewest(now, parties, shadow)
		reply := describe(now, parties, rule)
		reply.Granted, reply.Wait, reply.Shadow = charged[rule].Int64(), wait.ns, int64(shadow)
		reply.Key = keyOf(all, rule)
		return reply
	}
	asks := slices.ContainsFunc(parties, func(p party) bool { return p.units(n(o.Cost)).positive() })
	for _, a := range all {
		a.changes = a.punish(now, o) && asks
	}
	wait = longest(now, parties, needed)
	counts := o.Ban > 0 && o.After.Count > 0 && wait.possible && !of[wait.rule].countDenial(now, o.After)
	write(now, all)
	reply := describe(now, parties, wait.rule)
	reply.counts = counts
	reply.Limited, reply.Shadow, reply.Key = 1, int64(shadow), keyOf(all, wait.rule)
	if o.Force {
		forced := of[wait.rule]
		reply.Granted = forced.charged[wait.rule-forced.first].Int64()
	}
	if wait.possible {
		reply.RetryAfter = wait.ns.minus(n(int64(o.MaxWait)))
	}
	return reply
}

// punish charges what a call that is limited charges (FORCE, STRICT), and says whether the key changes: it
// also does where a state was out of reach.
func (a *asked) punish(now number, o Options) (changes bool) {
	changes = anyOutOfReach(now, a.stack) && !o.Force // which is no call that is turned away
	for _, p := range a.parties {
		units, charged := p.units(n(o.Cost)), zero
		switch {
		case o.Force && units.positive():
			charged = p.charge(now, now, units)
		case o.Strict:
			charged = p.punish(now, units, n(p.Spare))
		}
		a.charged, changes = append(a.charged, charged), changes || charged.positive()
	}
	return changes
}

// keyOf is the number of the key that a limit belongs to.
func keyOf(all []*asked, rule int) (key int64) {
	for _, a := range all {
		if a.first <= rule {
			key++
		}
	}
	return key
}

// WordsOfKeys are the words of a CL.MLIMIT behind its keys. One group of limits for all keys is told once.
func WordsOfKeys(calls []Call, oneGroup, anyKey bool, o Options) (words []string) {
	for i, c := range calls {
		if i > 0 && oneGroup {
			break
		}
		if i > 0 {
			words = append(words, "NEXT")
		}
		words = append(words, Words(c.Limits, c.Terms...)...)
	}
	if anyKey {
		words = append(words, "ANY")
	}
	return append(words, o.Words()...)
}
