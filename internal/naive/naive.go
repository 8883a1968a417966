// Package naive is a model of keys, written from the documentation in docs/ alone, so that
// the module can be judged by something that is not its own code. It is slow, big and simple: numbers
// of any size, and plain logs of what was granted, which are walked through at every call.
//
// A Model is given the instant of every call and knows no clock. It answers what CL.LIMIT, CL.PEEK,
// CL.REFUND, CL.BAN and CL.THROTTLE have to answer, field by field, at any instants, also earlier ones than before.
// Several of them answer CL.MLIMIT. Leases is a model of a key with leases.
package naive

import (
	"fmt"
	"slices"
	"time"
)

// Model is one key. The zero value is a key that does not exist.
type Model struct {
	kept []kept
	// ban is the instant at which the last ban ends, 0 for none.
	ban number
	// expiresMs is the whole second in which the server drops the key, in ms since the epoch.
	expiresMs number
	// due is the earliest that it could have been at the last write.
	due number
	// fullAt is what FullAt returns.
	fullAt  number
	lasting bool
	writes  int
}

// Lasting is a key that no server drops: when the clock was set back, it holds what it held.
func Lasting() *Model { return &Model{lasting: true} }

// Writes is how often a call has written the key, as it was or not.
func (m *Model) Writes() int { return m.writes }

// Holds says whether there is a state of limits, or a ban.
func (m *Model) Holds() bool { return m.exists() }

// Of returns the limits of a call, each with what the key holds of it.
func (m *Model) Of(limits []Limit) (all []*Alone) {
	for i, s := range m.stack(limits) {
		all = append(all, &Alone{limits[i], s})
	}
	return all
}

// FullAt is the instant from which all limits are full whose end the key tells, in ns since the epoch, as of the
// last write; 0 if they were full then.
func (m *Model) FullAt() int64 { return m.fullAt.Int64() }

type kept struct {
	kind  Kind
	id    string
	state state
}

// Clone is a copy that has a life of its own.
func (m *Model) Clone() *Model {
	c := *m
	c.kept = slices.Clone(m.kept)
	for i := range c.kept {
		c.kept[i].state = c.kept[i].state.clone()
	}
	return &c
}

// ExpiresMs is when the key expires, in ms since the epoch; -2 for one that does not exist.
func (m *Model) ExpiresMs(now int64) int64 {
	m.look(n(now))
	if !m.exists() {
		return -2
	}
	return m.expiresMs.Int64()
}

func (m *Model) exists() bool { return len(m.kept) > 0 || m.ban.positive() }

// String tells all that is kept: two models with the same string go on alike.
func (m *Model) String() string {
	if !m.exists() {
		return ""
	}
	s := fmt.Sprint(m.ban, " ", m.expiresMs)
	for _, k := range m.kept {
		s += fmt.Sprint(" ", k.kind, " ", k.id, " ", k.state)
	}
	return s
}

func anyOutOfReach(now number, stack []state) bool {
	return slices.ContainsFunc(stack, func(s state) bool { return s.outOfReach(now) })
}

// look is what any command does first: a key whose time is over is dropped by the server.
func (m *Model) look(now number) {
	if m.exists() && !m.lasting && m.expiresMs.less(now.over(n(int64(time.Millisecond)))) {
		*m = Model{}
	}
}

// stack is the limits of a call, with what the key holds of each.
func (m *Model) stack(limits []Limit) []state {
	var stack []state
	for i, at := range m.claims(limits) {
		var found state
		if at >= 0 {
			found = m.kept[at].state.clone()
		}
		stack = append(stack, limits[i].state(found))
	}
	return stack
}

// Take is CL.LIMIT.
func (m *Model) Take(nowNs int64, limits []Limit, o Options) Reply {
	now := n(nowNs)
	m.look(now)
	until := now.plus(n(int64(o.Ban)))
	switch {
	case m.banned(now) && o.Force: // charges behind the ban
		o.After = After{}
		granted := m.take(now, limits, o).Granted
		return m.ofTheBan(now, limits, m.after(now, limits, o), granted)
	case m.banned(now):
		if o.Strict && o.Ban > 0 {
			m.banUntil(until)
		}
		return m.ofTheBan(now, limits, m.after(now, limits, o), 0)
	}
	writes := m.writes
	reply := m.take(now, limits, o)
	if reply.Limited == 1 && o.Ban > 0 && !reply.RetryAfter.is(none) && !reply.counts {
		m.banDenied(until, writes)
		reply.RetryAfter = most(reply.RetryAfter, n(int64(o.Ban)))
	}
	return reply
}

// after is how long it takes until the limits let a call through.
func (m *Model) after(now number, limits []Limit, o Options) number {
	return after(now, partiesOf(m.stack(limits), o.Terms), o)
}

// take is CL.LIMIT on a key that is not banned.
func (m *Model) take(now number, limits []Limit, o Options) Reply {
	return takeAll(now, askAll(Call{m, limits, o.Terms}), o)
}

// Peek is CL.PEEK.
func (m *Model) Peek(nowNs int64, limits []Limit, cost int64, terms ...Terms) Reply {
	now := n(nowNs)
	m.look(now)
	if m.banned(now) {
		return m.ofTheBan(now, limits, m.after(now, limits, Options{Cost: cost, Terms: terms}), 0)
	}
	parties := partiesOf(m.stack(limits), terms)
	shadow := shadowOf(now, parties, n(cost), Options{})
	wait := longest(now, parties, n(cost))
	if wait.within(0) {
		reply := describe(now, parties, fewest(now, parties, shadow))
		reply.Shadow = int64(shadow)
		return reply
	}
	reply := describe(now, parties, wait.rule)
	reply.Limited, reply.Shadow = 1, int64(shadow)
	if wait.possible {
		reply.RetryAfter = wait.ns
	}
	return reply
}

// Refund is CL.REFUND.
func (m *Model) Refund(nowNs int64, limits []Limit, cost int64, terms ...Terms) Reply {
	reply, _ := m.refund(nowNs, limits, cost, terms)
	return reply
}

func (m *Model) refund(nowNs int64, limits []Limit, cost int64, terms []Terms) (reply Reply, parties []party) {
	now := n(nowNs)
	m.look(now)
	stack := m.stack(limits)
	parties = partiesOf(stack, terms)
	var back []number
	anything := false
	for _, p := range parties {
		b := p.refund(now, p.units(n(cost)))
		back = append(back, b)
		anything = anything || b.positive()
	}
	if anything {
		m.write(now, limits, stack, nil, func(int) bool { return false })
	}
	rule := fewest(now, parties, 0)
	reply = describe(now, parties, rule)
	reply.Granted = -back[rule].Int64()
	return reply, parties
}

// Throttle is CL.THROTTLE, on a key that it can read.
func (m *Model) Throttle(now, maxBurst, count int64, period time.Duration, quantity int64) Reply {
	return m.Take(now, []Limit{{Kind: Rate, Count: count, Period: period, Burst: maxBurst + 1}}, Options{Cost: quantity})
}
