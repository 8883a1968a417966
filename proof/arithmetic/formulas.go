// Package arithmetic has the arithmetic of package gcra, and what the commands compute from it, as
// formulas: evaluated they are compared with the Go code, and as SMT problems they are decided for all
// 64-bit inputs.
package arithmetic

import (
	"math"

	"redis-throttle/proof/smt"
)

// Term is an expression.
type Term = smt.Term

const (
	i64   = smt.Int64
	u64   = smt.Uint64
	whole = smt.Whole
)

var (
	zero    = smt.N(i64, 0)
	one     = smt.N(i64, 1)
	never   = smt.N(i64, -1)
	longest = smt.N(i64, math.MaxInt64)
	two64   = smt.N(whole, math.MaxInt64).Plus(smt.N(whole, 1)).Times(smt.N(whole, 2))
)

func n(v int64) *Term                 { return smt.N(i64, v) }
func w(v int64) *Term                 { return smt.N(whole, v) }
func exact(t *Term) *Term             { return t.As(whole) }
func and(terms ...*Term) *Term        { return smt.And(terms...) }
func or(terms ...*Term) *Term         { return smt.Or(terms...) }
func not(t *Term) *Term               { return smt.Not(t) }
func when(t, then, els *Term) *Term   { return smt.If(t, then, els) }
func implies(a, b *Term) *Term        { return smt.Implies(a, b) }
func iff(a, b *Term) *Term            { return smt.Iff(a, b) }
func variable(name string) *Term      { return smt.Var(name, i64) }
func wholeVariable(name string) *Term { return smt.Var(name, whole) }

// Limit is a gcra.Limit.
type Limit struct{ Capacity, Emission, Tolerance *Term }

// AnyLimit is a limit of variables.
func AnyLimit() Limit {
	return Limit{variable("capacity"), variable("emission"), variable("tolerance")}
}

// New is gcra.New of a product n x unit.
type New struct {
	TooFast, TooSlow    *Term // ErrRate, ErrTolerance
	Emission, Tolerance *Term // 0 of what is refused
	rounded             *Term // the interval before it is checked, exact
	alone, beyond       *Term // one unit takes too long for Div64, or for 63 bits
}

// NewOf is gcra.New where no argument is below 1. Mul64 and Div64 are an exact product and quotient of 128 bits
// cut in two, so the product is a whole number here; that it is cut right is part of the formula.
func NewOf(capacity, count, product *Term) New {
	return newOf(capacity, count, product, func(hi, count *Term) *Term { return hi.AtLeast(count) })
}

func newOf(capacity, count, product *Term, tooLong func(hi, count *Term) *Term) New {
	units := count.As(u64)
	hi, lo := product.Over(two64).As(u64), product.Rest(two64).As(u64)
	none := smt.N(u64, 0)
	tooFast := and(hi.Is(none), lo.Less(units))
	alone := tooLong(hi, units)
	short := hi.Is(none)
	emission := when(short, lo.Over(units), product.Over(exact(units)).As(u64)) // Div64 panics where this leaves 64 bits
	rest := when(short, lo.Rest(units), product.Rest(exact(units)).As(u64))
	fits := and(not(tooFast), not(alone))
	beyond := emission.Greater(longest.As(u64))
	rounded := when(rest.Greater(none), emission.Plus(smt.N(u64, 1)), emission)
	full := exact(capacity).Times(exact(rounded))
	fullHi, fullLo := full.Over(two64), full.Rest(two64)
	over := or(fullHi.Greater(w(0)), fullLo.Greater(exact(longest)))
	ok := func(value *Term) *Term {
		return when(fits, when(beyond, zero, when(over, zero, value.As(i64))), zero)
	}
	return New{
		TooFast:   tooFast,
		TooSlow:   and(not(tooFast), when(alone, smt.True, or(beyond, over))),
		Emission:  ok(rounded),
		Tolerance: ok(fullLo),
		rounded:   exact(rounded),
		alone:     alone,
		beyond:    beyond,
	}
}

