package arithmetic

import (
	"math"
	"slices"

	"redis-throttle/proof/smt"
)

// Lemma is a claim about all values of its variables for which what is given holds.
type Lemma struct {
	Name   string
	Says   string
	Theory smt.Theory
	Given  []*Term
	Claim  *Term
	// Hints are pairs whose product is not negative where both are not: what a solver that knows sums
	// needs to be told of products.
	Hints [][2]*Term
	// The twin is the same off by one. A solver that does not refute it would prove anything.
	TwinGiven []*Term // in place of Given, if it is not nil
	Twin      *Term
}

// TwinProblem is the same of the twin. Values that refute it are asked for, so it is about products as they are.
func (l Lemma) TwinProblem() (problem string, given []*Term) {
	theory := l.Theory
	if theory == smt.Monomials {
		theory = smt.Integers
	}
	given = l.TwinGiven
	if given == nil {
		given = l.Given
	}
	return smt.Problem(theory, "off by one: must be refuted", given, l.Twin), given
}

// PossibleProblem asks for values that are as given.
func (l Lemma) PossibleProblem() string {
	theory := l.Theory
	if theory == smt.Monomials {
		theory = smt.Integers
	}
	return smt.Problem(theory, "must be possible", l.Given, smt.False)
}

// Problem is what the solver is to refute: that something is as given, and is not as claimed, or is computed out of the
// numbers of its sort. So what is shown of exact numbers holds of Go's.
func (l Lemma) Problem() string { return smt.Problem(l.Theory, l.Says, l.hinted(l.Given), l.whole()) }

func (l Lemma) hinted(given []*Term) []*Term {
	all := append([]*Term{}, given...)
	for _, pair := range l.Hints {
		all = append(all, implies(and(pair[0].AtLeast(w(0)), pair[1].AtLeast(w(0))), pair[0].Times(pair[1]).AtLeast(w(0))))
	}
	return all
}

func (l Lemma) whole() *Term {
	if l.Theory == smt.Bits {
		return l.Claim
	}
	return and(smt.Defined(append([]*Term{l.Claim}, l.Given...)...), l.Claim)
}

// Lemmas are all there are: those of New, of Take, of what the decisions of a whole history add up to, of the
// state with reservations and debts, and of the replies.
func Lemmas() []Lemma {
	var all []Lemma
	for _, group := range [][]Lemma{ofNew(), ofTake(), ofHistories(), ofStates(), ofReplies()} {
		all = append(all, group...)
	}
	return all
}

