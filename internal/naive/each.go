package naive

// Each is what a reply with EACH says of one limit.
type Each struct {
	Limited, Limit, Remaining int64
	RetryAfter                Nanoseconds // -1 for none
	ResetAfter                Nanoseconds
}

// Fields are the five numbers, in their order.
func (e Each) Fields() [5]int64 {
	return [5]int64{e.Limited, e.Limit, e.Remaining, rounded(e.RetryAfter, millisecond), rounded(e.ResetAfter, millisecond)}
}

// EachOf runs a call, and returns its reply and what EACH says of its limits. Each limit is judged alone before the
// call and described after it, from what the keys then hold. The Terms of the options are not looked at.
func EachOf(nowNs int64, calls []Call, o Options, run func() Reply) (reply Reply, each []Each) {
	now := n(nowNs)
	before := alone(now, calls, o)
	reply = run()
	for i, p := range limitsOf(now, calls) {
		e := p.each(now)
		if !before[i].is(zero) {
			e.Limited = 1
		}
		if retry := p.alone(now, o); !retry.is(zero) && (e.Limited == 1 || reply.Limited == 1) {
			e.RetryAfter = retry
		}
		each = append(each, e)
	}
	return reply, each
}

// EachRefunded is CL.REFUND, which asks no limit for units, and what EACH says of its limits. They are described as the
// call leaves them: what the key then holds may be a single RATE without its period, which the next call takes for its
// first one.
func EachRefunded(nowNs int64, call Call, cost int64) (reply Reply, each []Each) {
	reply, parties := call.Model.refund(nowNs, call.Limits, cost, call.Terms)
	for _, p := range parties {
		each = append(each, p.each(n(nowNs)))
	}
	return reply, each
}

// each is what EACH says of a limit that lets the call through.
func (p party) each(now number) Each {
	r := describe(now, []party{p}, 0)
	return Each{Limit: r.Limit, Remaining: r.Remaining, RetryAfter: none, ResetAfter: r.ResetAfter}
}

// limitsOf is the limits of all keys, with what the keys hold of them.
func limitsOf(now number, calls []Call) (parties []party) {
	for _, c := range calls {
		c.Model.look(now)
		parties = append(parties, partiesOf(c.Model.stack(c.Limits), c.Terms)...)
	}
	return parties
}

// alone is how long it takes until each limit by itself lets a call through, or none.
func alone(now number, calls []Call, o Options) (retry []number) {
	for _, p := range limitsOf(now, calls) {
		retry = append(retry, p.alone(now, o))
	}
	return retry
}

func (p party) alone(now number, o Options) number {
	p.Shadow = false
	return after(now, []party{p}, o)
}

// EachOfGroups is EachOf for calls with groups of SLOTS: run is Admit or, if the call settles, Settle. A retry of an
// admission and a settlement ask no limit.
func EachOfGroups(nowNs int64, call []Group, id string, o Options, settles bool, run func() Reply) (reply Reply, each []Each) {
	all := groups(call)
	all.look(nowNs)
	asks := !settles && !all.holdsAll(nowNs, id)
	before := make([]Each, len(all))
	for i, g := range all {
		if g.isSlots() {
			before[i] = g.judge(nowNs, id, settles)
		}
	}
	calls, _ := all.limits()
	reply, ofLimits := EachOf(nowNs, calls, o, run)
	for i, g := range all {
		if g.isSlots() {
			each = append(each, g.each(nowNs, before[i], settles, !settles && reply.Limited == 1))
			continue
		}
		for _, e := range ofLimits[:len(g.Limits)] {
			if !asks {
				e.Limited, e.RetryAfter = 0, none
			}
			each = append(each, e)
		}
		ofLimits = ofLimits[len(g.Limits):]
	}
	return reply, each
}

// judge says of a group of SLOTS whether it denies a lease to an id or, if the call settles, whether the id has none.
func (g Group) judge(now int64, id string, settles bool) (e Each) {
	e.RetryAfter = none
	switch isHeld := g.Leases.holds(now, id); {
	case isHeld:
	case settles:
		e.Limited = 1
	case g.Leases.free(now, g.Slots, g.Leases.line.Ahead(Turn{})) == 0:
		e.Limited, e.RetryAfter = 1, g.retry(now)
	}
	return e
}

// each completes what judge has said by the state after the call.
func (g Group) each(now int64, e Each, settles, limited bool) Each {
	e.Limit, e.Remaining, e.ResetAfter = g.Slots, g.Leases.free(now, g.Slots, g.Leases.waiting()), zero
	switch {
	case settles:
		e.Limit, e.Remaining = -1, -1
	case limited:
		e.Remaining = g.Leases.free(now, g.Slots, g.Leases.line.Ahead(Turn{}))
	}
	if held := g.Leases.held(now); len(held) > 0 {
		e.ResetAfter = g.until(now, held[len(held)-1])
	}
	return e
}
