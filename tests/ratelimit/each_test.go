package ratelimit_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

// Each limit says what it would have said alone, so that a gateway fills a field for each policy from one call.
func TestEachLimitIsToldOf(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	each := func(c *ratelimit.Call) { c.Each = true }
	for _, protocol := range []int{2, 3} {
		l := ratelimit.New(s.Client(server.Protocol(protocol)), ratelimit.Options{})
		user := ratelimit.Key{Name: "user", Limits: ratelimit.Limits{ratelimit.Fixed(5, 365*day), ratelimit.Fixed(2, 364*day)}}
		team := ratelimit.Key{Name: "team", Limits: ratelimit.Limits{ratelimit.Fixed(9, 365*day)}}
		for _, limited := range []bool{false, true} {
			r, err := l.Decide(t.Context(), calls.OnKeys([]ratelimit.Key{user, team}, calls.Cost(2), each))
			require.NoError(t, err)
			require.Equal(t, limited, r.Limited)
			require.Len(t, r.Each, 3)
			for i, want := range []ratelimit.Result{
				{Limit: 5, Remaining: 3}, {Limited: limited, Limit: 2, Rule: 1}, {Limit: 9, Remaining: 7, Key: 1},
			} {
				got := r.Each[i]
				assert.Equal(t, want.Limited, got.RetryAfter > 0)
				assert.Positive(t, got.ResetAfter)
				got.RetryAfter, got.ResetAfter = 0, 0
				assert.Equal(t, want, got, i)
			}
		}
		for _, c := range []ratelimit.Call{
			calls.On("user", user.Limits, each),
			{Verb: ratelimit.VerbPeek, Keys: []ratelimit.Key{user}, Cost: 1, Each: true},
			{Verb: ratelimit.VerbRefund, Keys: []ratelimit.Key{user}, Cost: 2, Each: true},
			{Verb: ratelimit.VerbWait, Keys: []ratelimit.Key{user}, Cost: 1, Each: true, MaxWait: day},
		} {
			r, err := l.Decide(t.Context(), c)
			require.NoError(t, err, c.Verb)
			assert.Len(t, r.Each, 2, c.Verb)
		}
		s.MustDo("FLUSHALL")
	}
}
