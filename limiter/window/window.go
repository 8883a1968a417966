// Package window is the sliding window limiter: never more than count units in any
// interval of the period's length, wherever it begins. Exact integers, free of clock,
// I/O and allocation.
//
// A unit granted at instant t occupies [t, t+period): it is counted up to the last
// nanosecond before t+period and is available again at t+period.
//
// # Bounded memory
//
// The state is a list of entries, oldest first. An entry is a number of units and the
// one instant they are all counted from. Up to 64 live entries, each charge gets an
// entry of its own at its own instant (charges at the same instant share one), and
// every answer is exact. Beyond that, units share entries by time slot. Slots are the
// multiples of
//
//	slot = period/64 + 1 ns    (integer division)
//
// and the rule is: a unit counts from an instant in its own slot that is no earlier than
// its grant. A charge that finds 64 live entries opens one at the last instant of its
// slot, and further charges in that slot join it. When a 66th entry would be needed, the
// oldest two that share a slot become one, at the later instant.
//
// Why that always fits: period < 64 x slot, so the instants of one period touch at most
// 65 slots, and of 66 live entries two lie in the same slot. (An entry later than now is
// in the slot of now, and adds none.) The new entry is not one of the two: the 65th was
// opened at the last instant of its slot, so a charge that does not join it comes later.
//
// Why it never admits a unit too many: every unit is counted from its grant or later,
// hence for at least as long as the exact window counts it.
//
// Why nobody waits more than period/64 longer: an instant in the same slot is at most
// slot - 1 = period/64 ns later than the grant.
//
// Shared entries leave the window like any other, so a limiter that saw at most 64
// charges in every period for one period (and a slot) is exact again.
//
// # A clock that was set back
//
// An entry later than the slot of now was not written on this clock. It is read as if
// charged now: it blocks for one period from now (and at most a slot), no longer. Only
// storing makes that last, since the next reading happens at another now. So every write
// brings such entries to the instant of the call before anything else. Code that denies a
// request calls BringTo and stores the state if that returns true. Entries later than now but in its slot stay,
// and charges join the last of them.
//
// # Encoding
//
// A state without entries is no bytes at all. Any other is, numbers little-endian and
// unsigned:
//
//	offset   size        content
//	0        1           n, the number of entries, 1 to 65
//	1        1           U, the bytes per number of units, 1 to 8
//	2        (n-1) x T   for each entry but the last, the lowest T bytes of its instant
//	then     n x U       for each entry, its units
//	then     8           the instant of the last entry, ns since the Unix epoch
//
// where T is the number of bytes that hold span = period + slot - 2 ns, the longest time
// between two entries that a charge leaves behind (0 bytes hold 0). It follows from the
// period, and is 4 bytes up to 4.2 s, 5 up to 18 minutes, 6 up to 3.2 days. So an entry's
// age, the last instant minus its own, is known from the lowest T bytes of both.
//
// There is one encoding of every state, and Decode refuses all others: the length is
// exactly 2 + (n-1)T + nU + 8; ages fall strictly from at most span to above 0; every
// entry holds at least one unit; U is the smallest that holds the largest number of units;
// no instant is negative, and the last one and the sum of all units are below 2^63; and of
// 65 entries the last one is at the last instant of a slot.
//
// The count is not part of it: raising or lowering a limit's count keeps the state.
//
// All instants are nanoseconds since the Unix epoch, all durations nanoseconds. Instants
// must not be negative. An instant or duration of 2^63 ns or more is given as 2^63 - 1.
package window

import (
	"errors"
	"math"
	"math/bits"
	"time"
)

// Never is the RetryAfter of a quantity that can never be available.
const Never = int64(-1)

// The errors of New. Their texts name no argument, so that a caller can put its own
// name in front.
var (
	ErrCount    = errors.New("must be at least 1")
	ErrPeriod   = errors.New("must be positive")
	ErrTooLong  = errors.New("longer than 292 years")
	ErrEncoding = errors.New("not the state of this window")
)

const (
	slotsPerPeriod = 64
	exactEntries   = 64                 // up to here every charge keeps its own instant
	maxEntries     = slotsPerPeriod + 1 // the number of slots one period can touch
)

// Limit is at most count units in any interval of the period's length. The zero Limit
// is not usable; call New.
type Limit struct {
	count  int64
	period int64
	slot   int64
}

// New returns the limit of count units in any interval of n times unit.
//
// Ranges: count (ErrCount), n and unit (ErrPeriod) are at least 1; the period is below
// 2^63 ns, 292 years (ErrTooLong).
func New(count, n int64, unit time.Duration) (Limit, error) {
	switch {
	case count < 1:
		return Limit{}, ErrCount
	case n < 1 || unit < 1:
		return Limit{}, ErrPeriod
	}
	hi, period := bits.Mul64(uint64(n), uint64(unit))
	if hi != 0 || period > math.MaxInt64 {
		return Limit{}, ErrTooLong
	}
	return Limit{count: count, period: int64(period), slot: int64(period)/slotsPerPeriod + 1}, nil
}

