// What a settlement charges and gives back, compared with calls that force and refund as much.
package stack_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/naive"
	"redis-throttle/limiter/stack"
)

func (k *key) adjust(limits []stack.Limit, nowNs int64) stack.Result {
	return k.call(limits, nowNs, func(s *stack.Stack) stack.Result {
		var j stack.Joint
		j.Reset()
		j.Join(s)
		return j.Adjust(nowNs)
	})
}

func TestAdjustChargesWhatIsMissingAndGivesBackWhatIsTooMuch(t *testing.T) {
	for _, limit := range []spec{rate(5, minute, 5), window(5, minute), fixed(5, minute), first(5, minute)} {
		for _, c := range []struct {
			name               string
			units              int64 // what was used less what was taken
			granted, remaining int64
		}{
			{"more was used", 1, 1, 1},
			{"all that is left was used", 2, 2, 0},
			{"more than there is was used", 7, 7, 0},
			{"as much was used as taken", 0, 0, 2},
			{"less was used", -1, -1, 3},
			{"nothing was used", -3, -3, 5},
			{"more is given back than was taken", -9, -3, 5},
		} {
			t.Run(c.name, func(t *testing.T) {
				k, other := key{t: t}, key{t: t}
				k.take(limits(t, limit), cost(3), start)
				other.value = append([]byte(nil), k.value...)
				got := k.adjust(limits(t, limit.taking(c.units)), start)
				assert.Equal(t, c.granted, got.Granted)
				assert.Equal(t, c.remaining, got.Remaining)
				assert.Equal(t, c.units != 0, got.Changed)
				assert.False(t, got.Limited)
				switch {
				case c.units > 0:
					other.take(limits(t, limit), stack.Request{Cost: c.units, Force: true}, start)
				case c.units < 0:
					other.refund(limits(t, limit), -c.units, start)
				}
				assert.Equal(t, other.value, k.value)
			})
		}
	}
}

// Each limit by itself; the fields are those of the limit with the fewest units left.
func TestAdjustOfSeveralLimits(t *testing.T) {
	one, two, three := rate(5, minute, 5), window(9, hour), fixed(7, day)
	k := key{t: t}
	k.take(limits(t, one, two, three), cost(4), start)
	got := k.adjust(limits(t, one.taking(-2), two.taking(0), three.taking(3)), start)
	assert.Equal(t, stack.Result{Rule: 2, RetryAfterNs: stack.Never, Granted: 3, Changed: true, Limit: 7, Remaining: 0, ResetAfterNs: got.ResetAfterNs, NextAfterNs: got.NextAfterNs}, got)
	assert.EqualValues(t, 3, k.peek(limits(t, one), 0, start).Remaining)
	assert.EqualValues(t, 5, k.peek(limits(t, two), 0, start).Remaining)
	assert.EqualValues(t, 0, k.peek(limits(t, three), 0, start).Remaining)
}

// The limits that it adds are those that it charges. So it pushes out none for the sake of limits that are full.
func TestAdjustAddsOnlyLimitsThatItCharges(t *testing.T) {
	var eight []spec
	for i := range int64(stack.MaxLimits) {
		eight = append(eight, window(5, day+i*second))
	}
	inUse := func(k *key) (n int) {
		for _, w := range eight {
			if k.peek(limits(t, w), 0, start).Remaining < 5 {
				n++
			}
		}
		return n
	}
	for _, test := range []struct {
		name  string
		named []spec
		inUse int
	}{
		{"gives back", []spec{eight[0].taking(-1), fixed(5, hour).taking(-1), fixed(5, day).taking(0)}, 8},
		{"charges one that is there", []spec{eight[7].taking(1), fixed(5, hour).taking(-1), first(5, day).taking(-2)}, 8},
		{"charges one that is not there", []spec{eight[7].taking(1), fixed(5, hour).taking(-1), fixed(5, day).taking(1), rate(5, minute, 5).taking(-1)}, 7},
		{"charges none that is there", []spec{fixed(5, day).taking(1), fixed(5, hour).taking(-1)}, 7},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := key{t: t}
			k.take(limits(t, eight...), cost(3), start)
			before := len(k.value)
			k.adjust(limits(t, test.named...), start)
			assert.Equal(t, test.inUse, inUse(&k))
			if test.inUse == 8 {
				assert.LessOrEqual(t, len(k.value), before)
			}
		})
	}
}

