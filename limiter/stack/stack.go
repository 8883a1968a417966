package stack

import (
	"math"

	"redis-throttle/gcra"
	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/fixed"
)

// Never is the retry after of a request that was let through, or that no wait makes possible.
const Never = int64(-1)

// Stack is the limits of one key in one call, with their states. It is large (some 25 KB) and
// meant to be used again: Reset, Add, Decode, then one of Take, Peek and Refund. It must not be
// copied, because it points into itself.
type Stack struct {
	_ noCopy

	layers [MaxLimits]layer
	decision
	// row is where the decision points to the layers in use.
	row [MaxLimits]*layer
	// kept is what the value holds of limits that the call does not name, in its order.
	kept     []kept
	keptRoom [MaxLimits + 1]kept // one more for a count of denials
	// denials is the state of that.
	denials [fixed.MaxFirstLen]byte
	// plainTAT is the state of a kept rate whose value was the number alone.
	plainTAT [8]byte
	// spare checks the state of a limit that the stack does not have.
	spare layer
	// zeros is how many of the limits have no state.
	zeros int
	// addsNone says that limits that the value does not hold are not to be stored.
	addsNone bool
	// calendar remembers the windows of the calendars that were asked for lately.
	calendar calendar.Cache
}

// decision is the limits that are decided at one instant: those of a stack, or of several that are
// joined.
type decision struct {
	in []*layer
	// shadows is how many of the limits are shadows.
	shadows int
	// Each has a bit for each limit: what was corrected before Take, and what Take changed.
	corrected, changed uint64
}

// noCopy has go vet complain about copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Request is what is asked of all limits at once, unless the terms of one say otherwise.
type Request struct {
	Cost      int64 // units; 0 asks for nothing
	UpTo      bool  // take what fits of Cost; limited unless there is at least one unit
	Strict    bool  // take the cost of a denied request too, as far as it is available
	Force     bool  // take the cost even if it is not available; missing units are a debt
	MaxWaitNs int64 // let through a request that waits up to this long; rates only
}

// Result is the outcome of a request, and the state of the limit that decided it after the
// request. Units that have to stay behind (Terms.Spare) do not count.
type Result struct {
	Limited bool
	// Rule is the index of the deciding limit. Of a limited request it is the one
	// with the longest wait, Never being the longest; otherwise the one with the
	// fewest units left. Of several, the first. No shadow, unless all limits are.
	Rule         int
	Limit        int64 // the rule's capacity or count
	Remaining    int64 // units the rule has left
	RetryAfterNs int64 // until this same request succeeds if nobody else asks, or Never
	ResetAfterNs int64 // until the rule is full
	NextAfterNs  int64 // until the rule has a unit more, 0 when it is full
	Granted      int64 // units the rule was charged; negative, units given back
	WaitNs       int64 // how long the request has to be held
	// Shadow is the number, from 1, of the first shadow that would have limited the request
	// had it been enforced, or 0.
	Shadow int
	// Changed says that the stack's state has to be stored.
	Changed bool
}

// Reset empties the stack.
func (s *Stack) Reset() {
	s.removeLimits()
	s.kept, s.addsNone = s.kept[:0], false
}

func (s *Stack) removeLimits() {
	s.in = s.in[:0]
	s.shadows, s.corrected, s.zeros = 0, 0, 0
}

// Len is the number of limits.
func (d *decision) Len() int { return len(d.in) }

// FirstCapacity is the capacity or count of the first limit. There must be one.
func (s *Stack) FirstCapacity() int64 {
	capacity, _, _, _ := s.layers[0].Standing(0)
	return capacity
}

// Add appends a limit that was never used. It returns false if the stack is full.
func (s *Stack) Add(limit Limit) bool {
	if len(s.in) == MaxLimits {
		return false
	}
	s.add(&limit)
	return true
}

func (s *Stack) add(limit *Limit) {
	n := len(s.in)
	if n == cap(s.in) { // nothing was added before
		s.connect()
	}
	s.in = s.in[:n+1]
	s.in[n].set(limit, &s.calendar)
	if limit.Shadow {
		s.shadows++
	}
	if limit.kind >= stateless {
		s.zeros++
	}
}

func (s *Stack) connect() {
	for i := range s.layers {
		s.row[i] = &s.layers[i]
	}
	s.in = s.row[:0]
}

// RatesOnly reports whether all limits are rates.
func (s *Stack) RatesOnly() bool {
	for _, l := range s.in {
		if l.kind&^stateless != Rate {
			return false
		}
	}
	return true
}

