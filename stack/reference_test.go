// A stack that keeps every event and works each answer out anew from them. It is told
// limits in the words of a command and shares no code with what it is compared to.
package stack_test

import (
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/calendar"
	"redis-throttle/internal/civil"
	"redis-throttle/stack"
)

// spec is a limit in the words of a command. The capacity is that of a rate. Of a calendar's
// windows, periodNs is a length that none exceeds.
type spec struct {
	kind                      stack.Kind
	count, periodNs, capacity int64
	terms                     stack.Terms
	calendar                  *civil.Windows
}

// plain is the limit without what a call says of it.
func (s spec) plain() spec {
	s.terms = stack.Terms{}
	return s
}

// asked is what a request of this cost asks of the limit.
func (s spec) asked(cost int64) int64 {
	if s.terms.HasTake {
		return s.terms.Take
	}
	return cost
}

func (s spec) limit(t require.TestingT) stack.Limit {
	var limit stack.Limit
	var err error
	switch s.kind {
	case stack.Rate:
		limit, err = stack.NewRate(s.count, s.periodNs, time.Nanosecond, s.capacity)
	case stack.Window:
		limit, err = stack.NewWindow(s.count, s.periodNs, time.Nanosecond)
	case stack.First:
		limit, err = stack.NewFirst(s.count, s.periodNs, time.Nanosecond)
	default:
		limit, err = stack.NewFixedIn(s.windows(t), s.count)
	}
	if err != nil {
		require.NoError(t, err, "%+v", s)
	}
	return limit.With(s.terms)
}

// windows are those of a FIXED without FIRST.
func (s spec) windows(t require.TestingT) calendar.Spec {
	if s.calendar != nil {
		return windowsOf(t, s.calendar)
	}
	windows, err := calendar.Every(s.periodNs, time.Nanosecond, 0)
	require.NoError(t, err)
	return windows
}

func windowsOf(t require.TestingT, c *civil.Windows) calendar.Spec {
	zone, err := calendar.LookupZone([]byte(c.Zone))
	require.NoError(t, err)
	unit := map[string]calendar.Unit{"d": calendar.Day, "w": calendar.Week, "mo": calendar.Month, "y": calendar.Year}[c.Unit]
	windows, err := calendar.Calendar(c.N, unit, zone, int64(c.Offset))
	require.NoError(t, err)
	return windows
}

// number is that of the fixed window that an instant lies in.
func (s spec) number(at int64) int64 {
	if s.calendar != nil {
		return s.calendar.At(at).Number
	}
	return at / s.periodNs
}

// untilNext is the time until the next fixed window.
func (s spec) untilNext(nowNs int64) int64 {
	if s.calendar != nil {
		return s.calendar.At(nowNs).End - nowNs
	}
	return (nowNs/s.periodNs+1)*s.periodNs - nowNs
}

// holds is the number of units there are when nothing is taken.
func (s spec) holds() int64 {
	if s.kind == stack.Rate {
		return s.capacity
	}
	return s.count
}

// unitNs is the time in which a rate puts one unit back.
func (s spec) unitNs() int64 {
	ns := s.periodNs / s.count
	for ns*s.count < s.periodNs {
		ns++
	}
	return ns
}

// event is units taken at an instant. Of a rate they are counted in ns of putting back,
// since a request that is turned away may take a part of one.
type event struct{ at, units int64 }

// naive is a limit and every event since it was untouched.
type naive struct {
	spec
	events []event
	// Of a rate: before the events it held startsWith ns at startsAt, which may be less
	// than nothing: promised for later. It is no error to have promised as much as when
	// something was last written.
	startsAt, startsWith, promised int64
	// Of a rate: what was charged, the oldest first. Each begins with the time in which the
	// rate is full and waits for a request that another limit makes wait.
	charges []charge
	// noPeriod says that it was a lone rate, whose value is a number.
	noPeriod bool
	// corrected says that it was out of reach when it was opened.
	corrected bool
}

type charge struct{ idle, spent int64 }

func untouched(s spec) *naive { return &naive{spec: s, startsWith: s.capacity * rateUnit(s)} }

func rateUnit(s spec) int64 {
	if s.kind == stack.Rate {
		return s.unitNs()
	}
	return 0
}

func (n *naive) copy() *naive {
	c := *n
	c.events, c.charges = slices.Clone(n.events), slices.Clone(n.charges)
	return &c
}

