package line

// The order of callers in turn: the higher priority first; within a priority groups take turns; within a group the order of
// arrival. The groups of a priority form a queue. A new group joins at its end, and the first group moves to its end when one of
// its callers is let in. So between two callers of a group that are let in, each other group of their priority has at most one, and a
// new group is behind at most one caller of each. A caller that leaves without being let in uses up no turn of its group.

// Place is what decides where a caller stands among those in turn.
type Place struct {
	Priority int64
	Group    []byte // empty for the one group of all callers that name none
}

// rank is the callers of one priority.
type rank struct {
	priority int64
	lower    *rank // the next lower one; of a spare rank the next spare one
	groups   list[group, *group]
	count    int64 // of callers
}

// group is callers of one rank that name the same group.
type group struct {
	rank         *rank
	key          groupKey
	name         []byte // the memory of key.name
	links[group]        // in its rank; of a spare group, next is the next spare one
	callers      entries
}

func (g *group) linksOf() *links[group] { return &g.links }

type groupKey struct {
	line     ID
	priority int64
	name     string
}

// first is the first in line of those in turn, or nil.
func (l *line) first() *entry {
	if l.highest == nil {
		return nil
	}
	return l.highest.groups.first.callers.first
}

// join puts a caller among those in turn.
func (q *Lines) join(e *entry, at Place) {
	g := q.openGroup(e.line, at)
	e.group = g
	e.line.inTurn++
	g.callers.append(e)
	g.rank.count++
}

// drop takes a caller from among those in turn.
func (q *Lines) drop(e *entry) {
	g := e.group
	e.group = nil
	e.line.inTurn--
	g.callers.remove(e)
	g.rank.count--
	if g.callers.first == nil {
		q.closeGroup(e.line, g)
	}
}

// openRank returns the rank of a priority, which it makes if there is none. There are few priorities.
func (q *Lines) openRank(l *line, priority int64) *rank {
	at := &l.highest
	for *at != nil && (*at).priority > priority {
		at = &(*at).lower
	}
	if *at != nil && (*at).priority == priority {
		return *at
	}
	r := q.spareRanks
	if r != nil {
		q.spareRanks = r.lower
	} else {
		r = &rank{}
	}
	*r = rank{priority: priority, lower: *at}
	*at = r
	return r
}

func (q *Lines) closeRank(l *line, r *rank) {
	at := &l.highest
	for *at != r {
		at = &(*at).lower
	}
	*at = r.lower
	r.lower, q.spareRanks = q.spareRanks, r
}

// openGroup returns the group of a place, which it makes if there is none.
func (q *Lines) openGroup(l *line, at Place) *group {
	r := q.openRank(l, at.Priority)
	g := q.findGroup(l, r, at.Group)
	if g != nil {
		return g
	}
	if g = q.spareGroups; g != nil {
		q.spareGroups = g.next
	} else {
		g = &group{}
	}
	g.rank, g.name = r, append(g.name[:0], at.Group...)
	g.key = groupKey{l.id, at.Priority, text(g.name)}
	q.byGroup[g.key] = g
	r.groups.append(g)
	return g
}

// closeGroup forgets a group without callers.
func (q *Lines) closeGroup(l *line, g *group) {
	r := g.rank
	delete(q.byGroup, g.key)
	r.groups.remove(g)
	if r.groups.first == nil {
		q.closeRank(l, r)
	}
	g.rank = nil
	g.next, q.spareGroups = q.spareGroups, g
}

func (q *Lines) findGroup(l *line, r *rank, name []byte) *group {
	return q.byGroup[groupKey{l.id, r.priority, text(name)}]
}

// View is who is in turn for a key, for the decision about a call. It shows the line as it is when it is asked. The zero value
// is nobody.
type View struct {
	ID    ID
	lines *Lines
}

func (v View) line() *line {
	if v.lines == nil {
		return nil
	}
	return v.lines.line(v.ID)
}

// Ahead returns how many callers would be let in before a call at a place, if it stood in line now. It counts up to most, and looks at
// no more groups than that.
func (v View) Ahead(at Place, most int64) (ahead int64) {
	l := v.line()
	if l == nil || most <= 0 {
		return 0
	}
	r := l.highest
	for ; r != nil && r.priority > at.Priority; r = r.lower {
		ahead += r.count
	}
	if r == nil || r.priority != at.Priority {
		return min(ahead, most)
	}
	// The call would be let in at this turn of its group, counted from now. The groups in front of its own have as many turns before
	// that, and those behind one less. A new group is behind all others.
	turn := int64(1)
	own := v.lines.findGroup(l, r, at.Group)
	if own != nil {
		turn += own.callers.count
	}
	for g := r.groups.first; g != nil && ahead < most; g = g.next {
		if g == own {
			turn--
		}
		ahead += min(g.callers.count, turn)
	}
	return min(ahead, most)
}

// Groups returns how many groups wait, and goes through them. A group with callers of several priorities counts for each.
func (v View) Groups() (count int64, groups Groups) {
	l := v.line()
	if l == nil || l.highest == nil {
		return 0, groups
	}
	for r := l.highest; r != nil; r = r.lower {
		count += r.groups.count
	}
	return count, Groups{l.highest.groups.first}
}

// Groups goes through the groups of a line: by priority, then in the order of their turns. It is valid until the line changes.
type Groups struct{ group *group }

// Next returns the next group and how many of its callers wait; ok is false behind the last. at is valid as long as the group waits.
func (g *Groups) Next() (at Place, waiting int64, ok bool) {
	now := g.group
	if now == nil {
		return at, 0, false
	}
	g.group = now.next
	if lower := now.rank.lower; g.group == nil && lower != nil {
		g.group = lower.groups.first
	}
	return Place{now.rank.priority, now.name}, now.callers.count, true
}
