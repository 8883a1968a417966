// Package naive is a model of one key, written from the documentation in docs/ alone, so that
// the module can be judged by something that is not its own code. It is slow, big and simple: numbers
// of any size, and plain logs of what was granted, which are walked through at every call.
//
// A Model is given the instant of every call and knows no clock. It answers what CL.LIMIT, CL.PEEK,
// CL.REFUND and CL.THROTTLE have to answer, field by field, at any instants, also earlier ones than before.
package naive

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is what a limit is called in a command.
type Kind string

// The kinds of limits.
const (
	Rate   Kind = "RATE"
	Window Kind = "WINDOW"
	Fixed  Kind = "FIXED"
)

// Limit is one limit of a call.
type Limit struct {
	Kind   Kind
	Count  int64
	Period time.Duration
	// Burst is the capacity of a Rate; 0 means Count, as where a command leaves it out.
	Burst int64
}

// Options of Take.
type Options struct {
	Cost    int64
	UpTo    bool
	Strict  bool
	MaxWait time.Duration // 0 for none
}

// Reply is what the commands answer. Lengths of time are in ns, to be rounded up to what a command
// shows, and may be longer than an int64 holds ns.
type Reply struct {
	Limited, Rule, Limit, Remaining int64
	RetryAfter                      Nanoseconds // -1 for none
	ResetAfter, NextAfter           Nanoseconds
	Granted                         int64
	Wait                            Nanoseconds
}

// Nanoseconds is a length of time, which an int64 may be too small for.
type Nanoseconds = number

// Fields are the nine numbers of CL.LIMIT, CL.PEEK and CL.REFUND, in their order.
func (r Reply) Fields() [9]int64 {
	return [9]int64{r.Limited, r.Rule, r.Limit, r.Remaining, rounded(r.RetryAfter, time.Millisecond),
		rounded(r.ResetAfter, time.Millisecond), rounded(r.NextAfter, time.Millisecond), r.Granted,
		rounded(r.Wait, time.Millisecond)}
}

// Throttle are the five numbers of CL.THROTTLE, in their order.
func (r Reply) Throttle() [5]int64 {
	return [5]int64{r.Limited, r.Limit, r.Remaining, rounded(r.RetryAfter, time.Second), rounded(r.ResetAfter, time.Second)}
}

func rounded(ns number, unit time.Duration) int64 {
	if ns.is(none) {
		return -1
	}
	return ns.overUp(n(int64(unit))).Int64()
}

// none is RetryAfter where there is nothing to wait for, or no use in it.
var none = n(-1)

// state is what is kept of one limit, together with the count and the capacity of the call that looks
// at it. Lengths of time are in ns.
type state interface {
	capacity() number
	left(now number) number
	// wait is how long it takes until so many units are there, at most capacity, if nobody asks.
	wait(now, units number) number
	fullIn(now number) number
	charge(now, slot, units number)
	// punish charges a call that was turned away (STRICT), and says whether there was anything to charge.
	punish(now, units number) (charged bool)
	refund(now, units number) (back number)
	outOfReach(now number) bool
	// settle writes down how the state is read at now: what is full is forgotten, what is out of reach
	// corrected.
	settle(now number)
	clone() state
}

// Model is one key. The zero value is a key that does not exist.
type Model struct {
	kept []kept
	// expiresMs is the whole second in which the server drops the key, in ms since the epoch.
	expiresMs number
}

type kept struct {
	kind   Kind
	period time.Duration
	state  state
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
	if len(m.kept) == 0 {
		return -2
	}
	return m.expiresMs.Int64()
}

// Throttled says whether CL.THROTTLE finds at the key what it can read.
func (m *Model) Throttled(now int64) bool {
	m.look(n(now))
	return len(m.kept) == 0 || m.soleRate()
}

// Kept are the kinds and periods of the limits of which the key holds something.
func (m *Model) Kept(now int64) (limits []Limit) {
	m.look(n(now))
	for _, k := range m.kept {
		limits = append(limits, Limit{Kind: k.kind, Period: k.period})
	}
	return limits
}

