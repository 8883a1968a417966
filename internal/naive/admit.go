package naive

import (
	"fmt"
	"slices"
	"time"
)

// Group is what a call with SLOTS says of one of its keys: limits, if it has a Model, or slots.
type Group struct {
	Call
	Leases *Leases
	Slots  int64
	TTL    time.Duration
	// Used is what CL.SETTLE says that each limit should have been charged, where Terms.Take is what it was charged.
	Used []int64
}

func (g Group) isSlots() bool { return g.Leases != nil }

// groups has the groups of a call, in the order of its keys.
type groups []Group

// limits are the groups of limits, and the index of each in the call.
func (all groups) limits() (calls []Call, at []int) {
	for i, g := range all {
		if !g.isSlots() {
			calls, at = append(calls, g.Call), append(at, i)
		}
	}
	return calls, at
}

// number makes the numbers of a reply about the limits those of the call, where each group of SLOTS is one rule.
func (all groups) number(reply Reply) Reply {
	_, at := all.limits()
	slotsBefore := func(rule int64) (n int64) {
		limits := int64(0)
		for _, g := range all {
			if g.isSlots() {
				n++
			} else if limits += int64(len(g.Limits)); rule <= limits {
				break
			}
		}
		return n
	}
	if reply.Key > 0 {
		reply.Key = int64(at[reply.Key-1]) + 1
	}
	if reply.Rule > 0 {
		reply.Rule += slotsBefore(reply.Rule)
	}
	if reply.Shadow > 0 {
		reply.Shadow += slotsBefore(reply.Shadow)
	}
	return reply
}

// slot is what a reply says of a group of SLOTS that decides.
func (all groups) slot(now int64, key int, limited bool) Reply {
	g := all[key]
	reply := Reply{Limit: g.Slots, Remaining: g.Leases.free(now, g.Slots, g.Leases.waiting()), RetryAfter: none, Granted: 1, Key: int64(key) + 1, Wait: zero}
	if limited {
		reply.Limited, reply.Granted, reply.RetryAfter = 1, 0, g.retry(now)
	}
	for _, before := range all[:key] {
		reply.Rule += int64(len(before.Limits))
		if before.isSlots() {
			reply.Rule++
		}
	}
	reply.Rule++
	if held := g.Leases.held(now); len(held) > 0 {
		reply.NextAfter, reply.ResetAfter = g.until(now, held[0]), g.until(now, held[len(held)-1])
	} else {
		reply.NextAfter, reply.ResetAfter = zero, zero
	}
	return reply
}

func (g Group) until(now int64, id string) number {
	return n(g.Leases.endsMs[id]).times(n(millisecond)).minus(n(now))
}

// retry is how long it takes until a slot is free if nobody releases any; zero if one is.
func (g Group) retry(now int64) number {
	held := g.Leases.held(now)
	switch {
	case g.Slots == 0:
		return none
	case g.Leases.free(now, g.Slots, g.Leases.line.Ahead(Turn{})) > 0:
		return zero
	case len(held) == 0:
		return n(millisecond)
	}
	return g.until(now, held[0])
}

// holdsAll says whether an id has a lease of each group of SLOTS.
func (all groups) holdsAll(now int64, id string) bool {
	return !slices.ContainsFunc(all, func(g Group) bool { return g.isSlots() && !g.Leases.holds(now, id) })
}

func (all groups) look(nowNs int64) {
	for _, g := range all {
		if g.isSlots() {
			g.Leases.look(nowNs)
		} else {
			g.Model.look(n(nowNs))
		}
	}
}

// Admit is CL.MLIMIT with groups of SLOTS, for an id.
func Admit(nowNs int64, call []Group, id string, o Options) Reply {
	all, now := groups(call), n(nowNs)
	all.look(nowNs)
	calls, _ := all.limits()
	if all.holdsAll(nowNs, id) { // a retry
		all.take(nowNs, id)
		return all.standing(nowNs, o)
	}
	// The group of SLOTS that waits longest.
	full, wait := -1, zero
	for i, g := range all {
		g.Leases.tell(g.Slots)
		if !g.isSlots() || g.Leases.holds(nowNs, id) {
			continue
		}
		if retry := g.retry(nowNs); !retry.is(zero) && (full < 0 || longer(retry, wait)) {
			full, wait = i, retry
		}
	}
	for _, c := range calls {
		if c.Model.banned(now) {
			reply := all.number(TakeAll(nowNs, calls, o))
			reply.RetryAfter = later(reply.RetryAfter, wait)
			return reply
		}
	}
	var reply Reply
	if o.denied = full >= 0; len(calls) > 0 {
		reply = takeAll(now, askAll(calls...), o)
	}
	ofLimits := all.number(reply)
	switch {
	case len(calls) > 0 && reply.Limited == 1 && (full < 0 || longer(reply.RetryAfter, wait) || reply.RetryAfter.is(wait) && ofLimits.Key <= int64(full)):
		return ofLimits
	case full >= 0:
		decided := all.slot(nowNs, full, true)
		decided.Shadow = ofLimits.Shadow
		return decided
	}
	all.take(nowNs, id)
	return all.fewest(nowNs, calls, ofLimits)
}