func ofNew() []Lemma {
	capacity, count := variable("capacity"), variable("count")
	product := wholeVariable("product") // n x unit
	largest := w(math.MaxInt64)
	given := []*Term{one.AtMost(capacity), one.AtMost(count), w(1).AtMost(product), product.AtMost(largest.Times(largest))}
	made := NewOf(capacity, count, product)
	made2 := newOf(capacity, count, product, func(hi, count *Term) *Term { return hi.Greater(count) })
	refused := or(made.TooFast, made.TooSlow)

	// The increment of the emission interval beside exact numbers.
	c, p, e, k := exact(count), product, wholeVariable("interval"), wholeVariable("units")
	// What rounding adds to a product, and a time to that of the units: so nothing is left to find out about products.
	added, spent := wholeVariable("added"), wholeVariable("spent")
	rounded := e.Times(c).Minus(added) // the product
	t := k.Times(e).Plus(spent)
	ceiling := []*Term{w(1).AtMost(c), w(1).AtMost(e), w(0).AtMost(k), w(0).AtMost(spent), w(0).AtMost(added), added.Less(c), w(1).AtMost(rounded)}
	fits := not(or(made.TooFast, made.alone, made.beyond))
	more := wholeVariable("more")
	return []Lemma{
		{
			Name: "new-exact", Theory: smt.Integers,
			Says:  "New computes nothing that does not fit its 64 bits, and divides only where the quotient does",
			Given: given, Claim: smt.Defined(made.TooFast, made.TooSlow, made.Emission, made.Tolerance),
			Twin: smt.Defined(made2.TooFast, made2.TooSlow, made2.Emission, made2.Tolerance),
		},
		{
			Name: "new-ceiling", Theory: smt.Integers,
			Says:  "the emission interval is period / count rounded up: the least whole number of ns in which no unit comes too early",
			Given: append([]*Term{not(refused)}, given...),
			Claim: and(exact(made.Emission).Minus(w(1)).Times(c).Less(p), p.AtMost(exact(made.Emission).Times(c))),
			Twin:  p.AtMost(exact(made.Emission).Minus(w(1)).Times(c)),
		},
		{
			Name: "new-too-fast", Theory: smt.Integers,
			Says:  "ErrRate is said of more than one unit per ns, and of nothing else",
			Given: given, Claim: iff(made.TooFast, p.Less(c)), Twin: iff(made.TooFast, p.AtMost(c)),
		},
		{
			Name: "new-rounds-up", Theory: smt.Integers,
			Says:  "before it is checked whether it fits, the emission interval is period / count rounded up, too",
			Given: append([]*Term{fits}, given...),
			Claim: and(made.rounded.Minus(w(1)).Times(c).Less(p), p.AtMost(made.rounded.Times(c))),
			Twin:  p.Less(made.rounded.Times(c)),
		},
		{
			Name: "new-ceiling-is-one", Theory: smt.Monomials,
			Says:      "there is only one number that is a quotient rounded up: none that is greater by more",
			Hints:     [][2]*Term{{more.Minus(w(1)), c}},
			Given:     []*Term{w(1).AtMost(c), w(1).AtMost(e), w(1).AtMost(more), p.AtMost(e.Times(c))},
			Claim:     not(e.Times(c).Plus(more.Minus(w(1)).Times(c)).Less(p)),
			TwinGiven: []*Term{c.Is(w(3)), e.Is(w(2)), w(0).AtMost(more), p.AtMost(e.Times(c))},
			Twin:      not(e.Times(c).Plus(more.Minus(w(1)).Times(c)).Less(p)),
		},
		{
			Name: "new-beyond-is-too-slow", Theory: smt.Monomials,
			Says:      "where the quotient does not fit 63 bits, rounded up it does not either",
			Given:     []*Term{w(1).AtMost(c), largest.Less(e), w(1).AtMost(more), e.Times(c).AtMost(p)},
			Claim:     not(p.AtMost(e.Minus(more).Times(c))),
			Hints:     [][2]*Term{{more.Minus(w(1)), c}},
			TwinGiven: []*Term{w(1).AtMost(c), largest.Less(e), w(0).AtMost(more), e.Times(c).AtMost(p)},
			Twin:      not(p.AtMost(e.Minus(more).Times(c))),
		},
		{
			Name: "new-one-unit-is-too-slow", Theory: smt.Monomials,
			Hints:     [][2]*Term{{more.Minus(w(1)), c}},
			Says:      "where the quotient is not divided for, it has more than 64 bits: none that is smaller by more will do",
			Given:     append([]*Term{made.alone, w(1).AtMost(more)}, given...),
			Claim:     not(p.AtMost(two64.Times(c).Minus(more.Times(c)))),
			TwinGiven: append([]*Term{made.alone, w(0).AtMost(more)}, given...),
			Twin:      not(p.AtMost(two64.Times(c).Minus(more.Times(c)))),
		},
		{
			Name: "new-too-slow", Theory: smt.Monomials,
			Says:  "ErrTolerance is said where capacity x emission interval is 2^63 or more, and of nothing else; otherwise the burst tolerance is that product",
			Given: append([]*Term{fits, w(1).AtMost(made.rounded)}, given...),
			Claim: when(made.TooSlow, exact(capacity).Times(made.rounded).Greater(largest),
				and(exact(made.Emission).Is(made.rounded), exact(made.Tolerance).Is(exact(capacity).Times(made.rounded)),
					exact(made.Tolerance).AtMost(largest))),
			Hints: [][2]*Term{{exact(capacity).Minus(w(1)), made.rounded}},
			Twin:  when(made.TooSlow, smt.True, exact(capacity).Times(made.rounded).Less(largest)),
		},
		{
			Name: "rounding-never-early", Theory: smt.Monomials,
			Hints: [][2]*Term{{k, added}, {spent, c}},
			Says:  "units that fit a time by the emission interval fit it by the exact rate",
			Given: ceiling, Claim: k.Times(rounded).AtMost(t.Times(c)),
			TwinGiven: append([]*Term{c.Is(w(3)), k.Is(w(2))}, ceiling...), Twin: k.Times(rounded).Less(t.Times(c)),
		},
		{
			Name: "rounding-less-than-1ns", Theory: smt.Monomials,
			Hints: [][2]*Term{{k.Minus(w(1)), c.Minus(added).Minus(w(1))}, {k, c.Minus(added).Minus(w(1))}},
			Says:  "rounding costs less than 1 ns per unit",
			Given: append([]*Term{w(1).AtMost(k)}, ceiling...),
			Claim: k.Times(e).Times(c).Less(k.Times(rounded).Plus(k.Times(c))),
			Twin:  k.Times(e).Times(c).Less(k.Times(rounded).Plus(k.Times(c)).Minus(k)),
		},
	}
}

// usable is what New says of a limit except for the product, which is not linear.
func (l Limit) usable() *Term {
	return and(one.AtMost(l.Capacity), one.AtMost(l.Emission), l.Emission.AtMost(l.Tolerance), l.Capacity.AtMost(l.Tolerance))
}

// full is all that New says.
func (l Limit) full() *Term {
	return and(l.usable(), exact(l.Capacity).Times(exact(l.Emission)).Is(exact(l.Tolerance)))
}

