package ratelimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

// admission takes tokens and one of two slots under an id.
func admission(id string, opts ...calls.Option) ratelimit.Call {
	c := calls.OnKeys([]ratelimit.Key{
		{Name: "tokens", Limits: ratelimit.Limits{ratelimit.Fixed(5000, 365*day).Take(1200)}},
		{Name: "running", Slots: 2, TTL: time.Minute},
	}, opts...)
	c.ID = id
	return c
}

// settlement ends the admission of id after so many tokens.
func settlement(id string, used int64) ratelimit.Call {
	return ratelimit.Call{Verb: ratelimit.VerbSettle, ID: id, Keys: []ratelimit.Key{
		{Name: "tokens", Limits: ratelimit.Limits{ratelimit.Fixed(5000, 365*day).Take(1200).Used(used)}},
		{Name: "running"},
	}}
}

func TestAnAdmissionTakesUnitsAndASlotAndIsSettledOnce(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, protocol := range []int{2, 3} {
		l, ctx := ratelimit.New(s.Client(server.Protocol(protocol)), ratelimit.Options{}), t.Context()
		decide := func(c ratelimit.Call) ratelimit.Result {
			t.Helper()
			r, err := l.Decide(ctx, c)
			require.NoError(t, err)
			return r
		}
		left := func() int64 {
			t.Helper()
			r, err := l.Peek(ctx, "tokens", ratelimit.Limits{ratelimit.Fixed(5000, 365*day)}, 1)
			require.NoError(t, err)
			return r.Remaining
		}

		r := decide(admission("a"))
		assert.False(t, r.Limited)
		assert.Equal(t, []int64{1, 0, 2, 1}, []int64{int64(r.Key), int64(r.Rule), r.Limit, r.Remaining}, "the slots decided")
		decide(admission("a"))
		assert.EqualValues(t, 3800, left(), "a retry renews its lease and is charged nothing")
		decide(admission("b"))
		r = decide(admission("c"))
		assert.True(t, r.Limited)
		assert.Equal(t, 1, r.Key)
		assert.Positive(t, r.RetryAfter)
		assert.EqualValues(t, 2600, left(), "a call without a slot is not charged")
		r = decide(admission("d", func(c *ratelimit.Call) { c.Each = true }))
		require.Len(t, r.Each, 2, "slots count as one limit")
		assert.Equal(t, []bool{false, true}, []bool{r.Each[0].Limited, r.Each[1].Limited})
		assert.Equal(t, 1, r.Each[1].Key)

		r = decide(settlement("a", 200))
		assert.False(t, r.Limited)
		assert.Equal(t, []int64{0, 0, 5000, 3600, -1000}, []int64{int64(r.Key), int64(r.Rule), r.Limit, r.Remaining, r.Granted})
		again := decide(settlement("a", 200))
		assert.True(t, again.Limited, "it was settled before")
		assert.Equal(t, ratelimit.Never, again.RetryAfter)
		assert.Zero(t, again.Granted)
		assert.EqualValues(t, 3600, left())
		b := settlement("b", 1500)
		b.Each = true
		r = decide(b)
		assert.EqualValues(t, 300, r.Granted)
		require.Len(t, r.Each, 2)
		assert.EqualValues(t, 3300, r.Each[0].Remaining)
		assert.EqualValues(t, 3300, left())

		decide(admission("only slots"))
		r = decide(ratelimit.Call{Verb: ratelimit.VerbSettle, ID: "only slots", Keys: []ratelimit.Key{{Name: "running"}}})
		assert.Equal(t, ratelimit.Result{By: "server"}, ratelimit.Result{Limited: r.Limited, Granted: r.Granted, By: r.By})
		s.MustDo("FLUSHALL")
	}
}

// What an id makes safe to repeat go-redis repeats when a reply gets lost, and it is charged once.
func TestAnAdmissionWhoseReplyIsLostIsRepeatedAndChargedOnce(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := ratelimit.New(s.Client(func(o *redis.Options) {
		o.Addr = lossyLink(t, s, "CL.")
		o.MaxRetries = 2
	}), ratelimit.Options{})
	tokens := ratelimit.Limits{ratelimit.Fixed(5000, 365*day)}
	for _, lost := range []struct {
		call  ratelimit.Call
		stats string
		sent  int
		left  int64
	}{
		{admission("a"), "cmdstat_cl.mlimit", 3, 3800},
		{settlement("a", 200), "cmdstat_cl.settle", 3, 4800},
		{admission("b"), "cmdstat_cl.mlimit", 3 + 3, 3600},
		{admission("c"), "cmdstat_cl.mlimit", 3 + 3 + 3, 2400},
		{admission("d", calls.Strict), "cmdstat_cl.mlimit", 3 + 3 + 3 + 1, 1200}, // charged although it is limited
	} {
		_, err := l.Decide(t.Context(), lost.call)
		require.Error(t, err)
		assert.Contains(t, s.Info("commandstats")[lost.stats], fmt.Sprintf("calls=%d,", lost.sent), lost.call.ID)
		assert.Equal(t, lost.left, remaining(t, s, "tokens", tokens), lost.call.ID)
	}
}

func TestGroupsOfCallersTakeTurnsAndPrioritiesComeFirst(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, protocol := range []int{2, 3} {
		client := s.Client(server.Protocol(protocol))
		l := ratelimit.New(client, ratelimit.Options{})
		take := leases.Options{Key: "k", Slots: 1, TTL: time.Hour, MaxWait: ratelimit.Forever}
		first, err := leases.Take(t.Context(), l, take)
		require.NoError(t, err)
		type served struct {
			who   string
			lease *leases.Lease
		}
		turns := make(chan served, 10)
		for i, c := range []struct {
			who, group string
			priority   int64
		}{{"a1", "a", 0}, {"a2", "a", 0}, {"b1", "b", 0}, {"urgent", "", 5}} {
			o := take
			o.Group, o.Priority = c.group, c.priority
			go func() {
				lease, err := leases.Take(context.WithoutCancel(t.Context()), l, o)
				assert.NoError(t, err)
				turns <- served{c.who, lease}
			}()
			require.Eventually(t, func() bool {
				h, err := leases.List(t.Context(), client, "k", 10)
				return err == nil && h.Waiting == int64(i+1)
			}, 10*time.Second, time.Millisecond)
		}

		h, err := leases.List(t.Context(), client, "k", 2)
		require.NoError(t, err)
		assert.EqualValues(t, 3, h.WaitingGroups)
		assert.Equal(t, []leases.Group{{Priority: 5, Waiting: 1}, {Name: "a", Waiting: 2}}, h.Groups)

		require.NoError(t, first.Release(t.Context()))
		for _, want := range []string{"urgent", "a1", "b1", "a2"} {
			next := <-turns
			assert.Equal(t, want, next.who)
			require.NotNil(t, next.lease)
			require.NoError(t, next.lease.Release(t.Context()))
		}
	}
}
