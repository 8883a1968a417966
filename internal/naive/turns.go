package naive

import (
	"fmt"
	"slices"
)

// Turn is a caller in line: it comes before those of lower priorities, and takes turns with other groups.
type Turn struct {
	Caller   uint64
	Priority int64
	Group    string
}

// Turns is the callers in line that have no slot, in order of arrival, and the groups of each priority, the next one first.
type Turns struct {
	callers []Turn
	groups  map[int64][]string
}

// Clone is a copy that has a life of its own.
func (t *Turns) Clone() Turns {
	c := Turns{callers: slices.Clone(t.callers), groups: map[int64][]string{}}
	for priority, groups := range t.groups {
		c.groups[priority] = slices.Clone(groups)
	}
	return c
}

// String tells all that is kept.
func (t *Turns) String() string { return fmt.Sprint(t.callers, t.groups) }

// Len is how many callers there are.
func (t *Turns) Len() int { return len(t.callers) }

// All returns the callers in order of arrival.
func (t *Turns) All() []Turn { return t.callers }

// Join adds a caller. A group that is new has the last turn.
func (t *Turns) Join(x Turn) {
	t.callers = append(t.callers, x)
	if t.groups == nil {
		t.groups = map[int64][]string{}
	}
	if !slices.Contains(t.groups[x.Priority], x.Group) {
		t.groups[x.Priority] = append(t.groups[x.Priority], x.Group)
	}
}

// First returns the caller that is let in next; ok is false if there is none.
func (t *Turns) First() (first Turn, ok bool) {
	if len(t.callers) == 0 {
		return first, false
	}
	highest := slices.MaxFunc(t.callers, func(a, b Turn) int { return int(a.Priority - b.Priority) }).Priority
	group := t.groups[highest][0]
	i := slices.IndexFunc(t.callers, func(x Turn) bool { return x.Priority == highest && x.Group == group })
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
		t.groups[gone.Priority] = slices.DeleteFunc(slices.Clone(t.groups[gone.Priority]), func(g string) bool { return g == gone.Group })
	}
	if len(t.groups[gone.Priority]) == 0 {
		delete(t.groups, gone.Priority)
	}
}

// LetIn takes out the first caller. Its group has the last turn from then on.
func (t *Turns) LetIn() Turn {
	x, _ := t.First()
	t.Drop(x.Caller)
	if groups := t.groups[x.Priority]; len(groups) > 0 && groups[0] == x.Group {
		t.groups[x.Priority] = append(slices.Clone(groups[1:]), x.Group)
	}
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