// Window is a limit of kind WINDOW: the limit and its state. It is what package stack decides with. The
// methods that read or write the state take the instant as nowNs. It holds no pointers and may be
// copied; it is large (1 KB), so pass it by address.
type Window struct {
	Limit
	entries
}

// Available is the number of units that could be charged at nowNs, 0 to count.
func (w *Window) Available(nowNs int64) int64 {
	_, used := w.live(nowNs)
	return max(w.count-used, 0)
}

// RetryAfter is the time in ns until quantity units are available if nobody else asks:
// 0 when they are now, Never when quantity is more than count.
func (w *Window) RetryAfter(nowNs, quantity int64) int64 {
	switch {
	case quantity > w.count:
		return Never
	case quantity <= 0:
		return 0
	}
	first, used := w.live(nowNs)
	return w.untilFreed(first, nowNs, quantity-(w.count-used))
}

// Standing is the count, what Available returns, and the times in ns until all of count is available
// and until more units are than now, both 0 when no unit is used.
func (w *Window) Standing(nowNs int64) (count, available, resetNs, nextNs int64) {
	first, used := w.live(nowNs)
	if used > 0 {
		resetNs = w.untilLeft(first, w.end-1, nowNs)
		nextNs = w.untilFreed(first, nowNs, max(used-w.count, 0)+1)
	}
	return w.count, max(w.count-used, 0), resetNs, nextNs
}

// Entries is how many entries the state has, at most 65: those that count, once it was brought to now.
func (w *Window) Entries() int { return w.end - w.first }

// LongestWait does not bound a wait: no unit is charged for an instant to come.
func (w *Window) LongestWait() int64 { return math.MaxInt64 }

// ExpireAt is the instant from which the state equals no state at all, 0 when it already
// does.
func (w *Window) ExpireAt() uint64 {
	if w.empty() {
		return 0
	}
	return uint64(addSaturating(w.last, w.period))
}

// Charge takes quantity units at nowNs, whatever the request waits for, or as many as are available
// if those are fewer. Without any the state stays as it is.
func (w *Window) Charge(nowNs, quantity, _ int64) {
	quantity = min(quantity, w.Available(nowNs))
	if quantity <= 0 {
		return
	}
	w.BringTo(nowNs)
	w.record(nowNs, quantity)
	w.total += quantity
}

// Force takes quantity units at nowNs, even if they are not available, and returns how many
// it took: fewer than quantity only if more than 2^63 - 1 would be counted.
func (w *Window) Force(nowNs, quantity int64) int64 {
	w.BringTo(nowNs)
	quantity = min(quantity, math.MaxInt64-w.total)
	if quantity <= 0 {
		return 0
	}
	w.record(nowNs, quantity)
	w.total += quantity
	return quantity
}

// ChargeDenied takes quantity units at nowNs for a request that was denied, or all but spare of count
// if those are fewer, and returns how many it took. If there is no room for them, as many of
// the oldest units leave the window, so no more than count are ever counted. Retries keep
// the window full.
func (w *Window) ChargeDenied(nowNs, quantity, spare int64) int64 {
	count := w.count - spare
	quantity = min(quantity, count)
	if quantity <= 0 {
		return 0
	}
	w.BringTo(nowNs)
	excess := min(w.total-(count-quantity), quantity)
	for excess > 0 {
		units := w.unitsOf(w.first)
		if units > excess {
			w.setUnits(w.first, units-excess)
			w.total -= excess
			break
		}
		excess -= units
		w.total -= units
		w.first++
	}
	w.record(nowNs, quantity)
	w.total += quantity
	return quantity
}

// Refund returns up to quantity units, as many as are counted at nowNs, those charged last
// first. It reports how many it returned. If that is 0, the state is the same in effect.
//
// A refund of what was just charged restores the state byte for byte, as far as the
// state concerned nowNs: entries that had left the window before the charge stay away.
// There is one exception. A charge that had to join two old entries (of 66, see the
// package comment) leaves them joined. The same number is then available now. In the
// coming period there are never more, and they come at most period/64 later.
func (w *Window) Refund(nowNs, quantity int64) int64 {
	if quantity <= 0 {
		return 0
	}
	w.BringTo(nowNs)
	quantity = min(quantity, w.total)
	w.total -= quantity
	for left := quantity; left > 0; {
		units := w.unitsOf(w.end - 1)
		if units > left {
			w.setUnits(w.end-1, units-left)
			break
		}
		left -= units
		w.pop()
	}
	return quantity
}

// Decision is what comes of a request, and the state after it: what BringTo, RetryAfter and Standing return.
type Decision struct {
	Corrected                                  bool
	RetryNs, Count, Available, ResetNs, NextNs int64
}

// TakeTo is BringTo, RetryAfter, Charge of a quantity that is available, and Standing, in one.
func (w *Window) TakeTo(d *Decision, nowNs, quantity int64) {
	d.Corrected = w.BringTo(nowNs)
	d.RetryNs, d.ResetNs, d.NextNs = 0, 0, 0
	switch lacking := quantity - (w.count - w.total); {
	case quantity > w.count:
		d.RetryNs = Never
	case quantity <= 0:
	case lacking > 0:
		d.RetryNs = w.freedAfter(nowNs, lacking)
	default:
		w.record(nowNs, quantity)
		w.total += quantity
	}
	free := w.count - w.total
	d.Count, d.Available = w.count, max(free, 0)
	if w.total > 0 {
		d.ResetNs = addSaturating(w.period, w.last-nowNs)
		d.NextNs = w.freedAfter(nowNs, max(-free, 0)+1)
	}
}

