package line

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

// The order of callers in turn: the higher priority first; within a priority groups take turns by weight; within a
// group the order of arrival.
//
// Time within a priority is rounds. A group of weight w has a turn at each of the points 1/w, 2/w, ... 1 of every
// round, and the turns come in the order of their points; those at the same point in the order in which they were given
// to their groups. A group that is new, or whose caller was let in, is given its first point behind the latest turn
// that was used. So between two callers of a group that are let in, another one of w times its weight has at most w,
// rounded up; and so it has before the first of a new group (TestBetweenTwoTurnsOfAGroupOthersHaveTheirShare). With
// equal weights, groups form a queue: the first moves to its end when one of its callers is let in, and a new one joins
// there.
//
// Nothing is remembered of a group without callers, and nothing has to be: no group has two turns at one point, so one
// that comes back has no more of them than if it had stayed. A caller that leaves without being let in uses up no turn
// of its group.

// Place is what decides where a caller stands among those in turn.
type Place struct {
	Priority int64
	Group    []byte // empty for the one group of all callers that name none
	Weight   int64  // what its group has from now on, up to MaxWeight; 0 for 1
}

// MaxWeight is the greatest weight of a group.
const MaxWeight = 1000

func (at *Place) weight() int32 { return int32(max(at.Weight, 1)) }

// point is one of the points of a round at which a group of weight of has a turn: the nth of them.
type point struct {
	round   int64
	nth, of int32 // at most MaxWeight, so that a product fits
}

// next is the first point behind p of a group of some weight.
func (p point) next(weight int32) point {
	nth := p.nth + 1
	if p.of != weight {
		nth = p.nth*weight/p.of + 1
	}
	if nth <= weight {
		return point{p.round, nth, weight}
	}
	return point{p.round + 1, 1, weight}
}

// plus is the point that is turns later.
func (p point) plus(turns int64) point {
	nth := int64(p.nth) - 1 + turns
	return point{p.round + nth/int64(p.of), int32(nth%int64(p.of)) + 1, p.of}
}

// number counts the points of a weight.
func (p point) number() int64 { return p.round*int64(p.of) + int64(p.nth) }

func (p point) compare(to point) int {
	return cmp.Or(cmp.Compare(p.round, to.round), cmp.Compare(p.nth*to.of, to.nth*p.of))
}

// rank is the callers of one priority.
type rank struct {
	priority int64
	lower    *rank // the next lower one; of a spare rank the next spare one
	now      point // of the latest turn that was used
	heads    heads
	groups   int64 // how many there are
	count    int64 // of callers
}

// ring is the groups of one rank that were given their turns by one weight, in the order of these.
type ring struct {
	weight int32
	groups list[group, *group]
	spare  *ring // of a spare ring the next spare one
}

// heads is the first groups of the rings of a rank, as a heap: the root has the next turn. There are as many as there
// are different weights.
type heads []*group

// group is callers of one rank that name the same group. What View.Ahead reads of each is in front: of many groups none
// is in a cache.
type group struct {
	links[group] // in its ring; of a spare group, next is the next spare one
	callers      entries
	turn         point  // at which its next one is
	given        uint64 // when it was given that: before those with higher numbers
	weight       int32  // what the latest of its callers told
	rank         *rank
	ring         *ring
	key          groupKey
	name         []byte // the memory of key.name
}

func (g *group) linksOf() *links[group] { return &g.links }

type groupKey struct {
	line     ID
	priority int64
	name     string
}

func (g *group) comesBefore(other *group) bool {
	order := g.turn.compare(other.turn)
	return order < 0 || order == 0 && g.given < other.given
}