// Take asks every limit for r.Cost units at nowNs, or for what its terms say. Either all are
// charged or none, except for shadows.
func (d *decision) Take(r Request, nowNs int64) (result Result) {
	d.TakeTo(&result, &r, nowNs)
	return result
}

// TakeTo is Take, but writes the result where the caller wants it: the processor stalls when a
// result that has just been written is copied.
func (d *decision) TakeTo(result *Result, r *Request, nowNs int64) {
	corrected := d.bringToNow(nowNs)
	cost, needed := r.Cost, r.Cost
	if r.UpTo {
		cost, needed = d.upTo(cost, nowNs)
	}
	rule, waitNs := d.wait(needed, nowNs)
	longestNs := d.longestWait(r.MaxWaitNs)
	*result = Result{}
	result.RetryAfterNs = Never
	if d.shadows > 0 {
		result.Shadow = d.firstShadow(r, nowNs)
	}
	switch {
	case waitNs >= 0 && waitNs <= longestNs:
		result.WaitNs = waitNs
		d.changed = d.charge(r, cost, waitNs, nowNs, corrected)
		result.Rule = d.tightest(result.Shadow, nowNs)
		result.Granted = d.in[result.Rule].granted(cost)
	case r.Force:
		d.changed = d.force(r.Cost, nowNs, result)
	default:
		result.Limited, result.Rule = true, rule
		d.changed = 0
		if (corrected != 0 || r.Strict) && d.asks(r.Cost) {
			result.Rule, waitNs = d.punish(r, needed, nowNs, corrected, rule, waitNs)
		}
		result.RetryAfterNs = retryAfter(waitNs, longestNs)
	}
	result.Changed = d.changed != 0
	d.describe(result, nowNs)
}

// punish stores what was corrected, and charges a STRICT request that is denied. It returns the limit with the longest
// wait afterwards.
func (d *decision) punish(r *Request, needed, nowNs int64, corrected uint64, rule int, waitNs int64) (int, int64) {
	d.changed = corrected
	if !r.Strict {
		return rule, waitNs
	}
	d.changed |= d.chargeDenied(r.Cost, nowNs)
	return d.wait(needed, nowNs)
}

// Deny is Take of a request that something other than the limits denies. RetryAfterNs is 0 if the limits would let it
// through.
func (d *decision) Deny(r Request, nowNs int64) (result Result) {
	corrected := d.bringToNow(nowNs)
	rule, waitNs := d.wait(r.Cost, nowNs)
	if d.shadows > 0 {
		result.Shadow = d.firstShadow(&r, nowNs)
	}
	d.changed = 0
	if (corrected != 0 || r.Strict) && d.asks(r.Cost) {
		rule, waitNs = d.punish(&r, r.Cost, nowNs, corrected, rule, waitNs)
	}
	result.Limited, result.Rule, result.RetryAfterNs = true, rule, waitNs
	result.Changed = d.changed != 0
	d.describe(&result, nowNs)
	return result
}

// upTo returns what an UPTO request takes, and what it needs to pass.
func (d *decision) upTo(cost, nowNs int64) (takes, needed int64) {
	takes = d.grantable(cost, nowNs)
	return takes, max(takes, 1) // also for a request of nothing
}

// retryAfter is how long to wait before a request is made again that needs waitNs and may wait for longestNs.
func retryAfter(waitNs, longestNs int64) int64 {
	if waitNs > longestNs {
		return waitNs - longestNs
	}
	return waitNs
}

// RetryAfter is how long to wait before a request is made again: 0 if it would be let through now,
// or Never. It changes nothing that has to be stored.
func (d *decision) RetryAfter(r *Request, nowNs int64) int64 {
	d.bringToNow(nowNs)
	return d.outlook(r, nowNs).retryAfter()
}

// Longer is the longer of two times, Never being the longest.
func Longer(aNs, bNs int64) int64 {
	if aNs == Never || bNs == Never {
		return Never
	}
	return max(aNs, bNs)
}

// Peek returns what Take would answer to a request of cost units, and charges nothing: the units
// that remain are those before the request.
func (s *Stack) Peek(cost, nowNs int64) Result {
	s.bringToNow(nowNs)
	rule, waitNs := s.wait(cost, nowNs)
	result := Result{Limited: waitNs != 0, Rule: rule, RetryAfterNs: waitNs}
	if s.shadows > 0 {
		result.Shadow = s.firstShadow(&Request{Cost: cost}, nowNs)
	}
	if !result.Limited {
		result.Rule, result.RetryAfterNs = s.tightest(result.Shadow, nowNs), Never
	}
	s.describe(&result, nowNs)
	return result
}