// Reserved says whether the key holds slots that were reserved when it was written last.
func (m *Model) Reserved(now int64) bool {
	m.look(n(now))
	for _, k := range m.kept {
		if r, ok := k.state.(*rate); ok && r.queue.positive() {
			return true
		}
	}
	return false
}

// OutOfReach says whether a call with these limits finds a state that none of them can have written by
// this clock.
func (m *Model) OutOfReach(now int64, limits []Limit) bool {
	m.look(n(now))
	return anyOutOfReach(n(now), m.stack(limits))
}

func anyOutOfReach(now number, stack []state) bool {
	return slices.ContainsFunc(stack, func(s state) bool { return s.outOfReach(now) })
}

// look is what any command does first: a key whose time is over is dropped by the server.
func (m *Model) look(now number) {
	if len(m.kept) > 0 && m.expiresMs.less(now.over(n(int64(time.Millisecond)))) {
		*m = Model{}
	}
}

// stack is the limits of a call, with what the key holds of each.
func (m *Model) stack(limits []Limit) []state {
	unclaimed := slices.Clone(m.kept)
	var stack []state
	for _, l := range limits {
		var found state
		for i, k := range unclaimed {
			if k.kind == l.Kind && (k.period == l.Period || m.soleRate()) {
				found = k.state.clone()
				unclaimed = slices.Delete(unclaimed, i, i+1)
				break
			}
		}
		stack = append(stack, l.state(found))
	}
	return stack
}

// soleRate says whether the key is one rate and nothing else, with or without reservations: that goes to
// the first rate of a call, whatever its period.
func (m *Model) soleRate() bool { return len(m.kept) == 1 && m.kept[0].kind == Rate }

// state is a limit with what was found of it, nil for nothing.
func (l Limit) state(found state) state {
	switch l.Kind {
	case Rate:
		r := &rate{emission: n(int64(l.Period)).overUp(n(l.Count)), burst: n(l.Burst), full: zero, queue: zero}
		if l.Burst == 0 {
			r.burst = n(l.Count)
		}
		if found != nil {
			r.full, r.queue = found.(*rate).full, found.(*rate).queue
		}
		return r
	case Window:
		w := &window{period: n(int64(l.Period)), count: n(l.Count)}
		if found != nil {
			w.log = found.(*window).log
		}
		return w
	case Fixed:
		f := &fixed{period: n(int64(l.Period)), count: n(l.Count), begin: zero, used: zero}
		if found != nil {
			f.begin, f.used = found.(*fixed).begin, found.(*fixed).used
		}
		return f
	}
	panic("no such kind: " + string(l.Kind))
}

// write makes the stack what the key holds.
func (m *Model) write(now number, limits []Limit, stack []state) {
	fullIn := zero
	m.kept = nil
	for i, s := range stack {
		s.settle(now)
		m.kept = append(m.kept, kept{limits[i].Kind, limits[i].Period, s})
		fullIn = most(fullIn, s.fullIn(now))
	}
	if fullIn.is(zero) {
		*m = Model{}
		return
	}
	m.expiresMs = now.plus(fullIn).overUp(n(int64(time.Second))).times(n(1000))
}

// Take is CL.LIMIT.
func (m *Model) Take(nowNs int64, limits []Limit, o Options) Reply {
	now := n(nowNs)
	m.look(now)
	stack := m.stack(limits)
	// needed is what has to be there, taken is what the call takes if it is.
	needed, taken := n(o.Cost), n(o.Cost)
	if o.UpTo {
		needed = n(1)
		for _, s := range stack {
			taken = least(taken, s.left(now))
		}
	}
	wait := longest(now, stack, needed)
	if limited := !wait.possible || n(int64(o.MaxWait)).less(wait.ns); limited {
		changes := anyOutOfReach(now, stack)
		if o.Strict {
			for _, s := range stack {
				changes = s.punish(now, n(o.Cost)) || changes
			}
		}
		if changes {
			m.write(now, limits, stack)
		}
		wait = longest(now, stack, needed)
		reply := describe(now, stack, wait.rule)
		reply.Limited = 1
		if wait.possible {
			reply.RetryAfter = wait.ns.minus(n(int64(o.MaxWait)))
		}
		return reply
	}
	if taken.positive() {
		for _, s := range stack {
			s.charge(now, now.plus(wait.ns), taken)
		}
		m.write(now, limits, stack)
	}
	reply := describe(now, stack, fewest(now, stack))
	reply.Granted, reply.Wait = taken.Int64(), wait.ns
	return reply
}

