package naive

// rate is a bucket of Burst units, of which one comes back every period / count, rounded up to a whole
// nanosecond (cl.throttle.md). All that is remembered is when it will be full again.
type rate struct {
	emission, burst number
	// full is the theoretical arrival time, and queue by how much that was further ahead than an empty
	// bucket takes when it was written: for reservations (state.md).
	full, queue number
}

func (r *rate) emptyTakes() number { return r.emission.times(r.burst) }

// backlog is how long the bucket takes to be full. An instant out of reach is the work of another
// clock or another rate: the bucket is empty, behind the reservations there are.
func (r *rate) backlog(now number) number {
	return least(most(r.full.minus(now), zero), r.reach())
}

func (r *rate) reach() number { return r.emptyTakes().plus(r.queue) }

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
	r.full = zero
	if backlog.positive() {
		r.full = now.plus(backlog)
	}
	r.queue = most(backlog.minus(r.emptyTakes()), zero)
}

// charge takes the units at the slot, an instant that is now or, for a reservation, later.
func (r *rate) charge(now, slot, units number) {
	r.setBacklog(now, most(r.backlog(now), slot.minus(now)).plus(units.times(r.emission)))
}

func (r *rate) punish(now, units number) bool {
	there := most(r.emptyTakes().minus(r.backlog(now)), zero)
	charged := least(there, units.times(r.emission))
	if charged.positive() {
		r.setBacklog(now, r.backlog(now).plus(charged))
	}
	return charged.positive()
}

func (r *rate) refund(now, units number) number {
	back := least(r.backlog(now), units.times(r.emission))
	if back.positive() {
		r.setBacklog(now, r.backlog(now).minus(back))
	}
	return back.overUp(r.emission)
}

func (r *rate) settle(now number) {
	if r.outOfReach(now) || r.backlog(now).is(zero) {
		r.setBacklog(now, r.backlog(now))
	}
}

func (r *rate) clone() state { c := *r; return &c }