func ofTake() []Lemma {
	l := AnyLimit()
	tat, now, quantity, increment := smt.Var("tat", u64), variable("now"), variable("quantity"), variable("increment")
	wait := variable("wait")
	// What increment-exact proves is given to the others, so that they are linear.
	given := []*Term{l.usable(), zero.AtMost(now), zero.AtMost(quantity), zero.AtMost(increment),
		implies(quantity.AtMost(l.Capacity), increment.AtMost(l.Tolerance)), iff(quantity.Is(zero), increment.Is(zero))}
	take := TakeOf(l, tat, now, quantity, increment, 0)
	loose := TakeOf(l, tat, now, quantity, increment, 1)
	all := []*Term{take.Allowed, take.Changed, take.TAT, take.Remaining, take.RetryAfter, take.ResetAfter}

	later := now.Plus(wait)
	waits := append([]*Term{zero.AtMost(wait), wait.AtMost(longest.Minus(now))}, given...)
	again := TakeOf(l, take.Stored(tat), later, quantity, increment, 0)
	waitsInVain := append([]*Term{not(take.Allowed), quantity.AtMost(l.Capacity)}, waits...)
	backlogThen, _ := Backlog(l.Tolerance, take.Stored(tat), later)
	stored := or(not(take.Corrected), take.Changed)
	product := quantity.Times(l.Emission)
	beyond := wholeVariable("beyond") // the capacity is quantity + beyond
	bucket := exact(quantity).Plus(beyond).Times(exact(l.Emission))
	fitting := []*Term{one.AtMost(l.Emission), zero.AtMost(quantity), w(0).AtMost(beyond), w(1).AtMost(exact(quantity).Plus(beyond)),
		bucket.AtMost(w(math.MaxInt64))}
	return []Lemma{
		{
			Name: "increment-exact", Theory: smt.Monomials,
			Says:  "quantity x emission interval fits 64 bits and is no more than the burst tolerance, for each quantity up to the capacity; it is 0 for 0 alone",
			Given: fitting,
			Claim: and(smt.Defined(product), exact(product).Between(w(0), bucket), implies(one.AtMost(quantity), exact(l.Emission).AtMost(exact(product)))),
			Hints: [][2]*Term{{exact(quantity).Minus(w(1)), exact(l.Emission)}, {exact(quantity), exact(l.Emission)}, {beyond, exact(l.Emission)}},
			TwinGiven: []*Term{one.AtMost(l.Emission), zero.AtMost(quantity), w(-1).AtMost(beyond), w(1).AtMost(exact(quantity).Plus(beyond)),
				bucket.AtMost(w(math.MaxInt64))},
			Twin: exact(quantity).Times(exact(l.Emission)).AtMost(bucket),
		},
		{
			Name: "take-exact", Theory: smt.Integers,
			Says:  "Take computes nothing that does not fit its 64 bits, whatever TAT, instant and quantity",
			Given: given, Claim: smt.Defined(all...),
			Twin: smt.Defined(now.Plus(take.ResetAfter)), // in 63 bits
		},
		{
			Name: "allowed-within-tolerance", Theory: smt.Integers,
			Says:  "an allowed call adds its increment to the backlog, which then is no more than the burst tolerance; the TAT is that far ahead",
			Given: append([]*Term{take.Allowed}, given...),
			Claim: and(take.ResetAfter.Is(take.Before.Plus(increment)), take.ResetAfter.Between(zero, l.Tolerance),
				take.TAT.Minus(now.As(u64)).Is(take.ResetAfter.As(u64))),
			TwinGiven: append([]*Term{loose.Allowed}, given...),
			Twin:      loose.ResetAfter.AtMost(l.Tolerance),
		},
		{
			Name: "denied-only-without-room", Theory: smt.Integers,
			Says:  "a call is denied only where its increment and the backlog are more than the burst tolerance",
			Given: append([]*Term{not(take.Allowed), quantity.AtMost(l.Capacity)}, given...),
			Claim: increment.Greater(l.Tolerance.Minus(take.Before)),
			Twin:  increment.Greater(l.Tolerance.Minus(take.Before).Plus(one)),
		},
		{
			Name: "retry-after-is-least", Theory: smt.Integers,
			Says:  "a call that is denied passes after each wait of retry after or longer, and after no shorter one",
			Given: waitsInVain, Claim: iff(again.Allowed, wait.AtLeast(take.RetryAfter)),
			Twin: iff(again.Allowed, wait.Greater(take.RetryAfter)),
		},
		{
			Name: "retry-after-bounds", Theory: smt.Integers,
			Says:  "retry after is at least 1 ns and at most the increment, so at most the burst tolerance: also after a clock was set back, and for a TAT of another limit",
			Given: append([]*Term{not(take.Allowed), quantity.AtMost(l.Capacity)}, given...),
			Claim: and(take.RetryAfter.Between(one, increment), increment.AtMost(l.Tolerance)),
			Twin:  take.RetryAfter.Less(increment),
		},
		{
			Name: "never", Theory: smt.Integers,
			Says:  "retry after is Never for more units than the capacity, which are denied always, and for an allowed call; for no other",
			Given: given,
			Claim: and(implies(quantity.Greater(l.Capacity), not(take.Allowed)),
				iff(take.RetryAfter.Is(never), or(take.Allowed, quantity.Greater(l.Capacity)))),
			Twin: iff(take.RetryAfter.Is(never), or(take.Allowed, quantity.AtLeast(l.Capacity))),
		},
		{
			Name: "reset-after-is-least", Theory: smt.Integers,
			Says:  "the bucket is full after each wait of reset after or longer, and after no shorter one, where the TAT is not one to be corrected or was stored",
			Given: append([]*Term{stored}, waits...),
			Claim: iff(backlogThen.Is(zero), wait.AtLeast(take.ResetAfter)),
			Twin:  iff(backlogThen.Is(zero), wait.Greater(take.ResetAfter)),
		},
		{
			Name: "remaining", Theory: smt.Integers,
			Says:  "remaining is how many units fit what is left: these do, one more does not; 0 to the capacity",
			Given: append([]*Term{l.full()}, given...),
			Claim: and(take.Remaining.Between(zero, l.Capacity), exact(take.Remaining).Times(exact(l.Emission)).AtMost(exact(take.Left)),
				exact(take.Remaining).Plus(w(1)).Times(exact(l.Emission)).Greater(exact(take.Left))),
			Twin: exact(take.Remaining).Plus(w(1)).Times(exact(l.Emission)).Greater(exact(take.Left).Plus(w(1))),
		},
		{
			Name: "denied-writes-nothing", Theory: smt.Integers,
			Says:  "a call that is denied changes nothing but a TAT out of reach; a quantity of 0 changes nothing and is allowed",
			Given: given,
			Claim: and(implies(not(take.Allowed), iff(take.Changed, and(quantity.Greater(zero), take.Corrected))),
				implies(quantity.Is(zero), and(take.Allowed, not(take.Changed)))),
			Twin: implies(not(take.Allowed), not(take.Changed)),
		},
		{
			Name: "stored-tat", Theory: smt.Integers,
			Says:  "a TAT that is stored lies after now and at most the burst tolerance ahead",
			Given: append([]*Term{take.Changed}, given...),
			Claim: and(take.TAT.Greater(now.As(u64)), take.TAT.AtMost(now.As(u64).Plus(l.Tolerance.As(u64)))),
			Twin:  take.TAT.Less(now.As(u64).Plus(l.Tolerance.As(u64))),
		},
	}
}