// credit is what a rate holds at nowNs, in ns of putting back.
func (n *naive) credit(nowNs int64) int64 {
	full := n.capacity * n.unitNs()
	at, credit := n.startsAt, n.startsWith
	for _, e := range n.events {
		credit = min(full, credit+e.at-at) - e.units
		at = e.at
	}
	return min(full, credit+nowNs-at)
}

func (n *naive) setCredit(nowNs, credit int64) {
	n.startsAt, n.startsWith, n.promised, n.events = nowNs, credit, max(-credit, 0), nil
	if credit == n.capacity*n.unitNs() {
		n.startsAt, n.charges = 0, nil // untouched, whatever the clock says next
	}
}

// forget drops charges up to the last whose idle time has gone by.
func (n *naive) forget(nowNs int64) {
	ahead := n.capacity*n.unitNs() - n.credit(nowNs)
	for i := len(n.charges) - 1; i >= 0; i-- {
		if ahead -= n.charges[i].spent; ahead <= 0 {
			n.charges = n.charges[i+1:]
			return
		}
		ahead -= n.charges[i].idle
	}
}

// spend takes ns from a rate at the instant at, or after what it took last.
func (n *naive) spend(nowNs, at, ns int64) {
	n.forget(nowNs)
	idle := max(at-nowNs-(n.capacity*n.unitNs()-n.credit(nowNs)), 0)
	switch last := len(n.charges) - 1; {
	case idle > 0:
		n.charges = append(n.charges, charge{idle, ns})
	case last >= 0:
		n.charges[last].spent += ns
	}
	if len(n.charges) > 4 { // all that is remembered
		n.charges[1].idle += n.charges[0].idle
		n.charges[1].spent += n.charges[0].spent
		n.charges = n.charges[1:]
	}
	at = max(at, n.startsAt)
	if len(n.events) > 0 {
		at = max(at, n.events[len(n.events)-1].at)
	}
	n.events = append(n.events, event{at, ns})
	n.promised = max(-n.credit(nowNs), 0)
}

func (n *naive) taken() (units int64) {
	for _, e := range n.events {
		units += e.units
	}
	return units
}

// available is the number of whole units there are. Events must be settled.
func (n *naive) available(nowNs int64) int64 {
	if n.kind == stack.Rate {
		return max(n.credit(nowNs), 0) / n.unitNs()
	}
	return max(n.count-n.taken(), 0)
}

// have is the number of units that this caller can have: the last ones are for others.
func (n *naive) have(nowNs int64) int64 { return max(n.available(nowNs)-n.terms.Spare, 0) }

const forever = int64(math.MaxInt64)

// waitBeside is the time in ns until there are units and as many as have to stay behind.
func (n *naive) waitBeside(nowNs, units int64) int64 {
	switch {
	case units == 0:
		return 0
	case units > n.holds() || n.terms.Spare > n.holds()-units:
		return forever
	}
	return n.wait(nowNs, units+n.terms.Spare)
}

// wait is the time in ns until there are units, or forever.
func (n *naive) wait(nowNs, units int64) int64 {
	switch {
	case units > n.holds():
		return forever
	case units == 0:
		return 0
	case n.kind == stack.Rate:
		return max(units*n.unitNs()-n.credit(nowNs), 0)
	case n.kind == stack.Fixed:
		if units <= n.available(nowNs) {
			return 0
		}
		return n.untilNext(nowNs)
	case n.kind == stack.First:
		if units <= n.available(nowNs) {
			return 0
		}
		return n.events[0].at + n.periodNs - nowNs
	default:
		rest := n.taken()
		wait := int64(0)
		for _, e := range n.events {
			if rest+units <= n.count {
				break
			}
			rest -= e.units
			wait = e.at + n.periodNs - nowNs
		}
		return wait
	}
}

// untilFull and fullAt follow from when there are so many units.
func (n *naive) untilFull(nowNs int64) int64 { return n.wait(nowNs, n.holds()) }

func (n *naive) fullAt(nowNs int64) int64 {
	if wait := n.untilFull(nowNs); wait > 0 {
		return nowNs + wait
	}
	return 0
}

