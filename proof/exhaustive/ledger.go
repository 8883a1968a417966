// Package exhaustive tries every sequence of calls and clock steps, up to a depth, on small limits, against exact
// logs of what was granted. What it runs are the commands as the server runs them, without the server.
package exhaustive

import (
	"slices"
	"strconv"
)

const ms = int64(1_000_000)

// ledger is an exact log of the units that one limit granted, and says whether they are too many. Instants
// are ns of time elapsed: a clock that is set back takes no time. It is too simple to be wrong, and
// keeps all it needs to answer for every interval.
type ledger interface {
	// pass says that the clock has come from one reading to another, and how much time has elapsed since the begin.
	pass(fromNs, toNs, elapsedNs int64)
	// grant logs units for an instant, and says whether the promise holds. Forced units are a debt: they
	// are not promised to be there.
	grant(atNs, units int64, forced bool) (holds bool)
	// room says whether an exact limiter would grant units now, where the clock was never set back.
	room(units int64) bool
	// refund takes the units granted last out of the log.
	refund(units int64)
	clone() ledger
	// key appends all that tells two ledgers apart from now on.
	key(b []byte) []byte
}

type grant struct {
	atNs, units int64
	forced      bool
}

// grants are the log itself, for the kinds that need it.
type grants []grant

func (g *grants) refund(units int64) {
	for units > 0 && len(*g) > 0 {
		last := &(*g)[len(*g)-1]
		taken := min(units, last.units)
		units -= taken
		if last.units -= taken; last.units == 0 {
			*g = (*g)[:len(*g)-1]
		}
	}
}

func (g grants) append(b []byte, elapsedNs int64) []byte {
	for _, one := range g {
		b = one.append(b, elapsedNs)
	}
	return b
}

func (g grant) append(b []byte, elapsedNs int64) []byte {
	b = strconv.AppendInt(b, g.atNs-elapsedNs, 36)
	return append(strconv.AppendInt(append(b, '*'), g.units, 36), ' ')
}

// rate is the promise of RATE: in every interval at most capacity + count x length / period units. That is so for all
// intervals if a bucket of capacity units that leaks exactly count units per period never flows over.
type rate struct {
	grants
	count, periodNs, capacity int64
	elapsedNs                 int64
}

// level is what is in the bucket at an instant, in units x period.
func (r *rate) level(atNs int64) (level int64) {
	var lastNs int64
	for _, g := range r.grants {
		level = max(level-r.count*(g.atNs-lastNs), 0) + g.units*r.periodNs
		lastNs = g.atNs
	}
	return max(level-r.count*max(atNs-lastNs, 0), 0)
}

func (r *rate) pass(_, _, elapsedNs int64) {
	r.elapsedNs = elapsedNs
	if r.level(elapsedNs) == 0 && (len(r.grants) == 0 || r.grants[len(r.grants)-1].atNs <= elapsedNs) {
		r.grants = nil
	}
}

func (r *rate) grant(atNs, units int64, forced bool) bool {
	if n := len(r.grants); n > 0 && atNs < r.grants[n-1].atNs {
		return false // a slot before one that was promised earlier
	}
	r.grants = append(r.grants[:len(r.grants):len(r.grants)], grant{atNs, units, forced})
	return forced || r.level(atNs) <= r.capacity*r.periodNs
}

// room reports whether a bucket has room for units. Its emission interval is rounded up to a whole ns, as documented.
func (r *rate) room(units int64) bool {
	rounded := *r
	rounded.periodNs = (r.periodNs + r.count - 1) / r.count // one unit
	rounded.count = 1
	return rounded.level(r.elapsedNs)+units*rounded.periodNs <= r.capacity*rounded.periodNs
}

func (r *rate) clone() ledger {
	other := *r
	other.grants = slices.Clone(r.grants)
	return &other
}

func (r *rate) key(b []byte) []byte { return r.grants.append(b, r.elapsedNs) }

// window is the promise of WINDOW: at most count units in every interval of a period.
type window struct {
	grants
	count, periodNs int64
	// lateNs is by how much longer a unit may count where there are more charges in a period than are remembered one
	// by one: 1/64 of the period is documented.
	lateNs    int64
	elapsedNs int64
}

// used returns the units of the last ns nanoseconds.
func (w *window) used(ns int64) (units int64) {
	for _, g := range w.grants {
		if g.atNs+ns > w.elapsedNs {
			units += g.units
		}
	}
	return units
}