// ofHistories are the step of an induction over calls and readings of the clock, and what it comes to. An interval
// begins somewhere in the history; since then time elapsed has passed, and sum is the increments of the calls allowed.
// Where the clock is set back, no time passes. The invariant: the backlog is at least sum - elapsed, and
// that is at most the burst tolerance.
func ofHistories() []Lemma {
	l := AnyLimit()
	tat, now, quantity, increment := smt.Var("tat", u64), variable("now"), variable("quantity"), variable("increment")
	sum, elapsed := wholeVariable("sum"), wholeVariable("elapsed")
	forth, back := wholeVariable("forth"), wholeVariable("back")
	ahead := func(tat, now *Term) *Term { return smt.Max(exact(tat).Minus(exact(now)), w(0)) }
	open := sum.Minus(elapsed)
	invariant := and(ahead(tat, now).AtLeast(open), open.AtMost(exact(l.Tolerance)), w(0).AtMost(sum), w(0).AtMost(elapsed))
	given := []*Term{l.usable(), zero.AtMost(now), zero.AtMost(quantity), zero.AtMost(increment),
		implies(quantity.AtMost(l.Capacity), increment.AtMost(l.Tolerance)), iff(quantity.Is(zero), increment.Is(zero)), invariant}
	take := TakeOf(l, tat, now, quantity, increment, 0)
	loose := TakeOf(l, tat, now, quantity, increment, 1)
	step := func(take Take) *Term {
		sumThen := when(take.Allowed, sum.Plus(exact(increment)), sum).Minus(elapsed)
		return and(ahead(take.Stored(tat), now).AtLeast(sumThen), sumThen.AtMost(exact(l.Tolerance)))
	}
	k, c, e, p, cap := wholeVariable("granted"), wholeVariable("count"), wholeVariable("interval"), wholeVariable("product"), wholeVariable("capacity")
	moved := exact(now).Plus(forth).Minus(back)
	claim := and(smt.Max(exact(tat).Minus(moved), w(0)).AtLeast(open.Minus(forth)), open.Minus(forth).AtMost(exact(l.Tolerance)))
	return []Lemma{
		{
			Name: "history-begins", Theory: smt.Integers,
			Says:  "the invariant holds at the begin of each interval, whatever the TAT",
			Given: []*Term{l.usable(), sum.Is(w(0)), elapsed.Is(w(0))}, Claim: and(ahead(tat, now).AtLeast(open), open.AtMost(exact(l.Tolerance))),
			TwinGiven: []*Term{l.usable(), sum.Is(w(1)), elapsed.Is(w(0))}, Twin: and(ahead(tat, now).AtLeast(open), open.AtMost(exact(l.Tolerance))),
		},
		{
			Name: "history-call", Theory: smt.Integers,
			Says:  "a call keeps the invariant, allowed or not",
			Given: given, Claim: step(take), Twin: step(loose),
		},
		{
			Name: "history-clock", Theory: smt.Integers,
			Says:  "the clock keeps the invariant, going forth and being set back",
			Given: append([]*Term{w(0).AtMost(forth), w(0).AtMost(back)}, given...), Claim: claim,
			TwinGiven: append([]*Term{w(0).AtMost(forth), w(-1).AtMost(back)}, given...), Twin: claim,
		},
		{
			Name: "history-expiry", Theory: smt.Integers,
			Says:  "a state that is lost when its TAT has come keeps the invariant",
			Given: append([]*Term{tat.AtMost(now.As(u64))}, given...), Claim: w(0).AtLeast(open),
			TwinGiven: append([]*Term{exact(tat).AtMost(exact(now).Plus(w(1)))}, given...), Twin: w(0).AtLeast(open),
		},
		{
			Name: "never-one-unit-too-many", Theory: smt.Integers,
			Says: "in each interval the units granted are at most capacity + count x length / period, exactly",
			Given: []*Term{w(0).AtMost(k), w(1).AtMost(c), w(1).AtMost(e), w(1).AtMost(p), w(1).AtMost(cap), w(0).AtMost(elapsed), p.AtMost(e.Times(c)),
				k.Times(e).Minus(elapsed).AtMost(cap.Times(e))}, // the invariant, of sum = granted x interval
			Claim: k.Minus(cap).Times(p).AtMost(elapsed.Times(c)),
			Twin:  k.Minus(cap).Plus(w(1)).Times(p).AtMost(elapsed.Times(c)),
		},
	}
}

