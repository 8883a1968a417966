// The order of callers in turn: priorities, groups that take turns, arrival.
package line

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/naive"
	"redis-throttle/internal/size"
)

// naiveTurns is callers in turn, in order of arrival, and what tells who is next.
type naiveTurns struct {
	all   []naiveTurn
	order naive.Turns
}

func (n *naiveTurns) join(x naiveTurn) {
	n.all = append(n.all, x)
	n.order.Join(x.turn())
}

// first is the number of the caller that is next, or 0.
func (n *naiveTurns) first() uintptr {
	first, _ := n.order.First()
	return uintptr(first.Caller)
}

func (n *naiveTurns) drop(caller uintptr) {
	n.order.Drop(uint64(caller))
	n.all = slices.DeleteFunc(n.all, func(x naiveTurn) bool { return x.caller == caller })
}

func (n *naiveTurns) letIn() { n.drop(uintptr(n.order.LetIn().Caller)) }

func (x naiveTurn) turn() naive.Turn {
	return naive.Turn{Caller: uint64(x.caller), Priority: x.priority, Group: x.group, Weight: x.weight}
}

// bench is a line in which callers are called by their group, priority and number.
type bench struct {
	t       require.TestingT
	lines   Lines
	line    ID
	entries map[string]ID
	names   map[uintptr]string
}

func newBench(t require.TestingT) *bench {
	return &bench{t: t, entries: map[string]ID{}, names: map[uintptr]string{}}
}

// come has callers stand in line: "a1" is the first of group a, "a1*3" of a group of weight 3, "a1+2" has priority 2,
// and "1" no group.
func (b *bench) come(callers string) {
	for _, name := range strings.Fields(callers) {
		caller := uintptr(len(b.names) + 1)
		place := placeOf(name)
		step := b.lines.EnterTurn(0, []byte("key"), caller, caller, Turn{Place: place, LookNs: second}, at(start))
		clear(place.Group) // the host's memory, which it uses again
		if step.LineHost == 0 {
			b.lines.Own(step.Line, lineHost, []byte("key"))
		}
		b.line, b.names[caller], b.entries[name] = step.Line, name, step.Entry
	}
}

func placeOf(name string) (at Place) {
	head, priority, _ := strings.Cut(name, "+")
	_, _ = fmt.Sscan(priority, &at.Priority)
	head, weight, _ := strings.Cut(head, "*")
	_, _ = fmt.Sscan(weight, &at.Weight)
	at.Group = []byte(strings.TrimRight(head, "0123456789"))
	return at
}

// letIn lets in n callers, and returns their names.
func (b *bench) letIn(n int) string {
	var names []string
	for range n {
		b.lines.Changed(0, []byte("key"))
		step := b.lines.Next(b.line, at(start), 1)
		require.Equal(b.t, Decide, step.Kind)
		b.lines.LetIn(step.Entry)
		names = append(names, b.names[step.Host])
	}
	return strings.Join(names, " ")
}

// The first in turn is decided when another takes its place, and when that one is gone.
func TestAHigherPriorityTakesTheFirstPlace(t *testing.T) {
	b := newBench(t)
	b.come("a1")
	first := b.entries["a1"]
	assert.True(t, b.lines.IsFirst(first))
	step := b.lines.EnterTurn(0, []byte("key"), 99, 99, Turn{Place: Place{Priority: 1}, LookNs: ms}, at(start))
	assert.Equal(t, ms, step.Ns, "the line looks when the new one says")
	assert.False(t, b.lines.IsFirst(first))
	assert.True(t, b.lines.Stands(first))
	b.lines.WaitsOn(first, 1, at(start)) // too late: it is not the first
	assert.Equal(t, ms, b.lines.Next(b.line, at(start), 1).Ns)
	_, wake, _ := b.lines.Leave(99)
	assert.EqualValues(t, lineHost, wake)
	assert.Equal(t, first, b.lines.Next(b.line, at(start), 1).Entry)
}

func TestGroupsAreShownInTheOrderOfTheirTurns(t *testing.T) {
	b := newBench(t)
	v, _, _ := b.lines.Look(0, []byte("key"))
	count, groups := v.Groups()
	_, _, ok := groups.Next()
	assert.Zero(t, count)
	assert.False(t, ok)
	b.come("a1 a2 b1+-3 1 b2 a3+7 b3")
	b.letIn(2)
	count, shown := b.groups()
	assert.Equal(t, "+0*1:1 b+0*1:2 a+0*1:1 b-3*1:1", shown)
	assert.EqualValues(t, 4, count)
	b.come("c1*4 d1*2+-3 a4*5 b4*3")
	b.letIn(2)
	count, shown = b.groups()
	assert.Equal(t, "a+0*5:2 c+0*4:1 b+0*3:2 d-3*2:1 b-3*1:1", shown)
	assert.EqualValues(t, 5, count)
}

// groups is what CL.LEASES shows: the groups in the order of their turns, with priority and weight, and how many
// callers wait in each.
func (b *bench) groups() (count int64, shown string) {
	v, _, _ := b.lines.Look(0, []byte("key"))
	count, groups := v.Groups()
	var all []string
	for at, n, ok := groups.Next(); ok; at, n, ok = groups.Next() {
		all = append(all, fmt.Sprintf("%s%+d*%d:%d", at.Group, at.Priority, at.Weight, n))
	}
	return count, strings.Join(all, " ")
}

// Lines, ranks, rings and groups that are gone are used again, and names do not pile up.
func TestLinesOfManyGroupsStaySmall(t *testing.T) {
	b := newBench(t)
	made := func() (n int) {
		for g := b.lines.spareGroups; g != nil; g = g.next {
			n++
		}
		for r := b.lines.spareRanks; r != nil; r = r.lower {
			n++
		}
		for r := b.lines.spareRings; r != nil; r = r.spare {
			n++
		}
		return n
	}
	pick := chance.FromSeed(t)
	for round := range size.Of(50, 500) {
		for i := range 20 {
			b.come(fmt.Sprintf("g%d_%d*%d+%d", round, i, pick("weight", 1, 3), pick("priority", 0, 4)))
		}
		b.letIn(20)
		require.Equal(t, Close, b.lines.Next(b.line, at(start), 1).Kind)
		require.Empty(t, b.lines.byGroup)
		require.LessOrEqual(t, made(), 20+5+5*3)
	}
}