// settle forgets what is over and reads what lies too far ahead as the documentation of
// each kind says.
func (n *naive) settle(nowNs int64) (corrected bool) {
	switch n.kind {
	case stack.Rate:
		credit := n.credit(nowNs)
		if corrected = credit < -n.promised; corrected {
			n.charges = nil
			n.setCredit(nowNs, -n.promised)
		} else if credit == n.capacity*n.unitNs() {
			n.setCredit(nowNs, credit)
		}
	case stack.Fixed:
		current := n.number(nowNs)
		n.events = slices.DeleteFunc(n.events, func(e event) bool { return n.number(e.at) < current })
		for i, e := range n.events {
			if n.number(e.at) > current {
				n.events[i].at, corrected = nowNs, true
			}
		}
	case stack.First:
		switch {
		case len(n.events) == 0:
		case n.events[0].at > nowNs:
			n.events[0].at, corrected = nowNs, true
		case nowNs-n.events[0].at >= n.periodNs:
			n.events = nil
		}
	case stack.Window:
		n.events = slices.DeleteFunc(n.events, func(e event) bool { return e.at+n.periodNs <= nowNs })
		slot := n.periodNs/64 + 1
		for i, e := range n.events {
			if e.at/slot > nowNs/slot {
				n.events[i].at, corrected = n.joins(nowNs, i), true
			}
		}
	}
	return corrected
}

// joins is the instant from which a sliding window counts units taken at nowNs, after its
// first i events.
func (n *naive) joins(nowNs int64, i int) int64 {
	if i > 0 {
		return max(nowNs, n.events[i-1].at)
	}
	return nowNs
}

// instants is the number of different ones in a sliding window.
func (n *naive) instants() int {
	return len(slices.CompactFunc(slices.Clone(n.events), func(a, b event) bool { return a.at == b.at }))
}

func (n *naive) take(nowNs, units, waitNs int64) {
	switch {
	case units == 0:
	case n.kind == stack.Rate:
		n.spend(nowNs, nowNs+waitNs, units*n.unitNs())
	default:
		n.events = append(n.events, event{n.joins(nowNs, len(n.events)), units})
	}
}

// takeDenied takes units of a request that was turned away, and returns how many; a part of one counts as one.
func (n *naive) takeDenied(nowNs, units int64) (took int64) {
	switch n.kind {
	case stack.Rate:
		if n.terms.Spare >= n.capacity {
			return 0
		}
		ns := max(n.credit(nowNs)-n.terms.Spare*n.unitNs(), 0)
		if units <= n.capacity {
			ns = min(ns, units*n.unitNs())
		}
		if ns == 0 {
			return 0
		}
		n.spend(nowNs, nowNs, ns)
		return (ns + n.unitNs() - 1) / n.unitNs()
	case stack.Fixed, stack.First:
		units = min(units, n.have(nowNs))
	default:
		// All of it, and the oldest make room.
		room := max(n.count-n.terms.Spare, 0)
		units = min(units, room)
		for excess := min(n.taken()+units-room, units); excess > 0; {
			excess -= n.giveBack(0, excess)
		}
	}
	n.take(nowNs, units, 0)
	return units
}

// giveBack takes as many of units as there are out of event i, and returns how many.
func (n *naive) giveBack(i int, units int64) int64 {
	units = min(units, n.events[i].units)
	if n.events[i].units -= units; n.events[i].units == 0 {
		n.events = slices.Delete(n.events, i, i+1)
	}
	return units
}

func (n *naive) refund(nowNs, units int64) int64 {
	if n.kind == stack.Rate {
		return n.refundRate(nowNs, units)
	}
	units = min(units, n.taken())
	for left := units; left > 0; {
		left -= n.giveBack(len(n.events)-1, left)
	}
	return units
}

// refundRate gives back what was charged last first, and with the last of a charge the time
// that it was waited for.
func (n *naive) refundRate(nowNs, units int64) int64 {
	n.forget(nowNs)
	credit, full := n.credit(nowNs), n.capacity*n.unitNs()
	left := int64(math.MaxInt64)
	if units < left/n.unitNs() {
		left = units * n.unitNs()
	}
	given := int64(0)
	give := func(most int64) {
		ns := min(left, most, full-credit)
		left, given, credit = left-ns, given+ns, credit+ns
	}
	for i := len(n.charges) - 1; i >= 0 && left >= n.charges[i].spent; i-- {
		give(n.charges[i].spent)
		credit = min(credit+n.charges[i].idle, full)
		n.charges = n.charges[:i]
	}
	if last := len(n.charges) - 1; last >= 0 {
		n.charges[last].spent -= left
	}
	give(left)
	n.setCredit(nowNs, credit)
	return (given + n.unitNs() - 1) / n.unitNs()
}

