package naive

// state is what is kept of one limit, together with the count and the capacity of the call that looks
// at it. Lengths of time are in ns.
type state interface {
	capacity() number
	left(now number) number
	// wait returns how long it takes until units are there, at most capacity, if nobody asks.
	wait(now, units number) number
	fullIn(now number) number
	// charge charges units, and says how many: those that there is no room to count are not (FORCE).
	charge(now, slot, units number) (charged number)
	// punish charges a call that was denied (STRICT), except for the units to spare, and says how many
	// it charged, a part of a unit as one.
	punish(now, units, spare number) (charged number)
	refund(now, units number) (back number)
	outOfReach(now number) bool
	// bringTo writes down how the state is read at now: what is full is forgotten, what is out of reach
	// corrected.
	bringTo(now number)
	clone() state
}

// state is a limit with what was found of it, nil for nothing.
func (l Limit) state(found state) state {
	if l.Count == 0 {
		return nobody{}
	}
	switch l.Kind {
	case Rate:
		r := &rate{emission: n(int64(l.Period)).overUp(n(l.Count)), burst: n(l.Burst), full: zero, queue: zero}
		if l.Burst == 0 {
			r.burst = n(l.Count)
		}
		if found != nil {
			r.full, r.queue, r.lifts = found.(*rate).full, found.(*rate).queue, found.(*rate).lifts
		}
		return r
	case Window:
		w := &window{period: n(int64(l.Period)), count: n(l.Count)}
		if found != nil {
			w.log = found.(*window).log
		}
		return w
	case Fixed:
		f := &fixed{windows: l.windows(), count: n(l.Count)}
		if found != nil {
			f.begin, f.used = found.(*fixed).begin, found.(*fixed).used
		}
		return f
	case First:
		f := &first{period: n(int64(l.Period)), count: n(l.Count)}
		if found != nil {
			f.begin, f.used = found.(*first).begin, found.(*first).used
		}
		return f
	}
	panic("no such kind: " + string(l.Kind))
}
