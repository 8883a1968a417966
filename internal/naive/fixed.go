package naive

import "fmt"

// fixed is a counter for one window of those that its windows divide time into, and what was used in it.
type fixed struct {
	windows     windows
	count       number
	begin, used number
}

func (f *fixed) usedNow(now number) number {
	if begin, _ := f.windows.at(now); f.begin.less(begin) {
		return zero
	}
	return f.used
}

// number is the number of its window.
func (f *fixed) number() number { return f.windows.number(f.begin) }

func (f *fixed) capacity() number { return f.count }

func (f *fixed) left(now number) number { return most(f.count.minus(f.usedNow(now)), zero) }

func (f *fixed) wait(now, units number) number {
	if units.is(zero) || !f.count.less(f.usedNow(now).plus(units)) {
		return zero
	}
	return f.untilNext(now)
}

func (f *fixed) untilNext(now number) number {
	_, end := f.windows.at(now)
	return end.minus(now)
}

func (f *fixed) fullIn(now number) number {
	if f.usedNow(now).is(zero) {
		return zero
	}
	return f.untilNext(now)
}

func (f *fixed) set(now, used number) {
	f.begin, _ = f.windows.at(now)
	f.used = used
}

func (f *fixed) charge(now, _, units number) number {
	units = least(units, widest.minus(f.usedNow(now)))
	f.set(now, f.usedNow(now).plus(units))
	return units
}

func (f *fixed) punish(now, units, spare number) number {
	charged := most(least(units, f.left(now).minus(spare)), zero)
	return f.charge(now, now, charged)
}

func (f *fixed) refund(now, units number) number {
	back := least(units, f.usedNow(now))
	f.set(now, f.usedNow(now).minus(back))
	return back
}

func (f *fixed) outOfReach(now number) bool {
	begin, _ := f.windows.at(now)
	return f.used.positive() && begin.less(f.begin)
}

func (f *fixed) bringTo(now number) { f.set(now, f.usedNow(now)) }

func (f *fixed) clone() state { c := *f; return &c }

func (f *fixed) String() string { return fmt.Sprint(f.used, "@", f.begin) }