// reference is what is kept of a key.
type reference struct {
	kept  []*naive
	named int // how many of these the latest call that wrote named; they come first
}

// open finds for each limit what is kept of it, and settles it.
func (r *reference) open(specs []spec, nowNs int64) (limits []*naive, corrected bool) {
	for i, at := range r.claims(specs) {
		s := specs[i]
		n := untouched(s)
		if at >= 0 {
			k := r.kept[at]
			n = k.copy()
			if k.kind == stack.Rate && k.spec.plain() != s.plain() {
				n = &naive{startsAt: k.writtenFullAt(), promised: k.promised, charges: slices.Clone(k.charges)}
				n.startsWith = s.capacity * s.unitNs()
			}
			n.spec, n.noPeriod = s, false
		}
		n.corrected = n.settle(nowNs)
		corrected = n.corrected || corrected
		limits = append(limits, n)
	}
	return limits, corrected
}

// claims is, for each limit, which of what is kept it goes on from, -1 for none. A lone rate is the first,
// whatever its period; so is one that was a number.
func (r *reference) claims(specs []spec) (claims []int) {
	lone := len(r.kept) == 1 && r.kept[0].kind == stack.Rate
	claim := func(s spec, fits func(k *naive) bool) int {
		return slices.IndexFunc(r.kept, func(k *naive) bool {
			return k.kind == s.kind && fits(k) && !slices.Contains(claims, slices.Index(r.kept, k))
		})
	}
	for _, s := range specs {
		claims = append(claims, claim(s, func(k *naive) bool { return lone || !k.noPeriod && k.isOf(s) }))
	}
	for i, s := range specs {
		if claims[i] < 0 {
			claims[i] = claim(s, func(k *naive) bool { return k.noPeriod })
		}
	}
	return claims
}

func (s spec) isOf(other spec) bool {
	return s.kind == other.kind && s.periodNs == other.periodNs && s.calendar == other.calendar
}

// store keeps the limits that a call named, and of the others those that are not full: eight in all. A refund
// adds none.
func (r *reference) store(specs []spec, named []*naive, nowNs int64, refund bool) {
	claims := r.claims(specs)
	var limits, rest, full []*naive
	for i, n := range named {
		if !refund || claims[i] >= 0 {
			limits = append(limits, n)
		}
	}
	for i, k := range r.kept {
		if slices.Contains(claims, i) {
			continue
		}
		like := func(other *naive) bool { return other.isOf(k.spec) && other.noPeriod == k.noPeriod }
		behind := slices.IndexFunc(r.kept[i+1:], func(other *naive) bool {
			return like(other) && !slices.Contains(claims, slices.Index(r.kept, other)) && (other.calendar != nil || other.writtenFullAt() > nowNs)
		})
		switch {
		case k.writtenFullAt() > nowNs || k.calendar != nil && len(k.events) > 0:
			rest = append(rest, k)
		case behind >= 0:
			rest = append(rest, untouched(k.spec))
		case k.kind == stack.Rate:
			full = append(full, untouched(k.spec))
		}
	}
	if len(limits) == 1 && limits[0].kind == stack.Rate && len(rest) == 0 && len(full) > 0 {
		rest = full[:1]
	}
	for len(limits)+len(rest) > stack.MaxLimits {
		goes := -1
		for i, k := range rest {
			if slices.ContainsFunc(rest[i+1:], func(other *naive) bool { return other.isOf(k.spec) }) {
				continue
			}
			if goes < 0 || slices.Compare(k.rank(), rest[goes].rank()) <= 0 {
				goes = i
			}
		}
		rest = slices.Delete(rest, goes, goes+1)
	}
	r.kept, r.named = append(limits, rest...), len(limits)
	if len(r.kept) == 1 && r.kept[0].kind == stack.Rate { // a number, also after a wait for another key
		r.kept[0].charges, r.kept[0].noPeriod = nil, r.kept[0].promised == 0
	}
	if r.fullAt(nowNs) == 0 && !slices.ContainsFunc(rest, (*naive).endIsUnknown) {
		r.kept = nil
	}
}