// aboutState is what the lemmas about a state with a queue are stated with: any limit, any state of it, and a call.
type aboutState struct {
	l                              Limit
	s, current                     State
	now, quantity, increment, wait *Term
	later                          *Term // wait after now
	backlog, corrected             *Term
	available, retry               *Term
	given, some, waits             []*Term // what holds of all calls, of those that ask for units, and of wait
}

func anyState() aboutState {
	l, s := AnyLimit(), AnyState()
	now, quantity, increment, wait := variable("now"), variable("quantity"), variable("increment"), variable("wait")
	given := []*Term{l.usable(), zero.AtMost(now), zero.AtMost(quantity), zero.AtMost(s.Queue)}
	current, corrected := l.BringTo(s, now)
	return aboutState{
		l: l, s: s, current: current, now: now, quantity: quantity, increment: increment, wait: wait, later: now.Plus(wait),
		backlog: l.Backlog(s, now), corrected: corrected, available: l.Available(s, now), retry: l.RetryAfter(s, now, quantity, increment),
		given: given,
		some:  append([]*Term{one.AtMost(quantity), quantity.AtMost(l.Capacity), one.AtMost(increment), increment.AtMost(l.Tolerance)}, given...),
		waits: []*Term{zero.AtMost(wait), wait.AtMost(longest.Minus(now))},
	}
}

func ofStates() []Lemma {
	q := anyState()
	return slices.Concat(q.ofBringingTo(), q.ofCharging(), q.ofWhatIsLeft(), q.ofForcing(), q.ofDenied(), q.ofRefunds(), q.ofFullIn())
}

func (q aboutState) ofBringingTo() []Lemma {
	return []Lemma{
		{
			Name: "state-exact", Theory: smt.Integers,
			Says:  "reading a state, bringing it to an instant and asking it computes nothing that does not fit its 64 bits, whatever TAT and queue",
			Given: q.some, Claim: smt.Defined(q.current.TAT, q.current.Queue, q.available, q.retry),
			Twin: smt.Defined(q.l.Tolerance.Plus(q.s.Queue)), // without the cap
		},
		{
			Name: "bring to", Theory: smt.Integers,
			Says:  "bringing a state to an instant keeps the backlog, and leaves nothing to correct",
			Given: q.given, Claim: and(q.l.Backlog(q.current, q.now).Is(q.backlog),
				func() *Term { _, again := q.l.BringTo(q.current, q.now); return not(again) }()),
			Twin: and(q.l.Backlog(q.current, q.now).Is(q.backlog), not(q.corrected)),
		},
		{
			Name: "state-retry-after-is-least", Theory: smt.Integers,
			Says:  "with reservations or a debt, too, the units are there after each wait of retry after or longer, and after no shorter one",
			Given: append(q.waits, q.some...),
			Claim: iff(q.l.RetryAfter(q.current, q.later, q.quantity, q.increment).Is(zero), q.wait.AtLeast(q.retry)),
			Twin:  iff(q.l.RetryAfter(q.current, q.later, q.quantity, q.increment).Is(zero), q.wait.Greater(q.retry)),
		},
	}
}

