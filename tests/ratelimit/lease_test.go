package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/inspect"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

func waiting(s *server.Server) string { return s.Info("throttle")["throttle_leases_waiting"] }

// held is a time in which somebody was sure to hold a slot, by readings of the clock.
type held struct{ from, to time.Time }

// Holders keep their slots for longer than a lease lasts, give them back, die without a word, hold one by
// hand until their own clock says that it is over, or leave the line. At no instant do more
// believe in a slot than there are.
func TestNeverMoreHoldersThanSlots(t *testing.T) {
	t.Parallel()
	const (
		slots   = 3
		callers = 10
		ttl     = time.Second
		lasts   = 8 * time.Second
	)
	s := server.Start(t)
	var mu sync.Mutex
	var all []held
	kinds := map[string]int{}
	record := func(kind string, from, to time.Time) {
		mu.Lock()
		defer mu.Unlock()
		kinds[kind]++
		if to.After(from) {
			all = append(all, held{from, to})
		}
	}
	// keep holds a lease for about d, and returns the last instant at which it was sure to be held.
	keep := func(lease *leases.Lease, d time.Duration) (sure time.Time) {
		for began := time.Now(); time.Since(began) < d; time.Sleep(time.Millisecond) {
			now := time.Now()
			if lease.Context().Err() != nil {
				break
			}
			sure = now
		}
		return sure
	}
	l := ratelimit.New(s.Client(func(o *redis.Options) { o.PoolSize = 4 * callers }), ratelimit.Options{})
	// byHand takes a slot without waiting; while others wait there is none. It returns until when the lease is sure to
	// be held.
	byHand := func(ctx context.Context, id string) (until time.Time) {
		sent := time.Now()
		r, err := l.Decide(ctx, calls.Lease("k", slots, ttl, id))
		if from := time.Now(); assert.NoError(t, err) && !r.Limited {
			until = sent.Add(r.Lasts)
			record("by hand", from, until)
		}
		return until
	}
	byHand(t.Context(), "first") // while all are free
	began := time.Now()
	var running sync.WaitGroup
	for caller := range callers {
		running.Go(func() {
			for turn := 0; time.Since(began) < lasts; turn++ {
				ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
				switch (caller + turn) % 4 {
				case 0: // leaves the line, perhaps just when its slot is free
					time.AfterFunc(rand.N(ttl/2), cancel)
					if lease, err := leases.Take(ctx, l, leases.Options{Key: "k", Slots: slots, TTL: ttl, MaxWait: ratelimit.Forever}); err == nil {
						from := time.Now()
						record("left", from, keep(lease, ttl))
					}
				case 1: // holds one by hand
					time.Sleep(time.Until(byHand(ctx, fmt.Sprint(caller, "/", turn))))
				default:
					lease, err := leases.Take(ctx, l, leases.Options{Key: "k", Slots: slots, TTL: ttl, MaxWait: ratelimit.Forever})
					if !assert.NoError(t, err) {
						break
					}
					from := time.Now()
					sure := keep(lease, rand.N(3*ttl/2))
					if rand.IntN(2) == 0 {
						record("died", from, sure) // its context ends, and nobody releases
						break
					}
					record("released", from, sure)
					assert.NoError(t, lease.Release(ctx))
				}
				cancel()
			}
		})
	}
	running.Wait()

	for _, kind := range []string{"by hand", "died", "released"} {
		assert.Positive(t, kinds[kind], kind)
	}
	most := 0
	for _, h := range all { // there are the most of them when one of them comes
		now := 0
		for _, other := range all {
			if !other.from.After(h.from) && other.to.After(h.from) {
				now++
			}
		}
		most = max(most, now)
	}
	assert.Equal(t, slots, most)
	require.Eventually(t, func() bool { return s.MustDo("EXISTS", "k").Int == 0 }, 10*ttl, 10*time.Millisecond, "the slots of the dead are free")
}

func TestHoldersAndLinesAreListed(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, protocol := range []int{2, 3} {
		client := s.Client(server.Protocol(protocol))
		l := ratelimit.New(client, ratelimit.Options{})
		holder, err := leases.Take(t.Context(), l, leases.Options{Key: "k", Slots: 1, TTL: time.Hour})
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for i, o := range []leases.Options{{Group: "a", Weight: 2}, {Group: "a", Weight: 2}, {Group: "b"}, {Priority: 5}} {
			o.Key, o.Slots, o.TTL, o.MaxWait = "k", 1, time.Hour, ratelimit.Forever
			callers.Go(func() {
				_, err := leases.Take(ctx, l, o)
				assert.ErrorIs(t, err, context.Canceled)
			})
			require.Eventually(t, func() bool { return waiting(s) == fmt.Sprint(i+1) }, time.Minute, time.Millisecond)
		}
		h, err := leases.List(t.Context(), client, "k", 2)
		require.NoError(t, err)
		require.Len(t, h.Leases, 1)
		assert.Positive(t, h.Leases[0].Lasts)
		assert.EqualValues(t, 4, h.Waiting)
		assert.EqualValues(t, 3, h.WaitingGroups)
		assert.Equal(t, []leases.Group{{Priority: 5, Waiting: 1, Weight: 1}, {Name: "a", Waiting: 2, Weight: 2}}, h.Groups)
		holding, err := inspect.Key(t.Context(), client, "k")
		require.NoError(t, err)
		assert.EqualValues(t, []int64{1, 4}, []int64{holding.Held, holding.Waiting})
		assert.Equal(t, holding.LapsesAt, holding.ExpiresAt)
		_, err = l.Limit(t.Context(), "limits", ratelimit.Limits{ratelimit.Window(9, time.Hour)}, 2)
		require.NoError(t, err)
		holding, err = inspect.Key(t.Context(), client, "limits")
		require.NoError(t, err)
		require.Len(t, holding.Limits, 1)
		assert.EqualValues(t, []int64{2, 1}, []int64{holding.Limits[0].Used, holding.Limits[0].Entries})
		s.MustDo("DEL", "limits")
		leave()
		callers.Wait()
		require.NoError(t, holder.Release(t.Context()))
		require.Eventually(t, func() bool { return waiting(s) == "0" && s.MustDo("EXISTS", "k").Int == 0 }, time.Minute, time.Millisecond)
	}
}