// rank is the lower, the sooner a limit is forgotten.
func (n *naive) rank() []int64 {
	if n.endIsUnknown() {
		return []int64{1, -n.number(n.events[0].at)}
	}
	return []int64{0, n.writtenFullAt()}
}

// endIsUnknown says whether a limit's value does not tell when it is full.
func (n *naive) endIsUnknown() bool { return n.calendar != nil && len(n.events) > 0 }

// writtenFullAt is the instant from which it is full, whatever clock wrote it; 0 if it is untouched, or
// if the end is unknown.
func (n *naive) writtenFullAt() int64 {
	last := len(n.events) - 1
	switch {
	case n.kind == stack.Rate && last >= 0:
		at := n.events[last].at
		return at + n.capacity*n.unitNs() - n.credit(at)
	case n.kind == stack.Rate:
		return n.startsAt + n.capacity*n.unitNs() - n.startsWith
	case last < 0 || n.calendar != nil:
		return 0
	case n.kind == stack.Window:
		return n.events[last].at + n.periodNs
	case n.kind == stack.First:
		return n.events[0].at + n.periodNs
	}
	return n.events[last].at + n.untilNext(n.events[last].at)
}

func (r *reference) fullAt(nowNs int64) (latest int64) {
	for i, n := range r.kept {
		if i < r.named {
			latest = max(latest, n.fullAt(nowNs))
		} else {
			latest = max(latest, n.writtenFullAt())
		}
	}
	return latest
}

// enforced are the limits that decide.
func enforced(limits []*naive) (rules []int) {
	for i, n := range limits {
		if !n.terms.Shadow {
			rules = append(rules, i)
		}
	}
	return rules
}

// longest is the longest wait for units, forever being the longest, and whose it is.
func longest(limits []*naive, nowNs, cost int64) (rule int, wait int64) {
	for _, i := range enforced(limits) {
		if w := limits[i].waitBeside(nowNs, limits[i].asked(cost)); w > wait {
			rule, wait = i, w
		}
	}
	return rule, wait
}

// fewest is the limit with the fewest units for this caller. Where all are shadows it is the one
// that would have limited the call, if there is one: its number is shadow.
func fewest(limits []*naive, nowNs int64, shadow int) (rule int) {
	among := enforced(limits)
	if len(among) == 0 {
		if shadow > 0 {
			return shadow - 1
		}
		for i := range limits {
			among = append(among, i)
		}
	}
	rule = among[0]
	for _, i := range among {
		if limits[i].have(nowNs) < limits[rule].have(nowNs) {
			rule = i
		}
	}
	return rule
}

func describe(r stack.Result, limits []*naive, nowNs int64) stack.Result {
	n := limits[r.Rule]
	r.Limit, r.Remaining = n.holds(), n.have(nowNs)
	if n.terms.Spare < n.holds() && n.untilFull(nowNs) > 0 {
		r.ResetAfterNs, r.NextAfterNs = n.untilFull(nowNs), n.wait(nowNs, n.have(nowNs)+n.terms.Spare+1)
	}
	if r.RetryAfterNs == forever {
		r.RetryAfterNs = stack.Never
	}
	return r
}

// shadowOf is the number of the first shadow that would have turned the request away, or 0.
func shadowOf(limits []*naive, request stack.Request, nowNs int64) int {
	for i, n := range limits {
		if n.terms.Shadow && n.shadowWait(request, nowNs) > request.MaxWaitNs {
			return i + 1
		}
	}
	return 0
}

func (n *naive) shadowWait(request stack.Request, nowNs int64) int64 {
	if request.UpTo {
		return n.waitBeside(nowNs, 1)
	}
	return n.waitBeside(nowNs, n.asked(request.Cost))
}

// takeShadow does to a shadow what would be done to it if it were enforced alone, and returns the
// units that were charged.
func (n *naive) takeShadow(request stack.Request, units, wait, nowNs int64) (charged int64, changed bool) {
	own := n.shadowWait(request, nowNs)
	switch {
	case units == 0:
	case own <= request.MaxWaitNs:
		if request.UpTo {
			units = min(units, n.have(nowNs))
		}
		n.take(nowNs, units, max(wait, own))
		return units, true
	case request.Force:
		n.take(nowNs, units, 0)
		return units, true
	case request.Strict:
		charged = n.takeDenied(nowNs, units)
	}
	// As of any request that is turned away, a correction is kept.
	return charged, charged > 0 || units > 0 && n.corrected
}

