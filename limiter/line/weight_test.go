// What weights promise, whatever the callers of other groups do.
package line

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/naive"
	"redis-throttle/internal/size"
)

// shares is a line whose groups keep their weights, and what was let in since each group began to wait for its next
// turn.
type shares struct {
	*bench
	weights []int64
	inLine  [][]string // the callers of each group, the first one first
	since   []map[int]int64
	calls   int
	waited  int64 // the most turns that another group had meanwhile
}

func newShares(t require.TestingT, weights ...int64) *shares {
	return &shares{bench: newBench(t), weights: weights, inLine: make([][]string, len(weights)), since: make([]map[int]int64, len(weights))}
}

// joins has another caller of a group stand in line.
func (s *shares) joins(group int) {
	s.calls++
	name := fmt.Sprintf("%c%d*%d", 'a'+group, s.calls, s.weights[group])
	s.come(name)
	if s.inLine[group] = append(s.inLine[group], name); len(s.inLine[group]) == 1 {
		s.since[group] = map[int]int64{}
	}
}

// leaves has a caller leave that was not let in.
func (s *shares) leaves(group, caller int) {
	s.lines.Dismiss(s.entries[s.inLine[group][caller]])
	s.inLine[group] = append(s.inLine[group][:caller:caller], s.inLine[group][caller+1:]...)
}

// turn lets in the first in line, and fails if any group has waited for more turns of another than are its share.
func (s *shares) turn() (group int) {
	name := s.bench.letIn(1)
	group = int(name[0] - 'a')
	require.Equal(s.t, s.inLine[group][0], name, "a group keeps the order of arrival")
	s.inLine[group] = s.inLine[group][1:]
	for other := range s.weights {
		if other == group || len(s.inLine[other]) == 0 {
			continue
		}
		s.since[other][group]++
		share := (s.weights[group] + s.weights[other] - 1) / s.weights[other]
		require.LessOrEqual(s.t, s.since[other][group], share, "turns of %c, of weight %d, while %c, of weight %d, waits for one",
			'a'+group, s.weights[group], 'a'+other, s.weights[other])
		s.waited = max(s.waited, s.since[other][group])
	}
	s.since[group] = map[int]int64{}
	return group
}

func (s *shares) any(pick chance.Draw) (group, caller int, ok bool) {
	var waiting []int
	for group, callers := range s.inLine {
		if len(callers) > 0 {
			waiting = append(waiting, group)
		}
	}
	if len(waiting) == 0 {
		return 0, 0, false
	}
	group = waiting[pick("group", 0, int64(len(waiting)-1))]
	return group, int(pick("caller", 0, int64(len(s.inLine[group])-1))), true
}

func (s *shares) step(pick chance.Draw) {
	switch op := pick("operation", 0, 7); {
	case op <= 3:
		s.joins(int(pick("who comes", 0, int64(len(s.weights)-1))))
	case op == 4:
		if group, caller, ok := s.any(pick); ok {
			s.leaves(group, caller)
		}
	default:
		if _, _, ok := s.any(func(string, int64, int64) int64 { return 0 }); ok {
			s.turn()
		}
	}
}

// From when a group is in line, and from each of its turns on, any other group has at most its share before the group
// has its next turn. The share of w times its weight is w turns, rounded up, also for a group that leaves and comes
// back.
func TestBetweenTwoTurnsOfAGroupOthersHaveTheirShare(t *testing.T) {
	pick := chance.FromSeed(t)
	most := int64(0)
	for range size.Of(150, 1500) {
		weights := make([]int64, pick("groups", 2, 6))
		for i := range weights {
			weights[i] = pick("weight", 1, []int64{3, 12, MaxWeight}[pick("weights", 0, 2)])
		}
		s := newShares(t, weights...)
		for range 200 {
			s.step(pick)
		}
		most = max(most, s.waited)
	}
	assert.Greater(t, most, int64(10), "no group has waited for long")
}

// Every short history of three groups with any weights up to three.
func TestEveryShortHistoryKeepsTheShares(t *testing.T) {
	length := size.OfProof(3, 4, 6)
	n := every(func(pick chance.Draw) {
		s := newShares(unaided{t}, pick("weight", 1, 3), pick("weight", 1, 3), pick("weight", 1, 3))
		for group := range s.weights {
			s.joins(group)
		}
		for range length {
			switch pick("operation", 0, 2) {
			case 0:
				s.joins(int(pick("who comes", 0, 2)))
			case 1:
				if group, _, ok := s.any(pick); ok {
					s.leaves(group, 0)
				}
			case 2:
				if _, _, ok := s.any(func(string, int64, int64) int64 { return 0 }); ok {
					s.turn()
				}
			}
		}
	})
	t.Logf("%d histories", n)
}

