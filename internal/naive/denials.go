package naive

import "slices"

// countDenial counts a call that the key has denied, in a window that begins with the first one. It says whether it was
// the last of those that it takes for a ban. Then the count starts anew.
func (a *asked) countDenial(now number, after After) (last bool) {
	m := a.Model
	l := Limit{Kind: First, Count: after.Count, Period: after.Period}
	count := kept{Denials, l.id(), l.state(nil)}
	at := slices.IndexFunc(m.kept, count.isLike)
	if at >= 0 {
		count.state = l.state(m.kept[at].state.clone())
	}
	count.state.charge(now, now, n(1))
	if last = !count.state.left(now).positive(); last {
		count = count.emptied()
	}
	a.denials, a.changes = []kept{count}, a.changes || !last || at >= 0
	return last
}
