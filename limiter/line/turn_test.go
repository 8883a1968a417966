// Which line the host is to look at next.
package line

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
)

// crowd has callers[i] callers wait in turn in line i, whose host is i + 1, and wakes all lines.
func crowd(q *Lines, now Clock, callers ...int) {
	for i, n := range callers {
		name := []byte(fmt.Sprint("key", i))
		for j := range n {
			step := q.EnterTurn(0, name, uintptr(100*i+j+1), 1, Turn{LookNs: 10, TimeoutNs: 1000, Changed: true}, now)
			if step.LineHost == 0 {
				q.Own(step.Line, uintptr(i+1), name)
			}
		}
	}
	q.AllChanged(AllDBs, func(uintptr) {})
}

// decided lets callers in during a turn with room for decisions. It returns the hosts of their lines in order, and for
// how long the host then sleeps.
func decided(t *testing.T, q *Lines, now Clock, decisions int) (hosts []uintptr, sleepNs int64) {
	t.Helper()
	q.Begin(TurnOf(decisions))
	for {
		switch step := q.NextOfAll(now); step.Kind {
		case Decide:
			hosts = append(hosts, step.LineHost)
			q.LetIn(step.Entry)
		case Close:
		case Sleep:
			return hosts, step.Ns
		default:
			require.Fail(t, "unexpected", "%+v", step)
		}
	}
}

// However many lines there are, a turn decides no more callers than it has room for. A line with more of them goes on
// behind the others.
func TestATurnIsBoundedOverAllLines(t *testing.T) {
	var q Lines
	now := Clock{WallNs: start, MonoNs: 1}
	crowd(&q, now, 5, 1, 1, 2)
	hosts, sleepNs := decided(t, &q, now, 0)
	assert.Empty(t, hosts)
	assert.Zero(t, sleepNs, "there is more to do")
	hosts, sleepNs = decided(t, &q, now, 3)
	assert.Equal(t, []uintptr{1, 1, 1}, hosts)
	assert.Zero(t, sleepNs, "there is more to do")
	var rest []uintptr
	for range 100 {
		if hosts, sleepNs = decided(t, &q, now, 3); len(hosts) == 0 && sleepNs > 0 {
			break
		}
		assert.LessOrEqual(t, len(hosts), 3)
		rest = append(rest, hosts...)
	}
	assert.Equal(t, []uintptr{2, 3, 4, 4}, slices.DeleteFunc(slices.Clone(rest), func(h uintptr) bool { return h == 1 }))
	assert.Equal(t, []uintptr{2, 3}, rest[:2], "the others come first")
	assert.Len(t, rest, 6)
	assert.EqualValues(t, math.MaxInt64, sleepNs)
	assert.Empty(t, q.byName)
}

// Lines whose time comes by itself are looked at then, the earliest first.
func TestLinesAreLookedAtWhenTheirTimeComes(t *testing.T) {
	var q Lines
	now := Clock{WallNs: start, MonoNs: 1}
	for i, lookNs := range []int64{30, 10, 20} {
		name := []byte(fmt.Sprint("key", i))
		q.Own(q.EnterTurn(0, name, uintptr(i+1), 1, Turn{LookNs: lookNs}, now).Line, uintptr(i+1), name)
	}
	hosts, sleepNs := decided(t, &q, now, 64)
	assert.Empty(t, hosts)
	assert.EqualValues(t, 10, sleepNs)
	now.WallNs += 20
	now.MonoNs += 20
	hosts, sleepNs = decided(t, &q, now, 64)
	assert.Equal(t, []uintptr{2, 3}, hosts)
	assert.EqualValues(t, 10, sleepNs)
}

// A panic while a line is looked at keeps no other line from its turn.
func TestAPanicStopsOneLine(t *testing.T) {
	var q Lines
	now := Clock{WallNs: start, MonoNs: 1}
	crowd(&q, now, 1, 1)
	q.find(0, []byte("key0")).highest = &rank{} // without a group
	q.Begin(TurnOf(8))
	require.Panics(t, func() { q.NextOfAll(now) })
	hosts, _ := decided(t, &q, now, 8)
	assert.Equal(t, []uintptr{2}, hosts)
}

// Whatever wakes, delays and closes lines: the queue has each line that has something to do once, and those that sleep
// by their time.
func TestTheQueueHoldsEveryLineOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := chance.FromRapid(t)
		var q Lines
		now := Clock{WallNs: start, MonoNs: 1}
		known := map[uintptr]bool{}
		for moves, caller := pick("moves", 1, 60), uintptr(1); moves > 0; moves-- {
			name := []byte(fmt.Sprint("key", pick("key", 0, 5)))
			switch pick("move", 0, 4) {
			case 0:
				turn := Turn{LookNs: pick("look", 0, 9), TimeoutNs: pick("timeout", 0, 9), Changed: pick("changed", 0, 1) == 1}
				step := q.EnterTurn(0, name, caller, caller, turn, now)
				if step.LineHost == 0 {
					q.Own(step.Line, uintptr(step.Line), name)
				}
				known[caller] = true
				caller++
			case 1:
				q.Changed(0, name)
			case 2:
				gone := uintptr(pick("who leaves", 1, int64(caller)))
				q.Leave(gone)
				delete(known, gone)
			case 3:
				q.Stepped(now, func(uintptr) {})
			case 4:
				now.WallNs += pick("passes", 0, 9)
				now.MonoNs = now.WallNs - start + 1
				q.Begin(int(pick("room", 0, 20)))
				for {
					step := q.NextOfAll(now)
					if step.Kind == Sleep {
						assert.Equal(t, q.soon.first != nil, step.Ns == 0 && q.soon.count > 0)
						break
					}
					if step.Kind == Decide && pick("let in", 0, 1) == 0 {
						q.WaitsOn(step.Entry, pick("look", 1, 9), now)
					} else if step.Kind == Decide || step.Kind == TimeOut {
						delete(known, step.Host)
						q.Dismiss(step.Entry)
					}
				}
				require.Nil(t, q.inHand)
			}
			soon := 0
			for l := q.soon.first; l != nil; l = l.next {
				soon++
				require.True(t, l.soon)
				require.Zero(t, l.sleeper)
			}
			require.EqualValues(t, soon, q.soon.count)
			for i, l := range q.sleepers {
				require.Equal(t, i+1, l.sleeper)
				require.False(t, l.soon)
				require.LessOrEqual(t, q.sleepers[0].wakesNs, l.wakesNs)
			}
			require.Equal(t, len(q.byName), soon+len(q.sleepers), "every line is in the queue")
			require.Len(t, q.byCaller, len(known))
		}
	})
}
