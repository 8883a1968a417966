package leases_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/leases"
)

// script answers each call of a verb with the next answer, and with the last one from then on.
type script struct {
	mu      sync.Mutex
	answers map[ratelimit.Verb][]func() (ratelimit.Result, error)
	calls   []ratelimit.Call
}

func (s *script) Decide(_ context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	next := s.answers[c.Verb]
	if len(next) == 0 {
		return ratelimit.Result{}, errors.New("unexpected")
	}
	if len(next) > 1 {
		s.answers[c.Verb] = next[1:]
	}
	return next[0]()
}

// of are the calls of a verb.
func (s *script) of(verb ratelimit.Verb) (calls []ratelimit.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Verb == verb {
			calls = append(calls, c)
		}
	}
	return calls
}

type step = func() (ratelimit.Result, error)

func lost() (ratelimit.Result, error) { return ratelimit.Result{}, io.EOF }
func gave(slots int64) step {
	return func() (ratelimit.Result, error) { return ratelimit.Result{Granted: -slots, By: "server"}, nil }
}

// What bounds the harm of a lost release: the first TTL is short, and is extended as soon as there is somebody who holds the lease.
func TestALeaseLastsShortlyUntilItsHolderKnowsOfIt(t *testing.T) {
	t.Parallel()
	for ttl, first := range map[time.Duration]time.Duration{time.Hour: 3 * time.Second, time.Second: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: map[ratelimit.Verb][]step{
				ratelimit.VerbLease: {gave(0)}, ratelimit.VerbRenew: {gave(0)}, ratelimit.VerbRelease: {gave(1)},
			}}
			lease, err := leases.Take(t.Context(), s, leases.Options{Key: "k", Slots: 1, TTL: ttl})
			require.NoError(t, err)
			assert.Equal(t, first, s.of(ratelimit.VerbLease)[0].Keys[0].TTL)
			time.Sleep(first / 2)
			renewals := s.of(ratelimit.VerbRenew)
			require.Len(t, renewals, 1)
			assert.Equal(t, ttl, renewals[0].Keys[0].TTL)
			time.Sleep(first)
			require.NoError(t, lease.Context().Err())
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

// A server that goes away right after the lease is taken must be away for most of the TTL to end the work.
func TestALeaseOutlastsAnOutageThatIsShorterThanItsTTL(t *testing.T) {
	t.Parallel()
	for rule, c := range map[string]struct {
		before, outage time.Duration // the lease was taken that long before the outage began
		want           error
	}{
		"an outage right after it was taken":       {time.Nanosecond, 3500 * time.Millisecond, nil},
		"one that begins before it is renewed":     {9 * time.Second, 15 * time.Second, nil},
		"one that lasts longer than the TTL":       {time.Nanosecond, time.Minute, leases.ErrLost},
		"one that begins with the lease, for long": {0, 4 * time.Second, leases.ErrLost},
		"one that begins with the lease, shortly":  {0, 2 * time.Second, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			renew := func() (ratelimit.Result, error) {
				if passed := time.Since(began); passed >= c.before && passed < c.before+c.outage {
					return lost()
				}
				return gave(0)()
			}
			s := &script{answers: map[ratelimit.Verb][]step{
				ratelimit.VerbLease: {gave(0)}, ratelimit.VerbRenew: {renew}, ratelimit.VerbRelease: {gave(1)},
			}}
			lease, err := leases.Take(t.Context(), s, leases.Options{Key: "k", Slots: 1, TTL: 30 * time.Second})
			require.NoError(t, err)
			time.Sleep(c.before + c.outage + 10*time.Second)
			assert.Equal(t, c.want, context.Cause(lease.Context()), rule)
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

// What ends the harm sooner: a slot that may have been granted is given back until the server has done so, or says twice that
// there is none.
func TestASlotWhoseReplyIsLostIsGivenBack(t *testing.T) {
	t.Parallel()
	for rule, c := range map[string]struct {
		releases []step
		want     int
	}{
		"at once":                          {[]step{gave(1)}, 1},
		"after releases that fail":         {[]step{lost, lost, gave(1)}, 3},
		"after a release that came before": {[]step{gave(0), gave(1)}, 2},
		"never, when there is none":        {[]step{gave(0)}, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLease: {lost}, ratelimit.VerbRelease: c.releases}}
			_, err := leases.Take(t.Context(), s, leases.Options{Key: "k", Slots: 1, TTL: time.Hour})
			require.ErrorIs(t, err, io.EOF)
			time.Sleep(time.Minute)
			releases := s.of(ratelimit.VerbRelease)
			require.Len(t, releases, c.want, rule)
			for _, release := range releases {
				assert.Equal(t, s.of(ratelimit.VerbLease)[0].ID, release.ID)
			}
		})
	}
}