// Backlog is backlogUpTo.
func Backlog(ceiling, tat, now *Term) (backlog, corrected *Term) {
	past := tat.AtMost(now.As(u64))
	ahead := tat.Minus(now.As(u64))
	far := ahead.Greater(ceiling.As(u64))
	backlog = when(past, zero, when(far, ceiling, ahead.As(i64)))
	return backlog, when(past, smt.False, far)
}

// Take is gcra.Limit.TakeTo.
type Take struct {
	Allowed, Changed, TAT, Remaining, RetryAfter, ResetAfter *Term
	// What it computes on the way.
	Before, Corrected, Left *Term
}

// TakeOf is Take; increment is quantity x emission, which counts where quantity is no more than the capacity.
// A slack other than 0 is what makes it wrong.
func TakeOf(l Limit, tat, now, quantity, increment *Term, slack int64) Take {
	before, corrected := Backlog(l.Tolerance, tat, now)
	fits := quantity.AtMost(l.Capacity)
	left := l.Tolerance.Minus(before)
	enough := increment.AtMost(left)
	if slack != 0 {
		enough = increment.AtMost(left.Plus(n(slack)))
	}
	allowed := when(fits, enough, smt.False)
	after := when(fits, when(enough, before.Plus(increment), before), before)
	return Take{
		Allowed:    allowed,
		Changed:    and(quantity.Greater(zero), or(allowed, corrected)),
		TAT:        now.As(u64).Plus(after.As(u64)),
		Remaining:  l.units(l.Tolerance.Minus(after)),
		RetryAfter: when(fits, when(enough, never, increment.Minus(left)), never),
		ResetAfter: after,
		Before:     before, Corrected: corrected, Left: l.Tolerance.Minus(after),
	}
}

// Stored is the TAT that is kept after a call.
func (t Take) Stored(tat *Term) *Term { return when(t.Changed, t.TAT, tat) }

// State is a gcra.State without lifts.
type State struct{ TAT, Queue *Term }

// AnyState is a state of variables.
func AnyState() State { return State{smt.Var("tat", u64), variable("queue")} }

// Ceiling is gcra.Bucket.ceiling.
func (l Limit) Ceiling(s State) *Term {
	return when(s.Queue.Greater(longest.Minus(l.Tolerance)), longest, l.Tolerance.Plus(s.Queue))
}

// Backlog returns the backlog of a state.
func (l Limit) Backlog(s State, now *Term) *Term {
	backlog, _ := Backlog(l.Ceiling(s), s.TAT, now)
	return backlog
}

// written is setBacklog.
func (l Limit) written(now, backlog *Term) State {
	none := backlog.Is(zero)
	return State{
		TAT:   when(none, smt.N(u64, 0), now.As(u64).Plus(backlog.As(u64))),
		Queue: when(none, zero, smt.Max(backlog.Minus(l.Tolerance), zero)),
	}
}

// BringTo is gcra.Bucket.BringTo.
func (l Limit) BringTo(s State, now *Term) (current State, corrected *Term) {
	backlog, corrected := Backlog(l.Ceiling(s), s.TAT, now)
	again := or(corrected, backlog.Is(zero))
	fresh := l.written(now, backlog)
	return State{when(again, fresh.TAT, s.TAT), when(again, fresh.Queue, s.Queue)}, corrected
}

// Left is what is not used, in ns.
func (l Limit) Left(s State, now *Term) *Term {
	return smt.Max(l.Tolerance.Minus(l.Backlog(s, now)), zero)
}

// Available is gcra.Bucket.Available.
func (l Limit) Available(s State, now *Term) *Term { return l.units(l.Left(s, now)) }

// units is gcra.Limit.units.
func (l Limit) units(ns *Term) *Term { return when(ns.Less(l.Emission), zero, ns.Over(l.Emission)) }