func (r *reference) take(specs []spec, request stack.Request, nowNs int64) stack.Result {
	result, _ := takeAll([]*reference{r}, [][]spec{specs}, request, nowNs)
	return result
}

// takeAll asks the limits of several keys, and tells which keys it changed.
func takeAll(keys []*reference, specs [][]spec, request stack.Request, nowNs int64) (result stack.Result, changed []bool) {
	var limits []*naive
	var of []int // the key of each limit
	corrected := make([]bool, len(keys))
	for k, r := range keys {
		opened, touched := r.open(specs[k], nowNs)
		corrected[k] = touched
		for _, n := range opened {
			limits, of = append(limits, n), append(of, k)
		}
	}
	cost, asked := request.Cost, request.Cost
	if request.UpTo {
		asked = cost
		for _, i := range enforced(limits) {
			asked = min(asked, limits[i].have(nowNs))
		}
		asked = max(asked, 1)
		cost = min(cost, asked)
	}
	asksAny := slices.ContainsFunc(limits, func(n *naive) bool { return n.asked(request.Cost) > 0 })
	rule, wait := longest(limits, nowNs, asked)
	shadow := shadowOf(limits, request, nowNs)
	charged, changed := make([]int64, len(limits)), make([]bool, len(keys))
	result = stack.Result{Limited: true, Shadow: shadow}
	switch {
	case wait <= request.MaxWaitNs:
		for i, n := range limits {
			if n.terms.Shadow {
				units, touched := n.takeShadow(request, n.asked(cost), wait, nowNs)
				charged[i], changed[of[i]] = units, changed[of[i]] || touched
				continue
			}
			charged[i] = n.asked(cost)
			changed[of[i]] = changed[of[i]] || charged[i] > 0
			n.take(nowNs, charged[i], wait)
		}
		rule = fewest(limits, nowNs, shadow)
		result.Limited, result.WaitNs = false, wait
		wait = stack.Never
	case request.Force:
		for i, n := range limits {
			charged[i] = n.asked(cost)
			changed[of[i]] = changed[of[i]] || charged[i] > 0
			n.take(nowNs, charged[i], 0)
		}
		rule, wait = longest(limits, nowNs, asked)
	default:
		if asksAny {
			copy(changed, corrected)
		}
		if request.Strict && asksAny {
			for i, n := range limits {
				changed[of[i]] = n.takeDenied(nowNs, n.asked(request.Cost)) > 0 || changed[of[i]]
			}
			rule, wait = longest(limits, nowNs, asked)
		}
		if wait != forever {
			wait -= request.MaxWaitNs
		}
	}
	for k, r := range keys {
		if !changed[k] {
			continue
		}
		var own []*naive
		for i, n := range limits {
			if of[i] == k {
				own = append(own, n)
			}
		}
		r.store(specs[k], own, nowNs, false)
	}
	result.Rule, result.RetryAfterNs, result.Granted = rule, wait, charged[rule]
	result.Changed = slices.Contains(changed, true)
	return describe(result, limits, nowNs), changed
}

func (r *reference) peek(specs []spec, cost, nowNs int64) stack.Result {
	limits, _ := r.open(specs, nowNs)
	shadow := shadowOf(limits, stack.Request{Cost: cost}, nowNs)
	if rule, wait := longest(limits, nowNs, cost); wait > 0 {
		return describe(stack.Result{Limited: true, Rule: rule, RetryAfterNs: wait, Shadow: shadow}, limits, nowNs)
	}
	return describe(stack.Result{Rule: fewest(limits, nowNs, shadow), RetryAfterNs: stack.Never, Shadow: shadow}, limits, nowNs)
}

func (r *reference) refund(specs []spec, cost, nowNs int64) stack.Result {
	limits, _ := r.open(specs, nowNs)
	changed := false
	refunded := make([]int64, len(limits))
	for i, n := range limits {
		refunded[i] = n.refund(nowNs, n.asked(cost))
		changed = changed || refunded[i] > 0
	}
	if changed {
		r.store(specs, limits, nowNs, true)
	}
	rule := fewest(limits, nowNs, 0)
	return describe(stack.Result{Rule: rule, RetryAfterNs: stack.Never, Granted: -refunded[rule], Changed: changed}, limits, nowNs)
}