// Standing reports the current state and charges nothing. Granted is what a request of cost units
// was charged.
func (d *decision) Standing(cost, nowNs int64) Result {
	d.bringToNow(nowNs)
	d.changed = 0
	result := Result{Rule: d.tightest(0, nowNs), RetryAfterNs: Never}
	result.Granted = d.in[result.Rule].units(cost)
	d.describe(&result, nowNs)
	return result
}

// Adjust charges each limit what its terms take, into debt if it lacks the units, or gives that back if it is negative,
// up to the limit's capacity or count. Granted is what the rule was charged, negative if it was given back. As with
// Refund, a limit that the value did not hold is stored only if it is charged.
func (j *Joint) Adjust(nowNs int64) Result {
	result := j.adjust(nowNs)
	for i, s := range j.stacks[:j.n] {
		if j.Changed(i) {
			s.addCharged()
		}
	}
	return result
}

func (d *decision) adjust(nowNs int64) Result {
	d.bringToNow(nowNs)
	d.changed = 0
	for i, p := range d.in {
		p.charged = 0
		switch units := p.units(0); {
		case units > 0:
			p.charged = p.Force(nowNs, units)
		case units < 0:
			p.charged = -p.Refund(nowNs, -units)
		}
		if p.charged != 0 {
			d.changed |= bit(i)
		}
	}
	rule := d.tightest(0, nowNs)
	result := Result{Rule: rule, RetryAfterNs: Never, Granted: d.in[rule].charged, Changed: d.changed != 0}
	d.describe(&result, nowNs)
	return result
}

// Refund gives cost units back to every limit, or what its terms say, up to its capacity or count.
// Granted is what the rule took back, as a negative number. A limit that the value did not hold is full,
// so it is not stored: a refund never makes a value longer.
func (s *Stack) Refund(cost, nowNs int64) Result {
	s.bringToNow(nowNs)
	s.addsNone = true
	changed := false
	var refunded [MaxLimits]int64
	for i, l := range s.in {
		refunded[i] = l.Refund(nowNs, l.units(cost))
		changed = changed || refunded[i] > 0
	}
	rule := s.tightest(0, nowNs)
	result := Result{Rule: rule, RetryAfterNs: Never, Granted: -refunded[rule], Changed: changed}
	s.describe(&result, nowNs)
	return result
}

// ExpireAt is the instant from which all limits are full, or 0 if they are full at nowNs: such a state is the
// same as none. The limits that the value holds and the call does not name count, too; those that are full
// at nowNs, and those for which there is no room, are dropped first. See also KeepsCalendar.
func (s *Stack) ExpireAt(nowNs int64) uint64 {
	if len(s.kept) > 0 { // which is rare
		return max(s.keptUntil(nowNs), s.namedUntil())
	}
	return s.namedUntil()
}

// namedUntil is ExpireAt of the limits that the call names.
func (s *Stack) namedUntil() (latest uint64) {
	for _, l := range s.in {
		latest = max(latest, l.ExpireAt())
	}
	return latest
}

// bringToNow brings all states to nowNs. Those that are corrected, now or when they were looked at before, have to be
// stored even if the request is denied.
func (d *decision) bringToNow(nowNs int64) (corrected uint64) {
	corrected = d.corrected
	for i, l := range d.in {
		if l.BringTo(nowNs) {
			corrected |= bit(i)
		}
	}
	d.corrected = corrected
	return corrected
}

// bit returns the bit of a limit in a set of limits.
func bit(rule int) uint64 { return 1 << (rule & 63) }

// asks reports whether any unit is asked of any limit.
func (d *decision) asks(cost int64) bool {
	for _, l := range d.in {
		if l.units(cost) > 0 {
			return true
		}
	}
	return false
}

// grantable is how much of cost every limit has, but at least one unit of a cost
// that is not zero.
func (d *decision) grantable(cost, nowNs int64) int64 {
	least := cost
	for _, l := range d.in {
		if !l.isShadow() {
			least = min(least, l.left(nowNs))
		}
	}
	return max(least, min(cost, 1))
}

// wait is the longest time until a limit has cost units, or Never, and which limit's
// that is.
func (d *decision) wait(cost, nowNs int64) (rule int, ns int64) {
	for i, l := range d.in {
		var retryNs int64
		switch {
		case !l.hasTerms:
			retryNs = l.RetryAfter(nowNs, cost)
		case l.terms.Shadow:
			continue
		default:
			retryNs = l.wait(nowNs, l.units(cost))
		}
		if retryNs < 0 {
			return i, Never
		}
		if retryNs > ns {
			rule, ns = i, retryNs
		}
	}
	return rule, ns
}

