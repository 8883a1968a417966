package naive

// banned says whether a ban is in force.
func (m *Model) banned(now number) bool { return now.less(m.ban) }

// Ban is CL.BAN. It answers the rest of the ban in ms.
func (m *Model) Ban(nowNs, d int64) int64 {
	now := n(nowNs)
	m.look(now)
	switch {
	case d == 0 && len(m.kept) == 0:
		*m = Model{}
	case d == 0:
		m.ban = zero
	default:
		m.banUntil(now.plus(n(d)))
	}
	return rounded(m.restOfBan(now), millisecond)
}

func (m *Model) restOfBan(now number) number { return most(m.ban.minus(now), zero) }

// banUntil bans the key, unless it is banned for longer. A later expiry of the key stays.
func (m *Model) banUntil(until number) {
	if m.ban.less(until) {
		m.ban, m.expiresMs = until, most(m.expiresMs, wholeSecond(until))
	}
}

// banDenied bans the key for a call that was denied, before which it had been written so often. If the call changed it,
// the key stays no longer than for what it holds.
func (m *Model) banDenied(until number, writes int) {
	if m.writes > writes {
		m.expiresMs = m.due
	}
	m.banUntil(until)
}

// ofTheBan is what a decision on a banned key answers, whose limits let it through after a time.
func (m *Model) ofTheBan(now number, limits []Limit, after number, granted int64) Reply {
	rest := m.restOfBan(now)
	return Reply{
		Limited: 1, Limit: limits[0].state(nil).capacity().Int64(), Granted: granted,
		RetryAfter: later(rest, after), ResetAfter: rest, NextAfter: rest, Wait: zero,
	}
}

// later returns the longer of two times. none is longer than any other.
func later(a, b number) number {
	if a.is(none) || b.is(none) {
		return none
	}
	return most(a, b)
}
