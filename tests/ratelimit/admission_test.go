package ratelimit_test

import (
	"context"
	"errors"
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

// The server charges what was used, whether the work succeeds or not, and knows the lease by the ID of the admission.
func TestAnAdmissionChargesWhatWasUsed(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	client := s.Client()
	l := ratelimit.New(client, ratelimit.Options{})
	tokens := ratelimit.Limits{ratelimit.Fixed(5000, 365*day)}
	broken := errors.New("broken")
	for _, c := range []struct {
		id   string
		used []int64
		ends error
		left int64
	}{{"less", []int64{200}, nil, 4800}, {"nothing said", nil, nil, 3600}, {"more, and an error", []int64{2000}, broken, 1600}, {"none", []int64{0}, nil, 1600}} {
		call := admission(c.id)
		call.Keys[0].Limits[0] = call.Keys[0].Limits[0].Spare(9) // which CL.SETTLE has no word for
		err := leases.DoAdmitted(t.Context(), l, call, func(_ context.Context, a *leases.Admission) error {
			held, err := leases.List(t.Context(), client, "running", 10)
			require.NoError(t, err)
			require.Len(t, held.Leases, 1)
			assert.Equal(t, c.id, held.Leases[0].ID)
			if c.used != nil {
				a.Used("tokens", c.used...)
			}
			return c.ends
		})
		require.ErrorIs(t, err, c.ends)
		assert.Equal(t, c.left, remaining(t, s, "tokens", tokens), c.id)
		held, err := leases.List(t.Context(), client, "running", 10)
		require.NoError(t, err)
		assert.Zero(t, held.Held, c.id)
	}
	// A slot that is gone is an error at the end, and the estimate stays.
	err := leases.DoAdmitted(t.Context(), l, admission("gone"), func(_ context.Context, a *leases.Admission) error {
		a.Used("tokens", 0)
		found, err := l.Reset(t.Context(), "running")
		assert.True(t, found)
		return err
	})
	require.ErrorIs(t, err, leases.ErrLost)
	assert.EqualValues(t, 400, remaining(t, s, "tokens", tokens))
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
			weight     int64
		}{{"a1", "a", 0, 2}, {"a2", "a", 0, 2}, {"b1", "b", 0, 0}, {"urgent", "", 5, 0}} {
			o := take
			o.Group, o.Priority, o.Weight = c.group, c.priority, c.weight
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
		require.Len(t, h.Leases, 1)
		assert.Positive(t, h.Leases[0].Lasts)
		assert.EqualValues(t, 3, h.WaitingGroups)
		assert.Equal(t, []leases.Group{{Priority: 5, Waiting: 1, Weight: 1}, {Name: "a", Waiting: 2, Weight: 2}}, h.Groups)

		require.NoError(t, first.Release(t.Context()))
		for _, want := range []string{"urgent", "a1", "b1", "a2"} {
			next := <-turns
			assert.Equal(t, want, next.who)
			require.NotNil(t, next.lease)
			require.NoError(t, next.lease.Release(t.Context()))
		}
	}
}
