package naive

import (
	"slices"
	"time"
)

// mostKept is how many limits a key holds.
const mostKept = 8

// unknown is the id of a RATE that was alone on its key, as a number without a period.
const unknown = ""

// claims is, for each limit of a call, which of those on the key it goes on from, -1 for none.
func (m *Model) claims(limits []Limit) (claims []int) {
	claim := func(l Limit, fits func(kept) bool) int {
		if l.Count == 0 {
			return -1 // it has no state
		}
		for i, k := range m.kept {
			if k.kind == l.Kind && fits(k) && !slices.Contains(claims, i) {
				return i
			}
		}
		return -1
	}
	for _, l := range limits {
		claims = append(claims, claim(l, func(k kept) bool { return k.id == l.id() || m.soleRate() }))
	}
	// Its period is unknown, so it goes to the first that would begin anew.
	for i, l := range limits {
		if claims[i] < 0 {
			claims[i] = claim(l, func(k kept) bool { return k.kind == Rate && k.id == unknown })
		}
	}
	return claims
}

// soleRate says whether the key is one rate and nothing else, with or without reservations: that goes to
// the first rate of a call, whatever its period.
func (m *Model) soleRate() bool { return len(m.kept) == 1 && m.kept[0].kind == Rate }

// write makes the stack what the key holds, followed by a count of denials, if there is one, and what the call does not
// name. Of limits that the key lacks it adds those of which adds says so.
func (m *Model) write(now number, limits []Limit, stack []state, denials []kept, adds func(limit int) bool) {
	claims := m.claims(limits)
	var rest, next []kept
	for i, k := range m.kept {
		if !slices.Contains(claims, i) && !slices.ContainsFunc(denials, k.isLike) {
			rest = append(rest, k)
		}
	}
	fullIn := zero
	var before, zeros []kept // a rate that is not written, and those of 0, in front of the first limit that is written
	for i, s := range stack {
		switch s.bringTo(now); {
		case limits[i].Count == 0:
			if limits[i].Kind == Rate && len(next) == 0 && adds(i) {
				some := limits[i]
				some.Count = 1
				zeros = append(zeros, kept{Rate, limits[i].id(), some.state(nil)})
			}
		case claims[i] >= 0 || adds(i):
			next = append(next, kept{limits[i].Kind, limits[i].id(), s})
			fullIn = most(fullIn, s.fullIn(now))
		case limits[i].Kind == Rate && len(next) == 0:
			before = []kept{{Rate, limits[i].id(), limits[i].state(nil)}}
		}
	}
	for _, k := range denials {
		if in := k.state.fullIn(now); in.positive() {
			next, fullIn = append(next, k), most(fullIn, in)
		}
	}
	if len(next) == 1 && next[0].kind == Rate && before != nil && len(left(now, append(before, next...), rest)) == 0 {
		next = append(before, next...) // or a call with both would take the number for its state
	}
	if len(next) == 1 && next[0].kind == Rate {
		zeros = slices.DeleteFunc(zeros, func(k kept) bool { return k.isLike(next[0]) || slices.ContainsFunc(rest, k.isLike) })
		rest = append(zeros[:min(len(zeros), 1)], rest...) // it is full, and left where the other would lose its period
	}
	expired, wasThere := m.expiresMs, m.exists()
	m.kept = append(next, left(now, next, rest)...)
	expires, stays := now.plus(fullIn), false
	for _, k := range m.kept[len(next):] {
		if k.endIsUnknown() {
			stays = true
		} else {
			expires = most(expires, k.fullAt())
		}
	}
	m.forgetPeriod()
	if m.fullAt = expires; expires.is(now) {
		m.fullAt = zero
	}
	if m.fullAt.is(zero) && !stays {
		m.kept = nil
	}
	if !m.banned(now) {
		m.ban = zero // it is over
	}
	m.due = wholeSecond(most(expires, m.ban))
	switch m.expiresMs = m.due; {
	case stays:
		m.expiresMs = most(most(m.expiresMs, expired), wholeSecond(now.plus(n(1))))
		m.due = m.expiresMs
	case wasThere && !m.ban.positive():
		m.expiresMs = inUse(expired, m.expiresMs, now)
	}
	if m.writes++; !m.exists() {
		*m = Model{lasting: m.lasting, writes: m.writes}
	}
}