func (q aboutState) ofCharging() []Lemma {
	charge := append([]*Term{q.retry.AtMost(q.wait), q.wait.AtMost(longest.Minus(q.l.Tolerance))}, q.some...)
	charged, chargedBacklog := q.l.Charge(q.s, q.now, q.increment, q.wait)
	return []Lemma{
		{
			Name: "charge-exact", Theory: smt.Integers,
			Says:  "Charge computes nothing that does not fit its 64 bits",
			Given: charge, Claim: smt.Defined(charged.TAT, charged.Queue),
			TwinGiven: append([]*Term{q.retry.AtMost(q.wait), q.wait.AtMost(longest.Minus(q.l.Tolerance).Plus(one)), q.l.Tolerance.AtLeast(n(2))}, q.some...),
			Twin:      smt.Defined(charged.TAT, charged.Queue),
		},
		{
			Name: "a-promised-slot-stays-within-tolerance", Theory: smt.Integers,
			Says:  "units charged for a slot leave at most the burst tolerance at that slot: the reservation is as exact as a call then; and the state reads back as what was charged",
			Given: charge,
			Claim: and(chargedBacklog.Minus(q.wait).AtMost(q.l.Tolerance), chargedBacklog.AtLeast(q.backlog.Plus(q.increment)),
				chargedBacklog.AtLeast(q.wait.Plus(q.increment)), q.l.Backlog(charged, q.now).Is(chargedBacklog)),
			Twin: chargedBacklog.Minus(q.wait).Less(q.l.Tolerance),
		},
	}
}

func (q aboutState) ofWhatIsLeft() []Lemma {
	more := variable("more") // (available + 1) x emission
	next := q.l.NextAfter(q.s, q.now, more)
	nextGiven := append([]*Term{q.backlog.Greater(zero), q.l.Left(q.s, q.now).Less(more), more.AtMost(q.l.Tolerance)}, q.given...)
	return []Lemma{
		{
			Name: "available", Theory: smt.Integers,
			Says:  "available is how many units fit what is left, 0 to the capacity, with reservations, too",
			Given: append([]*Term{q.l.full()}, q.given...),
			Claim: and(q.available.Between(zero, q.l.Capacity), exact(q.available).Times(exact(q.l.Emission)).AtMost(exact(q.l.Left(q.s, q.now))),
				exact(q.available).Plus(w(1)).Times(exact(q.l.Emission)).Greater(exact(q.l.Left(q.s, q.now)))),
			Twin: q.available.Between(zero, q.l.Capacity.Minus(one)),
		},
		{
			Name: "next-after-fits", Theory: smt.Integers,
			Hints: [][2]*Term{{exact(q.available).Minus(exact(q.l.Capacity)), exact(q.l.Emission)},
				{exact(q.l.Capacity).Minus(exact(q.available)).Minus(w(1)), exact(q.l.Emission)}},
			Says:      "a bucket that is not full has room for one unit more than is available, and its time fits the burst tolerance: what next-after-is-least is given",
			Given:     append([]*Term{q.l.full(), q.backlog.Greater(zero)}, q.given...),
			Claim:     exact(q.available).Plus(w(1)).Times(exact(q.l.Emission)).AtMost(exact(q.l.Tolerance)),
			TwinGiven: append([]*Term{q.l.full()}, q.given...),
			Twin:      exact(q.available).Plus(w(1)).Times(exact(q.l.Emission)).AtMost(exact(q.l.Tolerance)),
		},
		{
			Name: "next-after-is-least", Theory: smt.Integers,
			Says:  "a unit more is there after each wait of next after or longer, and after no shorter one; next after is at least 1 ns and at most reset after",
			Given: append(q.waits, nextGiven...),
			Claim: and(iff(q.l.Left(q.current, q.later).AtLeast(more), q.wait.AtLeast(next)), next.Between(one, q.backlog)),
			Twin:  iff(q.l.Left(q.current, q.later).AtLeast(more), q.wait.Greater(next)),
		},
	}
}

// products are the products in how many units fit a time.
func (q aboutState) products(total *Term) [][2]*Term {
	units, interval := exact(total.Over(q.l.Emission)), exact(q.l.Emission)
	return [][2]*Term{{units.Minus(exact(q.quantity)), interval}, {exact(q.quantity).Minus(units).Minus(w(1)), interval},
		{units, interval.Minus(w(2))}, {exact(q.quantity), interval}}
}