// fix moves the head at a place to where it belongs.
func (h heads) fix(i int) {
	for ; i > 0 && h[i].comesBefore(h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].comesBefore(h[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		h[i], h[first] = h[first], h[i]
		i = first
	}
}

// put has g, or nobody, take the place of a head.
func (h heads) put(i int, g *group) heads {
	if g == nil {
		last := len(h) - 1
		g, h[last] = h[last], nil
		if h = h[:last]; i == last {
			return h
		}
	}
	h[i] = g
	h.fix(i)
	return h
}

// first is the first in line of those in turn, or nil.
func (l *line) first() *entry {
	if l.highest == nil {
		return nil
	}
	return l.highest.heads[0].callers.first
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

// useTurn takes a caller from among those in turn that has been let in, which was its group's turn.
func (q *Lines) useTurn(e *entry) {
	g := e.group
	if g.turn.compare(g.rank.now) > 0 {
		g.rank.now = g.turn
	}
	q.leaveTurn(e)
	if g.callers.first != nil {
		q.giveTurn(g)
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
	*r = rank{priority: priority, lower: *at, now: point{of: 1}, heads: r.heads}
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

// openGroup returns the group of a place, which it makes if there is none. A new weight moves the turn of the group if
// it comes earlier so.
func (q *Lines) openGroup(l *line, at Place) *group {
	r := q.openRank(l, at.Priority)
	g := q.findGroup(l, r, at.Group)
	if g != nil {
		if weight := at.weight(); weight != g.weight {
			g.weight = weight
			if r.now.next(weight).compare(g.turn) < 0 {
				q.giveTurn(g)
			}
		}
		return g
	}
	if g = q.spareGroups; g != nil {
		q.spareGroups = g.next
	} else {
		g = &group{}
	}
	g.rank, g.weight, g.name = r, at.weight(), append(g.name[:0], at.Group...)
	g.key = groupKey{l.id, at.Priority, text(g.name)}
	q.byGroup[g.key] = g
	r.groups++
	q.giveTurn(g)
	return g
}

// closeGroup forgets a group without callers.
func (q *Lines) closeGroup(l *line, g *group) {
	r := g.rank
	delete(q.byGroup, g.key)
	q.leaveRing(g)
	if r.groups--; r.groups == 0 {
		q.closeRank(l, r)
	}
	g.rank = nil
	g.next, q.spareGroups = q.spareGroups, g
}

func (q *Lines) findGroup(l *line, r *rank, name []byte) *group {
	if g := q.latest; g != nil && g.rank == r && bytes.Equal(g.name, name) { // a call asks Ahead before it enters the line
		return g
	}
	g := q.byGroup[groupKey{l.id, r.priority, text(name)}]
	q.latest = g
	return g
}

// giveTurn gives a group the first turn that it can have. In the ring of its weight nobody has a later one.
func (q *Lines) giveTurn(g *group) {
	r, in := g.rank, g.ring
	g.turn, g.given = r.now.next(g.weight), q.given
	q.given++
	if in != nil && in.weight == g.weight {
		isHead := in.groups.first == g
		in.groups.remove(g)
		in.groups.append(g)
		if isHead {
			r.heads = r.heads.put(slices.Index(r.heads, g), in.groups.first)
		}
		return
	}
	if in != nil {
		q.leaveRing(g)
	}
	if i := slices.IndexFunc(r.heads, func(head *group) bool { return head.ring.weight == g.weight }); i >= 0 {
		g.ring = r.heads[i].ring
	} else {
		g.ring = q.newRing(g.weight)
		r.heads = append(r.heads, g)
		r.heads.fix(len(r.heads) - 1)
	}
	g.ring.groups.append(g)
}

// leaveRing takes a group out of its ring.
func (q *Lines) leaveRing(g *group) {
	in, r, second := g.ring, g.rank, g.next
	isHead := in.groups.first == g
	in.groups.remove(g)
	g.ring = nil
	if isHead {
		r.heads = r.heads.put(slices.Index(r.heads, g), second)
	}
	if second == nil && isHead {
		in.spare, q.spareRings = q.spareRings, in
	}
}

func (q *Lines) newRing(weight int32) *ring {
	in := q.spareRings
	if in != nil {
		q.spareRings = in.spare
	} else {
		in = &ring{}
	}
	*in = ring{weight: weight}
	return in
}

// View is who is in turn for a key, for the decision about a call. It shows the line as it is when it is asked. The
// zero value is nobody.
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

// Ahead returns how many callers would be let in before a call at a place, if it stood in line now. It counts up to
// most, and looks at no more groups than that, and one of each weight.
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
	own := v.lines.findGroup(l, r, at.Group)
	c := comingTo(r, own, at.weight())
	if own != nil {
		ahead += own.callers.count
	}
	for _, head := range r.heads {
		alike := c.isExact && head.turn.of == c.weight
		for g := head; g != nil && ahead < most; g = g.next {
			var turns int64
			if alike && g.weight == c.weight {
				turns = c.turnsAtSamePoints(g)
			} else {
				turns = c.turnsBefore(g)
			}
			if turns == 0 {
				break
			}
			if g != own {
				ahead += min(g.callers.count, turns)
			}
		}
	}
	return min(ahead, most)
}

// coming is the turn at which a call would be let in if it stood in line now.
type coming struct {
	point
	weight  int32
	isExact bool // all its turns are points of weight
	// It is this turn of its group, counted from 0, whose next one would be at first, and was given then.
	turn  int64
	first point
	given uint64
}

func comingTo(r *rank, own *group, weight int32) (c coming) {
	c = coming{weight: weight, first: r.now.next(weight), given: math.MaxUint64}
	if own != nil {
		c.turn = own.callers.count
		if own.turn.compare(c.first) <= 0 {
			c.first, c.given = own.turn, own.given
		}
	}
	c.point, c.isExact = turnOf(c.first, weight, c.turn), c.first.of == weight
	return c
}

// turnOf is a turn of a group, counted from 0, whose next one is at first.
func turnOf(first point, weight int32, turn int64) point {
	if turn == 0 {
		return first
	}
	return first.next(weight).plus(turn - 1)
}

// turnsAtSamePoints is turnsBefore of a group whose turns are all at points of c.weight, as those of c are.
func (c *coming) turnsAtSamePoints(g *group) int64 {
	turns := c.number() - g.turn.number()
	if turns < c.turn || turns == c.turn && g.given < c.given {
		turns++
	}
	return max(turns, 0)
}

// turnsBefore returns how many turns another group has before c, if its callers do not run out.
func (c *coming) turnsBefore(g *group) int64 {
	if g.turn.compare(c.point) > 0 {
		return 0
	}
	second := g.turn.next(g.weight)
	if second.compare(c.point) > 0 {
		return 1
	}
	nth, rest := c.nth*g.weight/c.of, c.nth*g.weight%c.of
	turns := 1 + (c.round-second.round)*int64(g.weight) + int64(nth-second.nth)
	if rest > 0 || c.isBehind(g, turns) {
		turns++
	}
	return turns
}

// isBehind reports whether a turn of another group that is at the same point comes before c. So it is if it is given
// before, which is when the turn before it has been used.
func (c *coming) isBehind(g *group, turn int64) bool {
	own := c.turn
	if both := min(own, turn) - 1; g.weight == c.weight && both > 0 { // these are at the same points, too
		own, turn = own-both, turn-both
	}
	for ; own > 0 && turn > 0; own, turn = own-1, turn-1 {
		if order := turnOf(g.turn, g.weight, turn-1).compare(turnOf(c.first, c.weight, own-1)); order != 0 {
			return order < 0
		}
	}
	return turn == 0 && (own > 0 || g.given < c.given)
}

// Groups returns how many groups wait, and goes through them. A group with callers of several priorities counts for
// each.
func (v View) Groups() (count int64, groups Groups) {
	l := v.line()
	if l == nil {
		return 0, groups
	}
	for r := l.highest; r != nil; r = r.lower {
		count += r.groups
	}
	v.lines.shown = v.lines.shown[:0]
	return count, Groups{v.lines, l.highest}
}

// Groups goes through the groups of a line: by priority, then in the order of their next turns. It is valid until the
// line changes, or Groups is asked again.
type Groups struct {
	lines *Lines
	rank  *rank // that comes when all of lines.shown have been
}

// Next returns the next group and how many of its callers wait; ok is false behind the last. at is valid as long as the
// group waits.
func (g *Groups) Next() (at Place, waiting int64, ok bool) {
	q := g.lines
	if q == nil {
		return at, 0, false
	}
	if len(q.shown) == 0 {
		if g.rank == nil {
			return at, 0, false
		}
		q.shown, g.rank = append(q.shown, g.rank.heads...), g.rank.lower
	}
	now := q.shown[0]
	q.shown = q.shown.put(0, now.next)
	return Place{now.rank.priority, now.name, int64(now.weight)}, now.callers.count, true
}
