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

// What a settlement adds to a key, and what that pushes out, is as in the model.
func TestAdjustChangesWhatTheModelDoes(t *testing.T) {
	r := chance.New(t)
	settled := 0
	for range 500 {
		pool := []spec{rate(5, minute, 5), rate(9, minute, 9), rate(7, hour, 7), window(5, minute), window(9, minute), window(5, hour),
			fixed(5, hour), fixed(5, day), first(5, minute),
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
		named[i] = take(named[i], difference)
	}
	slots := naive.Group{Leases: &naive.Leases{}}
	slots.Leases.Lease(now, 1, time.Hour, "id")
	want, _ = wrote([]*reference{model}, func() naive.Reply { return naive.Settle(now, []naive.Group{of, slots}, "id") })
	want.Limited = false // where the model says that it settled
	return want, k.adjust(limits(t, named...), now)
}
