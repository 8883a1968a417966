package naive

import (
	"math/big"
	"slices"
)

// Alone is one limit and what is kept of it, without a key. A test of one kind of limit compares with it. Lengths of
// time are ns.
type Alone struct {
	limit Limit
	state state
}

// Alone is the limit when it was never used.
func (l Limit) Alone() *Alone { return &Alone{l, l.state(nil)} }

// FullAt is a Rate that will be full at an instant, and was so far from it when that was written.
func (l Limit) FullAt(ns uint64) *Alone {
	a := l.Alone()
	a.state.(*rate).full = number{new(big.Int).SetUint64(ns)}
	return a
}

// Change replaces the numbers of the limit, and keeps the state.
func (a *Alone) Change(to Limit) { a.limit, a.state = to, to.state(a.state) }

// Never is the RetryAfter of units that are more than the limit has.
const Never = int64(-1)

// Available is the number of units that are left.
func (a *Alone) Available(nowNs int64) int64 { return a.state.left(n(nowNs)).Int64() }

// RetryAfter returns how long it takes until units are left, if nobody asks, or Never.
func (a *Alone) RetryAfter(nowNs, units int64) int64 {
	if a.state.capacity().less(n(units)) {
		return Never
	}
	return toldNs(a.state.wait(n(nowNs), n(units)))
}

// Standing is the capacity, the units left, and how long it takes until all are left and until one more is.
func (a *Alone) Standing(nowNs int64) (capacity, left, resetNs, nextNs int64) {
	r := describe(n(nowNs), []party{{state: a.state}}, 0)
	return r.Limit, r.Remaining, toldNs(r.ResetAfter), toldNs(r.NextAfter)
}

// BringTo reads the state as at nowNs, and says whether that corrects it.
func (a *Alone) BringTo(nowNs int64) (corrected bool) {
	corrected = a.state.outOfReach(n(nowNs))
	a.state.bringTo(n(nowNs))
	return corrected
}

// Charge charges units for waitNs later, available or not.
func (a *Alone) Charge(nowNs, units, waitNs int64) {
	now := n(nowNs)
	a.state.charge(now, now.plus(n(waitNs)), n(units))
}

// ChargeDenied charges what a call that was denied is charged with STRICT, and returns how many units, a part of one as
// one.
func (a *Alone) ChargeDenied(nowNs, units, spare int64) int64 {
	return a.state.punish(n(nowNs), n(units), n(spare)).Int64()
}

// Refund gives units back, and returns how many.
func (a *Alone) Refund(nowNs, units int64) int64 { return a.state.refund(n(nowNs), n(units)).Int64() }

// Lifts is how many reservations of a Rate have lifted it, and are still to come.
func (a *Alone) Lifts(nowNs int64) []int64 {
	var units []int64
	r := a.state.(*rate)
	full := n(nowNs).plus(r.backlog(n(nowNs)))
	for _, l := range slices.Backward(r.pending(n(nowNs))) {
		units = append(units, full.minus(l.slot).overUp(r.emission).Int64())
		full = l.from
	}
	return units
}

// Throttle is CL.THROTTLE on a Rate, and says whether the state has to be stored.
func (a *Alone) Throttle(nowNs, units int64) (reply Reply, stored bool) {
	corrected := a.state.outOfReach(n(nowNs))
	waitNs := a.RetryAfter(nowNs, units)
	switch {
	case units == 0:
	case waitNs == 0:
		a.Charge(nowNs, units, 0)
	case corrected:
		a.BringTo(nowNs)
	}
	reply = describe(n(nowNs), []party{{state: a.state}}, 0)
	if waitNs != 0 {
		reply.Limited, reply.RetryAfter = 1, n(waitNs)
	}
	return reply, units > 0 && (waitNs == 0 || corrected)
}
