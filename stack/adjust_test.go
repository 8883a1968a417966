// What a settlement charges and gives back, compared with calls that force and refund as much.
package stack_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/stack"
)

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
				got := k.call(limits(t, limit.taking(c.units)), start, func(s *stack.Stack) stack.Result { return s.Adjust(start) })
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
	got := k.call(limits(t, one.taking(-2), two.taking(0), three.taking(3)), start, func(s *stack.Stack) stack.Result { return s.Adjust(start) })
	assert.Equal(t, stack.Result{Rule: 2, RetryAfterNs: stack.Never, Granted: 3, Changed: true, Limit: 7, Remaining: 0, ResetAfterNs: got.ResetAfterNs, NextAfterNs: got.NextAfterNs}, got)
	assert.EqualValues(t, 3, k.peek(limits(t, one), 0, start).Remaining)
	assert.EqualValues(t, 5, k.peek(limits(t, two), 0, start).Remaining)
	assert.EqualValues(t, 0, k.peek(limits(t, three), 0, start).Remaining)
}