// longer says whether one time is longer than another; none is the longest.
func longer(a, b number) bool { return !b.is(none) && (a.is(none) || b.less(a)) }

// tell notes how many slots the latest call has told the line of a key.
func (l *Leases) tell(slots int64) {
	if l != nil {
		l.lineSlots = slots
	}
}

// take takes or renews the lease of each group of SLOTS, in which there is room.
func (all groups) take(now int64, id string) {
	for _, g := range all {
		if g.isSlots() {
			g.Leases.lineSlots = g.Slots
			g.Leases.take(now, g.Slots, g.Leases.line.Ahead(Turn{}), g.Leases.waiting(), g.TTL, id)
		}
	}
}

// standing is what a retry is answered.
func (all groups) standing(nowNs int64, o Options) Reply {
	calls, _ := all.limits()
	if len(calls) == 0 {
		return all.fewest(nowNs, nil, Reply{})
	}
	var parties []party
	asked := askAll(calls...)
	for _, a := range asked {
		parties = append(parties, a.parties...)
	}
	rule := fewest(n(nowNs), parties, 0)
	reply := describe(n(nowNs), parties, rule)
	reply.Granted, reply.Key = parties[rule].units(n(o.Cost)).Int64(), keyOf(asked, rule)
	return all.fewest(nowNs, calls, all.number(reply))
}

// fewest is the reply about whatever has the fewest left: the limits' reply, or that of a group of SLOTS. The first of
// several, and no shadow.
func (all groups) fewest(now int64, calls []Call, ofLimits Reply) Reply {
	best, isAny := ofLimits, false
	for _, c := range calls {
		for i := range c.Limits {
			isAny = isAny || i >= len(c.Terms) || !c.Terms[i].Shadow
		}
	}
	for i, g := range all {
		if !g.isSlots() {
			continue
		}
		s := all.slot(now, i, false)
		s.Shadow = ofLimits.Shadow
		if !isAny || s.Remaining < best.Remaining || s.Remaining == best.Remaining && s.Key < best.Key {
			best, isAny = s, true
		}
	}
	return best
}

// Settle is CL.SETTLE. Its reply has settled in place of limited.
func Settle(nowNs int64, call []Group, id string) Reply {
	all, now := groups(call), n(nowNs)
	all.look(nowNs)
	settles := all.holdsAll(nowNs, id)
	var parties []party
	var charged []number
	asked := []*asked{}
	if calls, _ := all.limits(); len(calls) > 0 {
		asked = askAll(calls...)
	}
	next := 0
	for _, g := range all {
		if g.isSlots() {
			if settles {
				g.Leases.Release(nowNs, id)
			}
			continue
		}
		a := asked[next]
		next++
		for i, p := range a.parties {
			difference, units := n(g.Used[i]).minus(n(g.Terms[i].Take)), zero
			switch {
			case !settles:
			case difference.positive():
				units = p.charge(now, now, difference)
			case zero.minus(difference).positive():
				units = zero.minus(p.refund(now, zero.minus(difference)))
			}
			a.changes = a.changes || !units.is(zero)
			a.charged, parties = append(a.charged, units), append(parties, p)
		}
		a.settles = true
		charged = append(charged, a.charged...)
	}
	write(now, asked)
	reply := Reply{RetryAfter: none, ResetAfter: zero, NextAfter: zero, Wait: zero}
	if len(parties) > 0 {
		rule := fewest(now, parties, 0)
		reply = describe(now, parties, rule)
		reply.Granted, reply.Key = charged[rule].Int64(), keyOf(asked, rule)
		reply = all.number(reply)
	}
	if settles {
		reply.Limited = 1
	}
	return reply
}

// WordsOfGroups are the words of a call behind its keys, without its options. Those of CL.SETTLE say what was used.
func WordsOfGroups(call []Group, settles bool) (words []string) {
	for i, g := range call {
		if i > 0 {
			words = append(words, "NEXT")
		}
		switch {
		case g.isSlots() && settles:
			words = append(words, "SLOTS")
		case g.isSlots():
			words = append(words, "SLOTS", fmt.Sprint(g.Slots), "TTL", Duration(g.TTL))
		case settles:
			for j, l := range g.Limits {
				words = append(words, Words([]Limit{l})...)
				words = append(words, "TAKE", fmt.Sprint(g.Terms[j].Take), "USED", fmt.Sprint(g.Used[j]))
				if g.Terms[j].Shadow {
					words = append(words, "SHADOW")
				}
			}
		default:
			words = append(words, Words(g.Limits, g.Terms...)...)
		}
	}
	return words
}