// After every short history of two groups whose weights change, the first in line is that of a naive line of exact
// fractions, and so are the callers ahead of any call that comes.
func TestEveryShortHistoryOfWeightsThatChangeEqualsTheNaiveOne(t *testing.T) {
	length := size.OfProof[int64](4, 5, 7)
	groups := []string{"a", "b", "c"}
	n := every(func(pick chance.Draw) {
		var q Lines
		var order naive.Turns
		var callers []ID // by the numbers of the naive line
		for range pick("length", 1, length) {
			switch op := pick("operation", 0, 6); {
			case op < 4:
				callers = append(callers, 0)
				x := naive.Turn{Caller: uint64(len(callers)), Group: groups[op/2], Weight: 1 + op%2}
				step := q.EnterTurn(0, []byte("key"), uintptr(x.Caller), 1, Turn{Place: Place{0, []byte(x.Group), x.Weight}, LookNs: second}, at(start))
				if step.LineHost == 0 {
					q.Own(step.Line, lineHost, []byte("key"))
				}
				callers[x.Caller-1] = step.Entry
				order.Join(x)
			case order.Len() == 0:
			case op == 4:
				q.LetIn(callers[order.LetIn().Caller-1])
			default:
				leaves := order.All()[(op-5)*int64(order.Len()-1)] // the one that came first or last
				q.Dismiss(callers[leaves.Caller-1])
				order.Drop(leaves.Caller)
			}
		}
		view, _, _ := q.Look(0, []byte("key"))
		if first, ok := order.First(); ok {
			require.True(t, q.IsFirst(callers[first.Caller-1]), "%v", &order)
		}
		for _, group := range groups {
			for weight := range int64(3) {
				x := naive.Turn{Caller: math.MaxUint64, Group: group, Weight: weight + 1}
				require.Equal(t, order.Ahead(x), view.Ahead(Place{0, []byte(group), x.Weight}, 100), "%v before %+v", &order, x)
			}
		}
	})
	t.Logf("%d histories", n)
}

// At one point, a turn that was given comes before one that is still to be given, and so do those behind it. Where
// weights differ, or change, the turns before tell which one was given first.
func TestTurnsAtOnePoint(t *testing.T) {
	for rule, tt := range map[string]struct {
		come, first, then string
		call              string // another caller that comes
		ahead             map[string]int64
		order             string
	}{
		"a turn that is none of the new weight": {
			"a1*2 d1*3 b1*3 b2*3 b3*3", "d1*3", "a2*3", "a3*3", map[string]int64{"a3*3": 5, "c1*3": 2}, "b1*3 a1*2 b2*3 a2*3 b3*3 a3*3",
		},
		"weights differ": {"a1*3 b1*3 b2*2 b3*2 a2*3", "", "", "a3*3", map[string]int64{"a3*3": 5}, "a1*3 b1*3 b2*2 a2*3 b3*2 a3*3"},
		"the group of the call had its turn later": {
			"b1 d1*2 a1*2 a2*2", "d1*2", "b2*2", "a3*2", map[string]int64{"a3*2": 4}, "a1*2 b1 a2*2 b2*2 a3*2",
		},
		"the group of the call had its turn first": {
			"a1 d1*2 b1*2 b2*2 b3*2 b4*2", "d1*2", "a2*2", "a3*2", map[string]int64{"a3*2": 5}, "b1*2 a1 b2*2 a2*2 b3*2 a3*2 b4*2",
		},
	} {
		t.Run(rule, func(t *testing.T) {
			b := newBench(t)
			b.come(tt.come)
			require.Equal(t, tt.first, b.letIn(len(strings.Fields(tt.first))))
			b.come(tt.then)
			view, _, _ := b.lines.Look(0, []byte("key"))
			for call, ahead := range tt.ahead {
				assert.Equal(t, ahead, view.Ahead(placeOf(call), 10), call)
			}
			b.come(tt.call)
			require.Equal(t, tt.order, b.letIn(len(strings.Fields(tt.order))))
		})
	}
}

// Groups that always have a caller in line have exactly their weight of the turns of each round, in the same order in
// every one.
func TestARoundHasEachGroupsWeight(t *testing.T) {
	for _, weights := range [][]int64{{1, 1}, {3, 1}, {2, 3, 7}, {5, 5, 1, 2}, {MaxWeight, 1, 999}, {1, 10, 1, 1, 1}} {
		s := newShares(t, weights...)
		total := int64(0)
		for group, weight := range weights {
			s.joins(group)
			s.joins(group)
			total += weight
		}
		var first []int
		for round := range 3 {
			had, order := make([]int64, len(weights)), []int(nil)
			for range total {
				group := s.turn()
				s.joins(group)
				had[group]++
				order = append(order, group)
			}
			require.Equal(t, weights, had)
			if round == 0 {
				first = order
			}
			if round > 1 { // in the first, groups of one point come in the order in which they came in line
				require.Equal(t, first, order)
			}
			first = order
		}
	}
}
