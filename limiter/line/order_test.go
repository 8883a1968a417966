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

// come has callers stand in line: "a1" is the first of group a, "a1*3" of a group of weight 3, "a1+2" has priority 2, and "1" no group.
func (b *bench) come(callers string) {
	for _, name := range strings.Fields(callers) {
		caller := uintptr(len(b.names) + 1)
		step := b.lines.EnterTurn(0, []byte("key"), caller, caller, Turn{Place: placeOf(name), LookNs: second}, at(start))
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

func TestCallersStandByPriorityGroupAndArrival(t *testing.T) {
	for _, tt := range []struct{ rule, come, want string }{
		{"without groups and priorities, arrival", "1 2 3 4", "1 2 3 4"},
		{"one group, arrival", "a1 a2 a3", "a1 a2 a3"},
		{"groups take turns", "a1 a2 a3 b1 b2 c1", "a1 b1 c1 a2 b2 a3"},
		{"callers that name no group are one", "1 2 3 a1 4 a2", "1 a1 2 a2 3 4"},
		{"the higher priority first", "a1 b1+1 a2 c1+-1 c2+1 b2", "b1+1 c2+1 a1 b2 a2 c1+-1"},
		{"a group has a turn in each priority", "a1+5 a2+5 b1+5 a3 b2 a4", "a1+5 b1+5 a2+5 a3 b2 a4"},
		{"groups take turns by weight", "a1*2 b1 a2*2 b2 a3*2 a4*2 b3 b4", "a1*2 b1 a2*2 a3*2 b2 a4*2 b3 b4"},
		{"spread over the round", "a1*5 a2*5 a3*5 a4*5 a5*5 b1*3 b2*3 b3*3 c1 c2", "a1*5 b1*3 a2*5 a3*5 b2*3 a4*5 c1 b3*3 a5*5 c2"},
		{"equal weights are as none", "a1*7 a2*7 a3*7 b1*7 b2*7 c1*7", "a1*7 b1*7 c1*7 a2*7 b2*7 a3*7"},
		{"the latest weight of a group counts, a lower one from its next turn on", "a1*3 a2*3 a3*3 a4 b1*2 b2*2 b3*2 b4*2", "a1*3 b1*2 a2*3 b2*2 b3*2 a3*3 b4*2 a4"},
		{"and a higher one at once", "a1 a2 b1 b2 b3*3 a3", "b1 b2 a1 b3*3 a2 a3"},
		{"a weight is of one priority", "a1*9+1 a2*9+1 a3*9 a4 b1+1 b2 b3", "a1*9+1 a2*9+1 b1+1 a3*9 b2 a4 b3"},
	} {
		b := newBench(t)
		b.come(tt.come)
		assert.Equal(t, tt.want, b.letIn(len(strings.Fields(tt.come))), tt.rule)
		assert.Equal(t, Close, b.lines.Next(b.line, at(start), 1).Kind)
	}
}

// One tenant's ten thousand jobs delay the first job of another by one slot.
func TestABacklogDelaysOthersByOneSlot(t *testing.T) {
	b := newBench(t)
	for i := range 10_000 {
		b.come(fmt.Sprint("a", i))
	}
	b.letIn(7)
	b.come("b1")
	assert.Equal(t, "a7 b1 a8", b.letIn(3))
	b.come("b2 b3 c1")
	assert.Equal(t, "a9 b2 c1 a10 b3 a11 a12", b.letIn(7))
}

// A tenant that comes back as soon as it was let in gets one turn in each round, as those with a backlog do.
func TestComingBackAtOnceGivesNoMoreTurns(t *testing.T) {
	b := newBench(t)
	b.come("a1 a2 a3 a4 b1 c1")
	var got []string
	for i := range 9 {
		name := b.letIn(1)
		got = append(got, name[:1])
		if name[0] != 'a' {
			b.come(fmt.Sprintf("%c%d", name[0], i+10))
		}
	}
	assert.Equal(t, "a b c a b c a b c", strings.Join(got, " "))
}

func TestWhoLeavesUsesUpNoTurn(t *testing.T) {
	b := newBench(t)
	b.come("a1 a2 b1 b2 c1")
	b.lines.Dismiss(b.entries["a1"]) // its time is over
	b.lines.Leave(4)                 // b2
	assert.Equal(t, "a2 b1 c1", b.letIn(3))
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

// groups is what CL.LEASES shows: the groups in the order of their turns, with priority and weight, and how many callers wait in each.
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

// Groups of one name are told apart by line and priority, and a group that is used again takes its new name.
func TestGroupsOfOneNameAreToldApart(t *testing.T) {
	var q Lines
	names := []string{"first", "second", "third"}
	for round := range names {
		var entries []*entry
		for _, key := range []string{"a", "b"} {
			for priority := range int64(2) {
				for i := range 3 {
					l := q.open(0, []byte(key))
					e := q.newEntry(l)
					q.join(e, Place{Priority: priority, Group: []byte(names[(round+i)%3])})
					entries = append(entries, e)
				}
			}
		}
		for _, gone := range chance.New(t).Perm(len(entries)) {
			e, g := entries[gone], entries[gone].group
			l, r, name := e.line, g.rank, []byte(names[(round+gone%3)%3])
			require.Same(t, g, q.findGroup(l, r, name))
			q.drop(e)
			require.Nil(t, q.findGroup(l, r, name))
			entries[gone] = nil
			for i, left := range entries {
				if left != nil {
					require.Same(t, left.group, q.findGroup(left.line, left.group.rank, []byte(names[(round+i%3)%3])))
				}
			}
		}
		require.Empty(t, q.byGroup)
	}
}
