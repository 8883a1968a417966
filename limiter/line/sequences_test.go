// Every short history of a line, compared with the naive one.
package line

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/stack"
)

// sequences is a key, what callers ask of its limits, and by how many ms the clock goes on.
type sequences struct {
	name    string
	quotas  []quota
	asks    [][]ask
	stepsMs []int64
}

func allSequences() []sequences {
	two := []quota{{1, 8 * ms, 1}, {1, 6 * ms, 1}}
	return []sequences{
		{"two rates, of which callers ask one or both", two, [][]ask{{{1, 0}, {0, 0}}, {{0, 0}, {1, 0}}, {{1, 0}, {1, 0}}}, []int64{0, 1, 5, 7}},
		{"a burst, of which some leave a part", []quota{{1, 4 * ms, 3}}, [][]ask{{{1, 0}}, {{3, 0}}, {{1, 2}}}, []int64{0, 1, 4, 9}},
		{"callers that take nothing", two, [][]ask{{{1, 0}, {1, 0}}, {{0, 0}, {1, 0}}, {{0, 0}, {0, 0}}}, []int64{0, 3, 6, 13}},
	}
}

// So many callers come at once. Then time passes and one leaves, whose slot is given back at once or with that of the
// next who leaves; and somebody else may come. In the end everybody is answered.
func (q *sequences) run(t require.TestingT, pick chance.Draw, callers, departures int, seen *tally) {
	const key = "key"
	w := emptyWorld(t, pick, false, seen)
	w.add(key, q.quotas)
	come := func() {
		asks := q.asks[pick("ask", 0, int64(len(q.asks))-1)]
		var limits []stack.Limit
		for i, a := range asks {
			limits = append(limits, w.limits[key][i].With(stack.Terms{HasTake: true, Take: a.units, Spare: a.spare}))
		}
		w.callFor(key, 1, limits, asks)
		w.compare(key)
		seen.steps++
	}
	for range callers {
		come()
	}
	for departure := range departures {
		w.nowNs += q.stepsMs[pick("step", 0, int64(len(q.stepsMs))-1)] * ms
		waiting := w.waiting(key)
		if len(waiting) == 0 {
			break
		}
		w.goes(key, waiting[pick("who leaves", 0, int64(len(waiting))-1)])
		if departure+1 == departures || pick("give back at once", 0, 1) == 1 {
			w.wake(key)
		}
		w.compare(key)
		if departure+1 < departures && pick("somebody comes", 0, 1) == 1 {
			come()
		}
		seen.steps++
	}
	w.finish()
}

// unaided is a test without Helper, which looks at the stack at each check: two fifths of the time, where there are
// millions of them.
type unaided struct{ require.TestingT }

// every calls run with each sequence of draws that there is.
func every(run func(pick chance.Draw)) (sequences int) {
	type choice struct{ taken, last int64 }
	var path []choice
	for {
		n := 0
		run(func(_ string, lo, hi int64) int64 {
			if n == len(path) {
				path = append(path, choice{0, hi - lo})
			}
			n++
			return lo + path[n-1].taken
		})
		sequences++
		for len(path) > 0 && path[len(path)-1].taken == path[len(path)-1].last {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			return sequences
		}
		path[len(path)-1].taken++
	}
}

func TestEverySequenceOfALineEqualsTheNaiveOne(t *testing.T) {
	type extent struct{ callers, departures int }
	extents := size.OfProof([]extent{{4, 1}}, []extent{{6, 1}}, []extent{{6, 1}, {5, 2}})
	for _, e := range extents {
		for _, q := range allSequences() {
			t.Run(fmt.Sprintf("%s, %d callers, %d of whom leave", q.name, e.callers, e.departures), func(t *testing.T) {
				var seen tally
				n := every(func(pick chance.Draw) { q.run(unaided{t}, pick, e.callers, e.departures, &seen) })
				t.Logf("%d sequences, %d moves: %+v", n, seen.steps, seen)
				assert.NotZero(t, seen.moved)
				assert.NotZero(t, seen.answered)
			})
		}
	}
}