func (q aboutState) ofForcing() []Lemma {
	product := exact(q.quantity).Times(exact(q.l.Emission))
	forceIncrement := when(q.quantity.AtMost(longest.Minus(q.backlog).Over(q.l.Emission)), q.quantity.Times(q.l.Emission), zero)
	forced, forcedUnits, forcedBacklog := q.l.Force(q.s, q.now, q.quantity, forceIncrement)
	forceHints := q.products(longest.Minus(q.backlog))
	return []Lemma{
		{
			Name: "force-exact", Theory: smt.Integers,
			Hints: forceHints,
			Says:  "Force computes nothing that does not fit its 64 bits",
			Given: q.given, Claim: smt.Defined(forced.TAT, forced.Queue, forcedUnits),
			Twin: smt.Defined(q.backlog.Plus(q.quantity.Times(q.l.Emission))),
		},
		{
			Name: "force-takes-all-that-fits", Theory: smt.Integers,
			Hints: forceHints,
			Says:  "Force takes all units, or fills the backlog up to 2^63 - 1 ns and tells how many that were, a part of one included",
			Given: q.given,
			Claim: when(forcedUnits.Is(q.quantity),
				exact(forcedBacklog).Is(smt.Min(exact(q.backlog).Plus(product), exact(longest))),
				and(forcedUnits.Less(q.quantity), forcedBacklog.Is(longest),
					exact(forcedUnits).Minus(w(1)).Times(exact(q.l.Emission)).Less(exact(longest.Minus(q.backlog))))),
			Twin: forcedUnits.Is(q.quantity),
		},
	}
}

func (q aboutState) ofDenied() []Lemma {
	spare, reserve := variable("spare"), variable("reserve")
	denied, took, deniedBacklog := q.l.ChargeDenied(q.s, q.now, q.quantity, q.increment, spare, reserve)
	deniedGiven := append([]*Term{zero.AtMost(q.increment), zero.AtMost(spare), zero.AtMost(reserve),
		implies(q.quantity.AtMost(q.l.Capacity), q.increment.AtMost(q.l.Tolerance)),
		implies(spare.AtMost(q.l.Capacity), reserve.AtMost(q.l.Tolerance))}, q.given...)
	return []Lemma{
		{
			Name: "strict-exact", Theory: smt.Integers,
			Says:  "ChargeDenied computes nothing that does not fit its 64 bits, whatever is to be spared",
			Given: deniedGiven, Claim: smt.Defined(denied.TAT, denied.Queue, took),
			TwinGiven: append([]*Term{zero.AtMost(q.increment), zero.AtMost(spare), n(-1).AtMost(reserve)}, q.given...),
			Twin:      smt.Defined(denied.TAT, denied.Queue, took),
		},
		{
			Name: "strict-puts-nobody-further-back", Theory: smt.Integers,
			Says:  "a denied call that is charged leaves a backlog of at most the burst tolerance less what is to be spared, or what it was",
			Given: deniedGiven,
			Claim: and(deniedBacklog.AtLeast(q.backlog), deniedBacklog.AtMost(smt.Max(q.backlog, q.l.Tolerance.Minus(reserve))),
				implies(not(took), deniedBacklog.Is(q.backlog))),
			Twin: deniedBacklog.Less(smt.Max(q.backlog, q.l.Tolerance.Minus(reserve))),
		},
	}
}

func (q aboutState) ofRefunds() []Lemma {
	product := exact(q.quantity).Times(exact(q.l.Emission))
	refundIncrement := when(q.quantity.Greater(q.backlog.Over(q.l.Emission)), zero, q.quantity.Times(q.l.Emission))
	refunded, refundedUnits, refundedBacklog := q.l.Refund(q.s, q.now, q.quantity, refundIncrement)
	refundHints := q.products(q.backlog)
	lacks, short := exact(q.backlog), exact(refundedUnits).Minus(w(1)).Times(exact(q.l.Emission))
	return []Lemma{
		{
			Name: "refund-exact", Theory: smt.Integers,
			Hints: refundHints,
			Says:  "Refund computes nothing that does not fit its 64 bits",
			Given: q.given, Claim: smt.Defined(refunded.TAT, refunded.Queue, refundedUnits),
			Twin: smt.Defined(q.backlog.Minus(q.quantity.Times(q.l.Emission))),
		},
		{
			Name: "refund-gives-what-is-lacking", Theory: smt.Integers,
			Hints: refundHints,
			Says:  "Refund takes quantity x emission interval off the backlog, to no less than 0; it returns as many units as asked for, or as many as were lacking, a part counted as one",
			Given: q.given,
			Claim: and(exact(refundedBacklog).Is(smt.Max(lacks.Minus(product), w(0))), refundedUnits.AtMost(q.quantity),
				implies(refundedUnits.Less(q.quantity), exact(refundedUnits).Times(exact(q.l.Emission)).AtLeast(lacks)),
				implies(refundedUnits.Greater(zero), short.Less(lacks))),
			Twin: implies(refundedUnits.Greater(zero), short.Plus(exact(q.l.Emission)).Less(lacks)),
		},
	}
}

func (q aboutState) ofFullIn() []Lemma {
	far := append([]*Term{q.s.TAT.Greater(q.now.As(u64)), q.s.TAT.Minus(q.now.As(u64)).AtMost(longest.As(u64))}, q.given...)
	return []Lemma{
		{
			Name: "full-in", Theory: smt.Bits,
			Says:  "FullIn is the time until the TAT, of each TAT up to 2^63 - 1 ns ahead",
			Given: far, Claim: FullIn(q.s, q.now).As(u64).Is(q.s.TAT.Minus(q.now.As(u64))),
			TwinGiven: append([]*Term{q.s.TAT.Greater(q.now.As(u64)), q.s.TAT.Minus(q.now.As(u64)).AtMost(longest.As(u64).Plus(smt.N(u64, 1)))}, q.given...),
			Twin:      FullIn(q.s, q.now).As(u64).Is(q.s.TAT.Minus(q.now.As(u64))),
		},
	}
}

