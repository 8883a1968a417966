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

// What bounds the harm of a lost release: the first TTL is short, and is extended as soon as there is somebody who
// holds the lease.
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

// What ends the harm sooner: a slot that may have been granted is given back until the server has done so, or says
// twice that there is none.
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

// The slot of a holder that is done while the server is away is free when that is back, and not only after the TTL.
func TestAReleaseThatMeetsAnOutageIsRepeated(t *testing.T) {
	t.Parallel()
	refused := func() (ratelimit.Result, error) {
		return ratelimit.Result{}, replied("NOPERM this user has no permissions to run the 'cl.release' command")
	}
	loading := func() (ratelimit.Result, error) { return ratelimit.Result{}, replied("LOADING") }
	for rule, c := range map[string]struct {
		releases []step
		want     int
		ends     error
	}{
		"not when it has a reply":              {[]step{gave(1)}, 1, nil},
		"until it has one":                     {[]step{lost, lost, loading, gave(1)}, 4, io.EOF},
		"which may be that the lease is over":  {[]step{lost, gave(0)}, 2, io.EOF},
		"or an error that does not pass":       {[]step{lost, refused}, 2, io.EOF},
		"not after an error that does not":     {[]step{refused}, 1, replied("NOPERM this user has no permissions to run the 'cl.release' command")},
		"no longer than the TTL, and not hard": {[]step{lost}, 20, io.EOF},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLease: {gave(0)}, ratelimit.VerbRenew: {gave(0)}, ratelimit.VerbRelease: c.releases}}
			lease, err := leases.Take(t.Context(), s, leases.Options{Key: "k", Slots: 1, TTL: time.Minute})
			require.NoError(t, err)
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, lease.Release(ctx), c.ends, rule)
			assert.Equal(t, began, time.Now(), "nobody waits for it")
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.LessOrEqual(t, len(s.of(ratelimit.VerbRelease)), c.want, rule)
			if c.want < 20 {
				assert.Len(t, s.of(ratelimit.VerbRelease), c.want, rule)
			} else {
				assert.Greater(t, len(s.of(ratelimit.VerbRelease)), 10, rule)
			}
		})
	}
}

// replied is an error that the server replied.
type replied string

func (r replied) Error() string { return string(r) }
func (replied) RedisError()     {}

// hung is a server that stands still.
type hung struct {
	answers   ratelimit.Decider
	mu        sync.Mutex
	releasing int
	most      int
}

func (h *hung) Decide(ctx context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	if c.Verb != ratelimit.VerbRelease {
		return h.answers.Decide(ctx, c)
	}
	h.mu.Lock()
	h.releasing++
	h.most = max(h.most, h.releasing)
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	h.releasing--
	h.mu.Unlock()
	return ratelimit.Result{}, ctx.Err()
}

// What goes on without its caller is bounded: an outage must not cost the process its memory. It is not parallel to the
// tests above, which count on their share.
func TestFewReleasesGoOnInTheBackground(t *testing.T) {
	for rule, c := range map[string]struct {
		answers step
		release bool
	}{"of slots whose reply was lost": {lost, false}, "of leases": {gave(0), true}} {
		synctest.Test(t, func(t *testing.T) {
			h := &hung{answers: &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLease: {c.answers}, ratelimit.VerbRenew: {gave(0)}}}}
			var callers sync.WaitGroup
			for range 1500 {
				callers.Go(func() {
					lease, err := leases.Take(t.Context(), h, leases.Options{Key: "k", Slots: 1, TTL: 30 * time.Second})
					if c.release && assert.NoError(t, err) {
						assert.Error(t, lease.Release(t.Context()))
					}
				})
			}
			callers.Wait()
			h.mu.Lock()
			h.most = 0
			h.mu.Unlock()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			assert.Positive(t, h.most, rule)
			assert.LessOrEqual(t, h.most, 1000, rule)
		})
	}
}