// inUse is when a key expires that was there and is full in the second due: it stays for up to a quarter longer than
// that, but no more than an hour. As long as its expiry is within that, it is left as it is; otherwise it becomes the
// latest of these.
func inUse(expired, due, now number) number {
	inSeconds := due.over(n(1000)).minus(now.over(n(int64(time.Second))))
	latest := due.plus(least(inSeconds.over(n(4)), n(3600)).times(n(1000)))
	if expired.less(due) || latest.less(expired) {
		return latest
	}
	return expired
}

// left is what stays of the rest, which the call did not name: as it is, until it is full. Where it is full
// and something of the same kind and period follows, its place stays, empty.
func left(now number, named, rest []kept) (left []kept) {
	var full []kept // the rates that go
	for i, k := range rest {
		switch {
		case k.endIsUnknown() || now.less(k.fullAt()):
			left = append(left, k)
		case slices.ContainsFunc(rest[i+1:], func(other kept) bool { return counts(now, k, other) }):
			left = append(left, k.emptied())
		case k.kind == Rate:
			full = append(full, k.emptied())
		}
	}
	if len(named) == 1 && named[0].kind == Rate && len(left) == 0 && len(full) > 0 {
		left = full[:1] // so that the other does not lose its period
	}
	for len(named)+len(left) > mostKept {
		soonest := len(left) - 1
		for i := len(left) - 2; i >= 0; i-- {
			if !slices.ContainsFunc(left[i+1:], left[i].isLike) && left[i].goesBefore(left[soonest]) {
				soonest = i
			}
		}
		left = slices.Delete(left, soonest, soonest+1)
	}
	return left
}

// counts says whether a state that is left is told from another one by its order.
func counts(now number, k, other kept) bool {
	return k.isLike(other) && (other.endIsUnknown() || now.less(other.fullAt()))
}

// forgetPeriod makes a RATE that is alone the number that CL.THROTTLE reads, which has neither a period nor
// lifts. With slots that are reserved it is another form, which has a period.
func (m *Model) forgetPeriod() {
	if !m.soleRate() {
		return
	}
	r := m.kept[0].state.(*rate)
	if r.lifts = nil; r.queue.is(zero) {
		m.kept[0].id = unknown
	}
}

func (k kept) isLike(other kept) bool { return k.kind == other.kind && k.id == other.id }

// goesBefore says whether k is forgotten before another one if there is no room for both.
func (k kept) goesBefore(other kept) bool {
	switch {
	case k.endIsUnknown() != other.endIsUnknown():
		return other.endIsUnknown()
	case k.endIsUnknown():
		return other.state.(*fixed).number().less(k.state.(*fixed).number())
	}
	return k.fullAt().less(other.fullAt())
}

// endIsUnknown says whether the key does not tell when a window ends: it has a hash of a calendar's.
func (k kept) endIsUnknown() bool {
	f, ok := k.state.(*fixed)
	return ok && f.used.positive() && f.windows.hashed()
}

// fullAt is the instant from which a state is full, as it was written, by whatever clock that was.
func (k kept) fullAt() number {
	switch s := k.state.(type) {
	case *rate:
		return s.full
	case *window:
		if len(s.log) > 0 {
			return s.log[len(s.log)-1].at.plus(s.period)
		}
	case *fixed:
		if s.used.positive() {
			_, end := s.windows.at(s.begin)
			return end
		}
	case *first:
		if s.used.positive() {
			return s.begin.plus(s.period)
		}
	}
	return zero
}

// emptied is k when it is full.
func (k kept) emptied() kept {
	k.state = k.state.clone()
	switch s := k.state.(type) {
	case *rate:
		s.full, s.queue, s.lifts = zero, zero, nil
	case *window:
		s.log = nil
	case *fixed:
		s.used = zero
	case *first:
		s.used = zero
	}
	return k
}