// RetryAfter is gcra.Bucket.RetryAfter.
func (l Limit) RetryAfter(s State, now, quantity, increment *Term) *Term {
	wait := smt.Max(l.Backlog(s, now).Minus(l.Tolerance.Minus(increment)), zero)
	return when(quantity.Greater(l.Capacity), never, when(quantity.Is(zero), zero, wait))
}

// NextAfter is the last answer of gcra.Bucket.Standing; more is (available + 1) x emission.
func (l Limit) NextAfter(s State, now, more *Term) *Term {
	backlog := l.Backlog(s, now)
	return when(backlog.Is(zero), zero, backlog.Minus(l.Tolerance.Minus(more)))
}

// Charge is gcra.Bucket.Charge of a state without lifts: the state, and the backlog in it.
func (l Limit) Charge(s State, now, increment, wait *Term) (after State, backlog *Term) {
	before := l.Backlog(s, now)
	idle := smt.Max(wait.Minus(before), zero)
	backlog = before.Plus(idle).Plus(increment)
	return l.written(now, backlog), backlog
}

// Force is gcra.Bucket.Force of a state without lifts; increment is quantity x emission.
func (l Limit) Force(s State, now, quantity, increment *Term) (after State, charged, backlog *Term) {
	before := l.Backlog(s, now)
	room := longest.Minus(before)
	whole, part := room.Over(l.Emission), room.Rest(l.Emission)
	fits := quantity.AtMost(whole)
	charged = when(fits, quantity, when(part.Greater(zero), whole.Plus(one), whole))
	backlog = before.Plus(when(fits, increment, room))
	return l.written(now, backlog), charged, backlog
}

// ChargeDenied is gcra.Bucket.ChargeDenied of a state without lifts; reserve is spare x emission.
func (l Limit) ChargeDenied(s State, now, quantity, increment, spare, reserve *Term) (after State, changed, backlog *Term) {
	before := l.Backlog(s, now)
	left := smt.Max(l.Tolerance.Minus(before).Minus(reserve), zero)
	asked := when(quantity.Greater(l.Capacity), left, when(increment.Greater(left), left, increment))
	takes := when(spare.Less(l.Capacity), not(asked.Is(zero)), smt.False)
	backlog = when(takes, before.Plus(asked), before)
	fresh := l.written(now, backlog)
	return State{when(takes, fresh.TAT, s.TAT), when(takes, fresh.Queue, s.Queue)}, takes, backlog
}

// Refund is gcra.Bucket.Refund of a state without lifts; increment is quantity x emission.
func (l Limit) Refund(s State, now, quantity, increment *Term) (after State, refunded, backlog *Term) {
	before := l.Backlog(s, now)
	lacks, part := before.Over(l.Emission), before.Rest(l.Emission)
	all := quantity.Greater(lacks)
	refunded = when(all, when(part.Greater(zero), lacks.Plus(one), lacks), quantity)
	backlog = when(all, zero, before.Minus(increment))
	return l.written(now, backlog), refunded, backlog
}

// FullIn is gcra.State.FullIn.
func FullIn(s State, now *Term) *Term { return smt.Max(s.TAT.Minus(now.As(u64)).As(i64), zero) }

// CeilTo is ceilSeconds and ceilMs of package command.
func CeilTo(ns *Term, unitNs int64) *Term {
	return when(ns.AtMost(zero), ns, ns.Minus(one).Over(n(unitNs)).Plus(one))
}

// ExpireAtMs is expireAtMs of package command.
func ExpireAtMs(fullAt *Term) *Term {
	second := smt.N(u64, 1_000_000_000)
	return fullAt.Minus(smt.N(u64, 1)).Over(second).Plus(smt.N(u64, 1)).As(i64).Times(n(1000))
}

// PeriodNs is the period as package command computes it.
func PeriodNs(count, unit *Term) *Term {
	return when(count.Greater(longest.Over(unit)), longest, count.Times(unit))
}

// RetryWithMaxWait is the retry after of stack.Take of a request that may wait up to longestWait, and would
// have to wait longer.
func RetryWithMaxWait(wait, longestWait *Term) *Term { return wait.Minus(longestWait) }