func ofReplies() []Lemma {
	l := AnyLimit()
	tat, now, quantity, increment := smt.Var("tat", u64), variable("now"), variable("quantity"), variable("increment")
	ns, seconds := variable("ns"), n(1_000_000_000)
	burst := variable("max_burst")
	take := TakeOf(l, tat, now, quantity, increment, 0)
	replied := CeilTo(take.RetryAfter, 1_000_000_000)
	later := now.Plus(replied.Times(seconds))
	again := TakeOf(l, take.Stored(tat), later, quantity, increment, 0)
	given := []*Term{l.usable(), zero.AtMost(now), one.AtMost(quantity), quantity.AtMost(l.Capacity), one.AtMost(increment), increment.AtMost(l.Tolerance),
		not(take.Allowed), exact(now).Plus(exact(replied).Times(exact(seconds))).AtMost(exact(longest))}
	fullAt := smt.Var("full_at", u64)
	expiry := ExpireAtMs(fullAt)
	count, unit := variable("n"), variable("unit")
	wait, limit, then := variable("need"), variable("maxwait"), variable("later")
	retry := RetryWithMaxWait(wait, limit)
	var all []Lemma
	for _, u := range []struct {
		name string
		ns   int64
	}{{"seconds", 1_000_000_000}, {"milliseconds", 1_000_000}} {
		rounded := CeilTo(ns, u.ns)
		all = append(all, Lemma{
			Name: "reply-in-" + u.name, Theory: smt.Integers,
			Says:  "a time in the reply is rounded up by less than one of its units, in 64 bits; -1 and 0 stay",
			Given: []*Term{never.AtMost(ns)},
			Claim: and(smt.Defined(rounded), implies(ns.AtMost(zero), rounded.Is(ns)),
				implies(ns.Greater(zero), and(exact(rounded).Times(w(u.ns)).AtLeast(exact(ns)), exact(rounded).Minus(w(1)).Times(w(u.ns)).Less(exact(ns))))),
			Twin: implies(ns.Greater(zero), exact(rounded).Times(w(u.ns)).Greater(exact(ns))),
		})
	}
	return append(all,
		Lemma{
			Name: "throttle-retry-suffices", Theory: smt.Integers,
			Says:  "a caller of CL.THROTTLE that waits the seconds it was told passes",
			Given: given, Claim: again.Allowed,
			Twin: TakeOf(l, take.Stored(tat), later.Minus(one), quantity, increment, 0).Allowed,
		},
		Lemma{
			Name: "expiry", Theory: smt.Integers,
			Says:  "a key lives until its limits are full, and less than a second longer; the instant is a whole second and fits 64 bits",
			Given: []*Term{smt.N(u64, 1).AtMost(fullAt)},
			Claim: and(smt.Defined(expiry), exact(expiry).Times(w(1_000_000)).AtLeast(exact(fullAt)),
				exact(expiry).Times(w(1_000_000)).Less(exact(fullAt).Plus(w(1_000_000_000))), expiry.Rest(n(1000)).Is(zero)),
			TwinGiven: []*Term{smt.N(u64, 0).AtMost(fullAt)}, Twin: smt.Defined(expiry),
		},
		Lemma{
			Name: "max-burst", Theory: smt.Bits,
			Says:  "max_burst + 1 is refused where it leaves 64 bits, and nowhere else",
			Given: []*Term{zero.AtMost(burst)}, Claim: iff(burst.Plus(one).Less(zero), burst.Is(longest)),
			Twin: iff(burst.Plus(one).Less(zero), burst.AtLeast(longest.Minus(one))),
		},
		Lemma{
			Name: "period", Theory: smt.Integers,
			Says:  "the period that tells limits apart is n x unit, or 2^63 - 1 where that is more",
			Given: []*Term{one.AtMost(count), one.AtMost(unit)},
			Claim: and(smt.Defined(PeriodNs(count, unit)), exact(PeriodNs(count, unit)).Is(smt.Min(exact(count).Times(exact(unit)), exact(longest)))),
			Twin:  PeriodNs(count, unit).Less(longest),
		},
		Lemma{
			Name: "maxwait-retry-is-least", Theory: smt.Integers,
			Says:  "with MAXWAIT the same request passes after each wait of retry after or longer, and after no shorter one",
			Given: []*Term{zero.AtMost(limit), limit.Less(wait), zero.AtMost(then), then.AtMost(wait)},
			Claim: iff(wait.Minus(then).AtMost(limit), then.AtLeast(retry)),
			Twin:  iff(wait.Minus(then).AtMost(limit), then.Greater(retry)),
		},
	)
}