// freedAfter is untilFreed of a state that was brought to nowNs: no entry is misdated.
func (w *Window) freedAfter(nowNs, units int64) int64 {
	i := w.first
	for of := w.unitsOf(i); units > of; of = w.unitsOf(i) {
		units -= of
		i++
	}
	return addSaturating(w.period, w.instant(i)-nowNs)
}

// BringTo brings the state to nowNs: it drops entries that have left the window. If the clock was
// set back, it rewrites later entries as charged now, and returns true: the state then has to be
// stored, even if the request is denied. Otherwise it would block for as long as the clock was set back.
func (w *Window) BringTo(nowNs int64) (corrected bool) {
	w.first, w.total = w.live(nowNs)
	var ahead int64
	for !w.empty() && w.misdated(w.last, nowNs) {
		ahead += w.unitsOf(w.end - 1)
		w.pop()
	}
	if ahead > 0 {
		w.record(nowNs, ahead)
	}
	return ahead > 0
}

// live returns the index of the first entry that is still in the window at nowNs, and the
// units from there on.
func (w *Window) live(nowNs int64) (first int, used int64) {
	first, used = w.first, w.total
	for first < w.end && nowNs-w.instant(first) >= w.period {
		used -= w.unitsOf(first)
		first++
	}
	return first, used
}

// untilFreed is the time in ns until at least units of the entries from first on have
// left the window; there must be as many.
func (w *Window) untilFreed(first int, nowNs, units int64) int64 {
	if units <= 0 {
		return 0
	}
	i := first
	for ; units > w.unitsOf(i); i++ {
		units -= w.unitsOf(i)
	}
	return w.untilLeft(first, i, nowNs)
}

// untilLeft is the time in ns until entry i, one of those from first on, has left the
// window.
func (w *Window) untilLeft(first, i int, nowNs int64) int64 {
	instant := w.instant(i)
	if w.misdated(instant, nowNs) {
		// Read it where BringTo would write it: with all that are misdated as one.
		for i > first && w.misdated(w.instant(i-1), nowNs) {
			i--
		}
		last := int64(-1)
		if i > first {
			last = w.instant(i - 1)
		}
		instant = w.countFrom(last, i-first, nowNs)
	}
	return addSaturating(w.period, instant-nowNs)
}

// misdated says that an instant is later than any that a charge at nowNs or earlier
// counts from: the clock was set back since.
func (l *Limit) misdated(instant, nowNs int64) bool {
	return instant > nowNs && instant > l.lastOfSlot(nowNs)
}

// record adds an entry for units charged at nowNs, or lets them join the last one. The
// entries must have been brought to nowNs. It leaves the total alone.
func (w *Window) record(nowNs, units int64) {
	if w.empty() {
		w.push(nowNs, units, w.instantWidth())
		return
	}
	instant := w.countFrom(w.last, w.end-w.first, nowNs)
	if instant == w.last {
		w.setUnits(w.end-1, w.unitsOf(w.end-1)+units)
		return
	}
	if w.end-w.first == maxEntries {
		w.mergeOldest()
	}
	w.push(instant, units, w.instantWidth())
}

// countFrom is the instant that units charged at nowNs count from when there are so
// many entries, the last of them at instant last.
func (l *Limit) countFrom(last int64, entries int, nowNs int64) int64 {
	switch {
	case last >= nowNs:
		return last
	case entries < exactEntries:
		return nowNs
	default:
		return l.lastOfSlot(nowNs)
	}
}

// mergeOldest makes the oldest two entries that share a slot one, at the later instant.
// Two do when there are 65 and a charge needs an entry in yet another slot.
func (w *Window) mergeOldest() {
	slotEnd := w.lastOfSlot(w.instant(w.first))
	for i := w.first; i+1 < w.end; i++ {
		next := w.instant(i + 1)
		if next <= slotEnd {
			w.setUnits(i+1, w.unitsOf(i)+w.unitsOf(i+1))
			w.remove(i)
			return
		}
		for slotEnd < next { // cheaper than a division; 66 turns for all entries together
			slotEnd = addSaturating(slotEnd, w.slot)
		}
	}
}

// span is the longest time in ns between two entries: a charge leaves none that is
// older than its instant - period, and none later than its slot.
func (l *Limit) span() uint64 { return uint64(l.period) + uint64(l.slot) - 2 }

// instantWidth is the number of bytes of an instant that an entry keeps.
func (l *Limit) instantWidth() int { return width(l.span()) }

// lastOfSlot is the last instant of the slot that contains instant.
func (l *Limit) lastOfSlot(instant int64) int64 {
	return addSaturating(instant-instant%l.slot, l.slot-1)
}

// addSaturating is a + b for b that is not negative, or a that is not, at most 2^63 - 1.
func addSaturating(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