// Peek is CL.PEEK.
func (m *Model) Peek(nowNs int64, limits []Limit, cost int64) Reply {
	now := n(nowNs)
	m.look(now)
	stack := m.stack(limits)
	wait := longest(now, stack, n(cost))
	if wait.possible && wait.ns.is(zero) {
		return describe(now, stack, fewest(now, stack))
	}
	reply := describe(now, stack, wait.rule)
	reply.Limited = 1
	if wait.possible {
		reply.RetryAfter = wait.ns
	}
	return reply
}

// Refund is CL.REFUND.
func (m *Model) Refund(nowNs int64, limits []Limit, cost int64) Reply {
	now := n(nowNs)
	m.look(now)
	stack := m.stack(limits)
	var back []number
	anything := false
	for _, s := range stack {
		b := s.refund(now, n(cost))
		back = append(back, b)
		anything = anything || b.positive()
	}
	if anything {
		m.write(now, limits, stack)
	}
	rule := fewest(now, stack)
	reply := describe(now, stack, rule)
	reply.Granted = -back[rule].Int64()
	return reply
}

// Throttle is CL.THROTTLE, on a key that it can read.
func (m *Model) Throttle(now, maxBurst, count int64, period time.Duration, quantity int64) Reply {
	return m.Take(now, []Limit{{Rate, count, period, maxBurst + 1}}, Options{Cost: quantity})
}

// waiting is how long a call has to wait, and for which limit.
type waiting struct {
	rule     int
	possible bool
	ns       number
}

// longest is the limit with the longest wait, the first of several. One that has no room for so many
// units has the longest there is.
func longest(now number, stack []state, units number) waiting {
	w := waiting{0, true, n(-1)}
	for i, s := range stack {
		if s.capacity().less(units) {
			return waiting{rule: i}
		}
		if ns := s.wait(now, units); w.ns.less(ns) {
			w = waiting{i, true, ns}
		}
	}
	return w
}

// fewest is the limit with the fewest units left, the first of several.
func fewest(now number, stack []state) (rule int) {
	for i, s := range stack {
		if s.left(now).less(stack[rule].left(now)) {
			rule = i
		}
	}
	return rule
}

// describe fills in what a reply says of the rule.
func describe(now number, stack []state, rule int) Reply {
	s := stack[rule]
	left, next := s.left(now), zero
	if left.less(s.capacity()) {
		next = s.wait(now, left.plus(n(1)))
	}
	return Reply{
		Rule: int64(rule + 1), Limit: s.capacity().Int64(), Remaining: left.Int64(),
		RetryAfter: none, ResetAfter: s.fullIn(now), NextAfter: next, Wait: zero,
	}
}

// String shows a limit as a command has it.
func (l Limit) String() string {
	s := fmt.Sprintf("%s %d/%s", l.Kind, l.Count, Duration(l.Period))
	if l.Burst > 0 {
		s += fmt.Sprint(" BURST ", l.Burst)
	}
	return s
}

// Duration shows a length of time as a command has it, in ms.
func Duration(d time.Duration) string { return fmt.Sprint(d.Milliseconds(), "ms") }

// Words are the limits as a command has them.
func Words(limits []Limit) []string {
	var words []string
	for _, l := range limits {
		words = append(words, strings.Fields(l.String())...)
	}
	return words
}

// Words are the options as a command has them.
func (o Options) Words() []string {
	words := []string{"COST", fmt.Sprint(o.Cost)}
	if o.UpTo {
		words = append(words, "UPTO")
	}
	if o.Strict {
		words = append(words, "STRICT")
	}
	if o.MaxWait > 0 {
		words = append(words, "MAXWAIT", Duration(o.MaxWait))
	}
	return words
}
