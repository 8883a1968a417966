package naive

import (
	"fmt"
	"math"
)

// rate is a bucket of Burst units, of which one comes back every period / count, rounded up to a whole
// nanosecond (cl.throttle.md). All that is remembered is when it will be full again.
type rate struct {
	emission, burst number
	// full is the theoretical arrival time, and queue by how much that was further ahead than an empty
	// bucket takes when it was written: for reservations (state.md).
	full, queue number
	// lifts are the times in which nothing comes back because a reservation has its slot only then, oldest
	// first: from when the bucket would have been full to the slot. A refund of all that was taken since ends
	// the lift.
	lifts []lift
}

type lift struct{ from, slot number }

// mostLifts are remembered one by one. Of one more, the oldest two become one.
const mostLifts = 4

func (r *rate) emptyTakes() number { return r.emission.times(r.burst) }

// backlog is how long the bucket takes to be full. An instant out of reach is the work of another
// clock or another rate: the bucket is empty, behind the reservations there are.
func (r *rate) backlog(now number) number {
	return least(most(r.full.minus(now), zero), r.reach())
}

// reach is below 2^63 ns: a rate that was slowed down keeps no longer a queue.
func (r *rate) reach() number { return least(r.emptyTakes().plus(r.queue), n(math.MaxInt64)) }

func (r *rate) outOfReach(now number) bool { return r.reach().less(r.full.minus(now)) }

func (r *rate) capacity() number { return r.burst }

func (r *rate) left(now number) number {
	return most(r.emptyTakes().minus(r.backlog(now)).over(r.emission), zero)
}

func (r *rate) wait(now, units number) number {
	if units.is(zero) {
		return zero
	}
	return most(r.backlog(now).plus(units.times(r.emission)).minus(r.emptyTakes()), zero)
}

func (r *rate) fullIn(now number) number { return r.backlog(now) }

func (r *rate) setBacklog(now, backlog number) {
	r.full, r.lifts = zero, r.pending(now)
	if backlog.positive() {
		r.full = now.plus(backlog)
	} else {
		r.lifts = nil
	}
	r.queue = most(backlog.minus(r.emptyTakes()), zero)
}

// pending are the lifts whose slot is to come.
func (r *rate) pending(now number) (lifts []lift) {
	for _, l := range r.lifts {
		if now.less(l.slot) && !r.outOfReach(now) {
			lifts = append(lifts, l)
		}
	}
	return lifts
}

// charge takes the units at the slot, an instant that is now or, for a reservation, later.
func (r *rate) charge(now, slot, units number) number {
	from := now.plus(r.backlog(now))
	lifts := r.pending(now)
	if from.less(slot) {
		if len(lifts) == mostLifts {
			oldest, next := lifts[0], lifts[1]
			lifts = append([]lift{{oldest.from, oldest.slot.plus(next.slot).minus(next.from)}}, lifts[2:]...)
		}
		lifts = append(lifts, lift{from, slot})
	}
	r.setBacklog(now, most(from, slot).plus(units.times(r.emission)).minus(now))
	r.lifts = lifts
	return units
}

func (r *rate) punish(now, units, spare number) number {
	there := most(r.emptyTakes().minus(r.backlog(now)).minus(spare.times(r.emission)), zero)
	charged := least(there, units.times(r.emission))
	if charged.positive() {
		r.setBacklog(now, r.backlog(now).plus(charged))
	}
	return charged.overUp(r.emission)
}

// refund takes off what was charged last first.
func (r *rate) refund(now, units number) number {
	full, lifts := now.plus(r.backlog(now)), r.pending(now)
	charged := full.minus(now)
	for _, l := range lifts {
		charged = charged.minus(l.slot.minus(most(l.from, now)))
	}
	back := least(charged, units.times(r.emission))
	rest := back
	for len(lifts) > 0 && rest.positive() {
		last := lifts[len(lifts)-1]
		since := full.minus(last.slot)
		if rest.less(since) {
			break
		}
		rest, full, lifts = rest.minus(since), most(last.from, now), lifts[:len(lifts)-1]
	}
	// Also where nothing is given back: what is reserved or owed is told anew (state.md).
	r.setBacklog(now, full.minus(rest).minus(now))
	if r.backlog(now).positive() {
		r.lifts = lifts
	}
	return back.overUp(r.emission)
}

func (r *rate) bringTo(now number) {
	if r.outOfReach(now) || r.backlog(now).is(zero) {
		r.setBacklog(now, r.backlog(now))
	}
}

func (r *rate) clone() state { c := *r; return &c }

func (r *rate) String() string {
	s := fmt.Sprint(r.full, " ", r.queue)
	for _, l := range r.lifts {
		s += fmt.Sprint(" ", l.from, "-", l.slot)
	}
	return s
}
