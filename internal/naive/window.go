package naive

import (
	"fmt"
	"slices"
)

// window is a log: what was granted when, oldest first. No interval of the period's length holds more
// than count units.
type window struct {
	period, count number
	log           []grant
}

type grant struct{ at, units number }

// The log's length is bounded (state.md): up to so many grants are kept each at its own instant.
const exactGrants = 64

// slotEnd is the last instant of the time slot of an instant. Time itself ends at 2^63 - 1 ns (state.md).
func (w *window) slotEnd(at number) number {
	slot := w.period.over(n(exactGrants)).plus(n(1))
	return least(at.over(slot).plus(n(1)).times(slot).minus(n(1)), endOfTime)
}

// counting is the log as it counts now. What is later than the slot of now was written by another clock,
// and counts as granted now.
func (w *window) counting(now number) (log []grant) {
	ahead := zero
	for _, g := range w.log {
		if w.slotEnd(now).less(g.at) {
			ahead = ahead.plus(g.units)
		} else if now.less(g.at.plus(w.period)) {
			log = append(log, g)
		}
	}
	if ahead.positive() {
		log = w.added(log, now, ahead)
	}
	return log
}

// added is the log with one grant more.
func (w *window) added(log []grant, now, units number) []grant {
	at := now
	if len(log) >= exactGrants {
		at = w.slotEnd(now)
	}
	if len(log) == 0 {
		return []grant{{at, units}}
	}
	// Instants rise: a grant that is not later than the last one joins it.
	if last := &log[len(log)-1]; !last.at.less(now) || last.at.is(at) {
		last.units = last.units.plus(units)
		return log
	}
	if len(log) > exactGrants {
		log = w.joined(log)
	}
	return append(log, grant{at, units})
}

// joined is the log with the oldest two grants that share a slot made one, at the later instant.
func (w *window) joined(log []grant) []grant {
	for i := range log[1:] {
		if w.slotEnd(log[i].at).is(w.slotEnd(log[i+1].at)) {
			log[i+1].units = log[i+1].units.plus(log[i].units)
			return slices.Delete(log, i, i+1)
		}
	}
	panic("more grants than slots in a period")
}

func (w *window) used(now number) number { return sum(w.counting(now)) }

func (w *window) capacity() number { return w.count }

func (w *window) left(now number) number { return most(w.count.minus(w.used(now)), zero) }

// wait lets the grants leave, one after the other, until there is room.
func (w *window) wait(now, units number) number {
	if units.is(zero) {
		return zero
	}
	log, waited := w.counting(now), zero
	for total := sum(log).plus(units); w.count.less(total); log = log[1:] {
		waited, total = log[0].at.plus(w.period).minus(now), total.minus(log[0].units)
	}
	return waited
}

func (w *window) fullIn(now number) number {
	log := w.counting(now)
	if len(log) == 0 {
		return zero
	}
	return log[len(log)-1].at.plus(w.period).minus(now)
}

func (w *window) charge(now, _, units number) number {
	units = least(units, widest.minus(w.used(now)))
	if w.log = w.counting(now); units.positive() {
		w.log = w.added(w.log, now, units)
	}
	return units
}

// punish charges units in place of as many that were charged longest ago, where there is no room.
func (w *window) punish(now, units, spare number) number {
	room := most(w.count.minus(spare), zero)
	units = least(units, room)
	w.log = w.counting(now)
	for tooMany := least(units, sum(w.log).plus(units).minus(room)); tooMany.positive(); {
		oldest := &w.log[0]
		dropped := least(oldest.units, tooMany)
		oldest.units, tooMany = oldest.units.minus(dropped), tooMany.minus(dropped)
		if oldest.units.is(zero) {
			w.log = w.log[1:]
		}
	}
	if units.positive() {
		w.log = w.added(w.log, now, units)
	}
	return units
}

// refund takes back what was charged last.
func (w *window) refund(now, units number) number {
	w.log = w.counting(now)
	back := least(units, sum(w.log))
	for rest := back; rest.positive(); {
		last := &w.log[len(w.log)-1]
		dropped := least(last.units, rest)
		last.units, rest = last.units.minus(dropped), rest.minus(dropped)
		if last.units.is(zero) {
			w.log = w.log[:len(w.log)-1]
		}
	}
	return back
}

func (w *window) outOfReach(now number) bool {
	return len(w.log) > 0 && w.slotEnd(now).less(w.log[len(w.log)-1].at)
}

func (w *window) bringTo(now number) { w.log = w.counting(now) }

func (w *window) clone() state { c := *w; c.log = slices.Clone(w.log); return &c }

func sum(log []grant) number {
	units := zero
	for _, g := range log {
		units = units.plus(g.units)
	}
	return units
}

func (w *window) String() string {
	s := ""
	for _, g := range w.log {
		s += fmt.Sprint(g.units, "@", g.at, " ")
	}
	return s
}
