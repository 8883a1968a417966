package naive

// fixed is a counter for one calendar window: a multiple of the period since the epoch, and what was
// used in it.
type fixed struct {
	period, count number
	begin, used   number
}

func (f *fixed) windowOf(now number) number { return now.over(f.period).times(f.period) }

func (f *fixed) usedNow(now number) number {
	if f.begin.less(f.windowOf(now)) {
		return zero
	}
	return f.used
}

func (f *fixed) capacity() number { return f.count }

func (f *fixed) left(now number) number { return most(f.count.minus(f.usedNow(now)), zero) }

func (f *fixed) wait(now, units number) number {
	if units.is(zero) || !f.count.less(f.usedNow(now).plus(units)) {
		return zero
	}
	return f.windowOf(now).plus(f.period).minus(now)
}

func (f *fixed) fullIn(now number) number {
	if f.usedNow(now).is(zero) {
		return zero
	}
	return f.windowOf(now).plus(f.period).minus(now)
}

func (f *fixed) set(now, used number) { f.begin, f.used = f.windowOf(now), used }

func (f *fixed) charge(now, _, units number) { f.set(now, f.usedNow(now).plus(units)) }

func (f *fixed) punish(now, units, spare number) bool {
	charged := most(least(units, f.left(now).minus(spare)), zero)
	f.charge(now, now, charged)
	return charged.positive()
}

func (f *fixed) refund(now, units number) number {
	back := least(units, f.usedNow(now))
	f.set(now, f.usedNow(now).minus(back))
	return back
}

func (f *fixed) outOfReach(now number) bool {
	return f.used.positive() && f.windowOf(now).less(f.begin)
}

func (f *fixed) settle(now number) { f.set(now, f.usedNow(now)) }

func (f *fixed) clone() state { c := *f; return &c }
