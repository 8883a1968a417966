package naive

import (
	"fmt"
	"math/big"
	"slices"
)

// Turn is a caller in line: it comes before those of lower priorities, and takes turns with other groups.
type Turn struct {
	Caller   uint64
	Priority int64
	Group    string
	Weight   int64 // of its group from then on; 0 for 1
}

// Turns is the callers in line that have no slot, in order of arrival, and the groups of each priority. It counts in
// exact fractions.
type Turns struct {
	callers []Turn
	ranks   map[int64]rank
}

// rank is the groups of a priority, in the order in which they were given their turns, and the instant in rounds of the
// latest that was used.
type rank struct {
	now    *big.Rat
	groups []group
}

// group has a turn at each multiple of 1/weight.
type group struct {
	name   string
	weight int64
	turn   *big.Rat // the next one
}

// next is the first multiple of 1/weight that is more than now.
func next(now *big.Rat, weight int64) *big.Rat {
	turns := new(big.Rat).Mul(now, big.NewRat(weight, 1))
	whole := new(big.Int).Div(turns.Num(), turns.Denom())
	return new(big.Rat).SetFrac(whole.Add(whole, big.NewInt(1)), big.NewInt(weight))
}

// Clone is a copy that has a life of its own.
func (t *Turns) Clone() Turns {
	c := Turns{callers: slices.Clone(t.callers), ranks: map[int64]rank{}}
	for priority, r := range t.ranks {
		c.ranks[priority] = rank{r.now, slices.Clone(r.groups)}
	}
	return c
}

// String tells all that is kept, and counts rounds from the latest one: two that print alike go on alike.
func (t *Turns) String() string { return fmt.Sprint(t.callers, t.ranks) }

func (r rank) String() string {
	whole := new(big.Int).Div(r.now.Num(), r.now.Denom())
	since := func(instant *big.Rat) string {
		return new(big.Rat).Sub(instant, new(big.Rat).SetInt(whole)).RatString()
	}
	text := since(r.now)
	for _, g := range r.groups {
		text += fmt.Sprintf(" %q/%d at %s", g.name, g.weight, since(g.turn))
	}
	return text
}

// Len is how many callers there are.
func (t *Turns) Len() int { return len(t.callers) }

// All returns the callers in order of arrival.
func (t *Turns) All() []Turn { return t.callers }

// Join adds a caller. Its group is given its first turn, or an earlier one than it has, if the new weight has one.
func (t *Turns) Join(x Turn) {
	t.callers = append(t.callers, x)
	r, ok := t.ranks[x.Priority]
	if !ok {
		r.now = new(big.Rat)
	}
	g := group{name: x.Group, weight: max(x.Weight, 1)}
	g.turn = next(r.now, g.weight)
	i := slices.IndexFunc(r.groups, func(g group) bool { return g.name == x.Group })
	switch {
	case i < 0:
		r.groups = append(r.groups, g)
	case g.turn.Cmp(r.groups[i].turn) < 0:
		r.groups = append(slices.Delete(slices.Clone(r.groups), i, i+1), g)
	default:
		r.groups = slices.Clone(r.groups)
		r.groups[i].weight = g.weight
	}
	t.set(x.Priority, r)
}

func (t *Turns) set(priority int64, r rank) {
	if t.ranks == nil {
		t.ranks = map[int64]rank{}
	}
	t.ranks[priority] = r
	if len(r.groups) == 0 {
		delete(t.ranks, priority)
	}
}

// Groups returns the groups of a priority, in the order of their next turns, and their weights.
func (t *Turns) Groups(priority int64) (names []string, weights []int64) {
	groups := slices.Clone(t.ranks[priority].groups)
	slices.SortStableFunc(groups, func(a, b group) int { return a.turn.Cmp(b.turn) })
	for _, g := range groups {
		names, weights = append(names, g.name), append(weights, g.weight)
	}
	return names, weights
}

// First returns the caller that is let in next; ok is false if there is none.
func (t *Turns) First() (first Turn, ok bool) {
	if len(t.callers) == 0 {
		return first, false
	}
	highest := slices.MaxFunc(t.callers, func(a, b Turn) int { return int(a.Priority - b.Priority) }).Priority
	groups, _ := t.Groups(highest)
	i := slices.IndexFunc(t.callers, func(x Turn) bool { return x.Priority == highest && x.Group == groups[0] })
	return t.callers[i], true
}

// Drop takes out a caller that leaves. A group without callers is forgotten.
func (t *Turns) Drop(caller uint64) {
	i := slices.IndexFunc(t.callers, func(x Turn) bool { return x.Caller == caller })
	if i < 0 {
		return
	}
	gone := t.callers[i]
	t.callers = slices.Delete(slices.Clone(t.callers), i, i+1)
	if !slices.ContainsFunc(t.callers, func(x Turn) bool { return x.Priority == gone.Priority && x.Group == gone.Group }) {
		r := t.ranks[gone.Priority]
		r.groups = slices.DeleteFunc(slices.Clone(r.groups), func(g group) bool { return g.name == gone.Group })
		t.set(gone.Priority, r)
	}
}

// LetIn takes out the first caller. If others of its group wait, that is given its next turn.
func (t *Turns) LetIn() Turn {
	x, _ := t.First()
	r := t.ranks[x.Priority]
	i := slices.IndexFunc(r.groups, func(g group) bool { return g.name == x.Group })
	g := r.groups[i]
	r.now = g.turn
	g.turn = next(r.now, g.weight)
	r.groups = append(slices.Delete(slices.Clone(r.groups), i, i+1), g)
	t.set(x.Priority, r)
	t.Drop(x.Caller)
	return x
}

// Ahead returns how many are let in before x if it joins now and nobody else comes.
func (t *Turns) Ahead(x Turn) (ahead int64) {
	copied := t.Clone()
	copied.Join(x)
	for copied.LetIn() != x {
		ahead++
	}
	return ahead
}
