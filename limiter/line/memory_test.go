package line

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/gcra"
	"redis-throttle/limiter/stack"
)

// A line that is never empty does not grow without end.
func TestALineThatIsNeverEmptyStaysSmall(t *testing.T) {
	limit, err := stack.NewRate(1, 10, 1, 1)
	require.NoError(t, err)
	var s stack.Stack
	s.Load([]stack.Limit{limit})
	var q Lines
	var l *line
	var before []gcra.State
	now := int64(1_700_000_000_000_000_000)
	for caller := uintptr(1); caller <= 5000; caller++ {
		before = s.Rates(before[:0], now)
		r := s.Take(stack.Request{Cost: 1, MaxWaitNs: 1 << 40}, now)
		l = enter(&q, 0, []byte("k"), caller, &s, 1, before, now, r.WaitNs)
		if caller > 3 {
			now = l.waiting()[0].slotNs
			step := q.Next(l.id, at(now), 0)
			require.Equal(t, Answer, step.Kind)
			require.Equal(t, caller-3, step.Host)
		}
	}
	assert.Less(t, len(q.entries), 32)
}

// A key that somebody else has changed is no longer the line's, also when it looks like it again.
func TestAKeyThatWasAnothersStaysSo(t *testing.T) {
	limit, err := stack.NewRate(1, 10, 1, 1)
	require.NoError(t, err)
	var s stack.Stack
	s.Load([]stack.Limit{limit})
	now := int64(1_700_000_000_000_000_000)
	s.Take(stack.Request{Cost: 1}, now)
	before := s.Rates(nil, now)
	r := s.Take(stack.Request{Cost: 1, MaxWaitNs: 100}, now)
	var q Lines
	line := enter(&q, 0, []byte("k"), 1, &s, 1, before, now, r.WaitNs)
	own := s.Append(nil)
	s.Take(stack.Request{Cost: 1, MaxWaitNs: 100}, now)
	others := s.Append(nil)
	w := line.waiting()[0]
	assert.True(t, w.leads(own, &s, now))
	assert.False(t, w.leads([]byte("not a state"), &s, now))
	w.severed = false
	assert.False(t, w.leads(others, &s, now))
	assert.False(t, w.leads(own, &s, now))
}