// A limit that is charged keeps its state apart from limits that are named before it and that the value does not hold.
func TestAdjustAddsLimitsThatOnlyOrderTellsApart(t *testing.T) {
	for _, test := range []struct {
		name string
		two  [2]spec
	}{
		{"rates", [2]spec{rate(5, minute, 5), rate(9, hour, 9)}},
		{"rates of one period", [2]spec{rate(5, minute, 5), rate(9, minute, 9)}},
		{"windows of one period", [2]spec{window(5, minute), window(9, minute)}},
		{"windows", [2]spec{window(5, minute), window(9, hour)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := key{t: t}
			k.adjust(limits(t, test.two[0].taking(-1), test.two[1].taking(3)), start)
			for i, remaining := range []int64{5, 6} {
				two := [2]spec{test.two[0].taking(0), test.two[1].taking(0)}
				two[i] = test.two[i].taking(remaining)
				assert.False(t, k.peek(limits(t, two[:]...), 0, start).Limited, i)
				two[i] = test.two[i].taking(remaining + 1)
				assert.True(t, k.peek(limits(t, two[:]...), 0, start).Limited, i)
			}
		})
	}
}

// What a settlement adds to a key, and what that pushes out, is as in the model.
func TestAdjustChangesWhatTheModelDoes(t *testing.T) {
	r := chance.New(t)
	settled := 0
	for range 500 {
		pool := []spec{rate(5, minute, 5), rate(9, minute, 9), rate(7, hour, 7), window(5, minute), window(9, minute), window(5, hour), fixed(5, hour), fixed(5, day), first(5, minute),
			first(5, hour), first(5, day), window(5, day), fixed(9, hour)}
		k, model, now := key{t: t}, newReference(), start
		for range 30 {
			now += r.Int64N(2) * r.Int64N(2*hour)
			r.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
			named := append([]spec(nil), pool[:1+r.IntN(5)]...)
			if r.IntN(2) == 0 {
				require.Equal(t, model.take(named, cost(1), now), k.take(limits(t, named...), cost(1), now))
				continue
			}
			want, got := settleBoth(t, r, &k, model, named, now)
			require.Equal(t, want, got)
			settled++
			for _, s := range pool {
				require.Equal(t, model.peek([]spec{s}, 1, now), k.peek(limits(t, s), 1, now), "%+v", s)
			}
		}
	}
	assert.Positive(t, settled)
}

// settleBoth settles the same differences in the model and in a key.
func settleBoth(t *testing.T, r *rand.Rand, k *key, model *reference, named []spec, now int64) (want, got stack.Result) {
	t.Helper()
	const taken = 3
	asked, _ := inModel(named)
	of := naive.Group{Call: naive.Call{Model: model.model, Limits: asked}}
	for i := range named {
		difference := r.Int64N(2*taken) - taken
		of.Terms, of.Used = append(of.Terms, naive.Terms{Take: taken, HasTake: true}), append(of.Used, taken+difference)
		named[i] = named[i].taking(difference)
	}
	slots := naive.Group{Leases: &naive.Leases{}}
	slots.Leases.Lease(now, 1, time.Hour, "id")
	want, _ = wrote([]*reference{model}, func() naive.Reply { return naive.Settle(now, []naive.Group{of, slots}, "id") })
	want.Limited = false // where the model says that it settled
	return want, k.adjust(limits(t, named...), now)
}
