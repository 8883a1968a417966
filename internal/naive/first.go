package naive

import "fmt"

// first is a counter for a window that begins with the first unit taken and lasts the whole period.
type first struct {
	period, count number
	begin, used   number // nothing is used outside of a window
}

// now is the window as it is read at an instant: one that is over is none, and one that begins later, of
// a clock that was set back, begins anew with the same units used.
func (f first) now(now number) first {
	switch {
	case f.outOfReach(now):
		f.begin = now
	case !now.less(f.begin.plus(f.period)):
		f.used = zero
	}
	return f
}

func (f *first) capacity() number { return f.count }

func (f *first) left(now number) number { return most(f.count.minus(f.now(now).used), zero) }

func (f *first) wait(now, units number) number {
	if units.is(zero) || !f.count.less(f.now(now).used.plus(units)) {
		return zero
	}
	return f.fullIn(now)
}

func (f *first) fullIn(now number) number {
	if window := f.now(now); window.used.positive() {
		return window.begin.plus(f.period).minus(now)
	}
	return zero
}

func (f *first) charge(now, _, units number) number {
	f.bringTo(now)
	units = least(units, widest.minus(f.used))
	if f.used.is(zero) {
		f.begin = now
	}
	f.used = f.used.plus(units)
	return units
}

func (f *first) punish(now, units, spare number) number {
	charged := most(least(units, f.left(now).minus(spare)), zero)
	return f.charge(now, now, charged)
}

func (f *first) refund(now, units number) number {
	f.bringTo(now)
	back := least(units, f.used)
	f.used = f.used.minus(back)
	return back
}

func (f first) outOfReach(now number) bool { return f.used.positive() && now.less(f.begin) }

func (f *first) bringTo(now number) { *f = f.now(now) }

func (f *first) clone() state { c := *f; return &c }

func (f *first) String() string { return fmt.Sprint(f.used, "@", f.begin) }
