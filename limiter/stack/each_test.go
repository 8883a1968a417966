package stack_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/limiter/stack"
)

// Two rates of one unit each second, of which the second holds no unit.
func TestEachLimitIsJudgedAlone(t *testing.T) {
	const now, second = int64(1_700_000_000_000_000_000), int64(time.Second)
	row := limits(t, rate(1, second, 3), rate(1, second, 1))
	for _, test := range []struct {
		name     string
		request  stack.Request
		limiting uint64
		retryNs  [2]int64
	}{
		{"the second says no", stack.Request{Cost: 1}, 0b10, [2]int64{stack.Never, second}},
		{"both say no", stack.Request{Cost: 3}, 0b11, [2]int64{second, stack.Never}},
		{"nothing is asked", stack.Request{}, 0, [2]int64{stack.Never, stack.Never}},
		{"it may wait for just as long as it has to", stack.Request{Cost: 1, MaxWaitNs: second}, 0, [2]int64{stack.Never, stack.Never}},
		{"it may wait for too short", stack.Request{Cost: 1, MaxWaitNs: second - 1}, 0b10, [2]int64{stack.Never, 1}},
		{"one unit is enough", stack.Request{Cost: 3, UpTo: true}, 0b10, [2]int64{stack.Never, second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s stack.Stack
			s.Load(row)
			s.Take(stack.Request{Cost: 1}, now)
			limiting := s.Judge(&test.request, now)
			assert.Equal(t, test.limiting, limiting)
			for _, limited := range []bool{true, false} {
				want := []stack.Alone{
					{Limited: limiting&1 != 0, Limit: 3, Remaining: 2, RetryAfterNs: test.retryNs[0], ResetAfterNs: second},
					{Limited: limiting&2 != 0, Limit: 1, Remaining: 0, RetryAfterNs: test.retryNs[1], ResetAfterNs: second},
				}
				for rule := range want {
					assert.Equal(t, want[rule], s.Alone(rule, &test.request, limiting, limited, now), "%d, the request limited: %t", rule, limited)
				}
			}
		})
	}
}