// longestWait is maxWaitNs, or less where a limit cannot be charged for so late.
func (d *decision) longestWait(maxWaitNs int64) int64 {
	if maxWaitNs == 0 {
		return 0
	}
	for _, l := range d.in {
		if !l.isShadow() {
			maxWaitNs = min(maxWaitNs, l.LongestWait())
		}
	}
	return maxWaitNs
}

// charge takes the units of a request that is let through, as far as there are any. corrected are the
// limits that were corrected for it.
func (d *decision) charge(r *Request, cost, waitNs, nowNs int64, corrected uint64) (changed uint64) {
	for i, l := range d.in {
		units := cost
		if l.hasTerms {
			if l.terms.Shadow {
				if l.chargeShadow(r, cost, waitNs, nowNs, corrected&bit(i) != 0) {
					changed |= bit(i)
				}
				continue
			}
			units = l.units(cost)
		}
		if units > 0 {
			l.Charge(nowNs, units, waitNs)
			changed |= bit(i)
		}
	}
	return changed
}

// force takes the units of a request that is limited all the same.
func (d *decision) force(cost, nowNs int64, result *Result) (changed uint64) {
	for i, l := range d.in {
		l.charged = 0
		if units := l.units(cost); units > 0 {
			l.charged = l.Force(nowNs, units)
		}
		if l.charged > 0 {
			changed |= bit(i)
		}
	}
	result.Limited = true
	result.Rule, result.RetryAfterNs = d.wait(cost, nowNs)
	result.Granted = d.in[result.Rule].charged
	return changed
}

func (d *decision) chargeDenied(cost, nowNs int64) (changed uint64) {
	for i, l := range d.in {
		if l.ChargeDenied(nowNs, l.units(cost), l.spare()) > 0 {
			changed |= bit(i)
		}
	}
	return changed
}

// tightest is the limit with the fewest units left. Where all are shadows, it is the one that
// would have limited the request, whose number is shadow, if there is one.
func (d *decision) tightest(shadow int, nowNs int64) (rule int) {
	if len(d.in) == 1 {
		return 0
	}
	shadowsOnly := d.shadows == len(d.in)
	if shadowsOnly && shadow > 0 {
		return shadow - 1
	}
	least, found := int64(math.MaxInt64), false
	for i, l := range d.in {
		left := l.Available(nowNs)
		if l.hasTerms {
			if l.terms.Shadow && !shadowsOnly {
				continue
			}
			left = max(left-l.terms.Spare, 0)
		}
		if left < least || !found {
			rule, least, found = i, left, true
		}
	}
	return rule
}

func (d *decision) describe(r *Result, nowNs int64) {
	l := d.in[r.Rule]
	if l.hasTerms {
		r.Limit, r.Remaining, r.ResetAfterNs, r.NextAfterNs = l.standing(nowNs)
	} else {
		r.Limit, r.Remaining, r.ResetAfterNs, r.NextAfterNs = l.Standing(nowNs)
	}
}

// Limits appends the stack's limits to dst.
func (s *Stack) Limits(dst []Limit) []Limit {
	for _, l := range s.in {
		dst = append(dst, l.limit())
	}
	return dst
}

// Load replaces the limits of the stack. All of them are full. There must be at most MaxLimits.
func (s *Stack) Load(limits []Limit) {
	s.Reset()
	for i := range limits {
		s.add(&limits[i])
	}
}

// Reload is Load for limits of the same kinds and ids. What is kept of others stays.
func (s *Stack) Reload(limits []Limit) {
	s.removeLimits()
	for i := range limits {
		s.add(&limits[i])
	}
}

// Rates appends the state of every rate at nowNs to dst. If a stack has only rates, SetRates
// restores it.
func (s *Stack) Rates(dst []gcra.State, nowNs int64) []gcra.State {
	for _, l := range s.in {
		rate := l.rate
		rate.BringTo(nowNs)
		dst = append(dst, rate.State)
	}
	return dst
}

// SetRates restores the states of a stack that has only rates, as if they had been written at
// nowNs.
func (s *Stack) SetRates(rates []gcra.State, nowNs int64) {
	for i, rate := range rates {
		s.layers[i].rate.Restore(rate, nowNs)
	}
}

// FullWith reports whether each rate is full at the same instant as in rates, seen from nowNs: what is
// over by then is full in both.
func (s *Stack) FullWith(rates []gcra.State, nowNs int64) bool {
	for i, l := range s.in {
		if l.rate.FullIn(nowNs) != rates[i].FullIn(nowNs) {
			return false
		}
	}
	return true
}