func (w *window) pass(_, _, elapsedNs int64) {
	w.elapsedNs = elapsedNs
	for len(w.grants) > 0 && w.grants[0].atNs+w.periodNs+w.lateNs <= elapsedNs {
		w.grants = w.grants[1:]
	}
}

func (w *window) grant(atNs, units int64, forced bool) bool {
	w.grants = append(w.grants[:len(w.grants):len(w.grants)], grant{atNs, units, forced})
	return forced || w.used(w.periodNs) <= w.count
}

func (w *window) room(units int64) bool { return w.used(w.periodNs+w.lateNs)+units <= w.count }

func (w *window) clone() ledger {
	other := *w
	other.grants = slices.Clone(w.grants)
	return &other
}

func (w *window) key(b []byte) []byte { return w.grants.append(b, w.elapsedNs) }

// fixed is the promise of FIXED: at most count units from when the clock comes into a window until it goes on to a
// later one. Being set back ends no window.
type fixed struct{ count, periodNs, used int64 }

func (f *fixed) pass(fromNs, toNs, _ int64) {
	if toNs/f.periodNs > fromNs/f.periodNs {
		f.used = 0
	}
}

func (f *fixed) grant(_, units int64, forced bool) bool {
	f.used += units
	return forced || f.used <= f.count
}

func (f *fixed) room(units int64) bool { return f.used+units <= f.count }
func (f *fixed) refund(units int64)    { f.used = max(f.used-units, 0) }
func (f *fixed) clone() ledger         { other := *f; return &other }
func (f *fixed) key(b []byte) []byte   { return strconv.AppendInt(b, f.used, 36) }

// first is the promise of FIXED ... FIRST: the grants, in their order, are those of windows of at most count units
// each, of which each begins with a unit and a period or more after the one before. It keeps all windows that the
// grants may be in: those of a limiter whose clock was set back may be longer.
type first struct {
	count, periodNs int64
	elapsedNs       int64
	windows         []grant // when they may have begun, and the units in them
	exact           grant   // the window of a clock that was never set back
}

func (f *first) pass(_, _, elapsedNs int64) { f.elapsedNs = elapsedNs }

func (f *first) grant(atNs, units int64, forced bool) bool {
	var next []grant
	add := func(beganNs, used int64) {
		g := grant{atNs: beganNs, units: used}
		if (forced || used <= f.count) && !slices.Contains(next, g) {
			next = append(next, g)
		}
	}
	if len(f.windows) == 0 {
		add(atNs, units)
	}
	for _, w := range f.windows {
		add(w.atNs, w.units+units)
		if w.atNs+f.periodNs <= atNs {
			add(atNs, units)
		}
	}
	f.windows = next
	if f.over() {
		f.exact = grant{atNs: atNs}
	}
	f.exact.units += units
	return len(next) > 0
}

func (f *first) over() bool { return f.exact.units == 0 || f.exact.atNs+f.periodNs <= f.elapsedNs }

func (f *first) room(units int64) bool {
	if f.over() {
		return units <= f.count
	}
	return f.exact.units+units <= f.count
}

func (f *first) refund(units int64) {
	for i := range f.windows {
		f.windows[i].units -= units
		if f.windows[i].units <= 0 {
			f.windows = nil // a window without units is over
			return
		}
	}
}

func (f *first) clone() ledger {
	other := *f
	other.windows = slices.Clone(f.windows)
	return &other
}

func (f *first) key(b []byte) []byte {
	for _, w := range append(f.windows[:len(f.windows):len(f.windows)], f.exact) {
		w.atNs = max(w.atNs, f.elapsedNs-f.periodNs) // over is over
		b = w.append(b, f.elapsedNs)
	}
	return b
}

// nobody is the promise of a count of 0: no unit is granted, and none is needed where none is asked.
type nobody struct{ idle bool }

func (*nobody) pass(_, _, _ int64)                       {}
func (n *nobody) grant(_, units int64, forced bool) bool { return n.idle || units == 0 || forced }
func (n *nobody) room(units int64) bool                  { return n.idle || units == 0 }
func (*nobody) refund(int64)                             {}
func (n *nobody) clone() ledger                          { return n }
func (*nobody) key(b []byte) []byte                      { return b }
