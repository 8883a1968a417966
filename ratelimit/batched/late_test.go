package batched_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
)

// stalling is a server whose second reply comes two windows after its decision.
type stalling struct {
	asked  int
	denies bool // with the second reply
}

const period = time.Second

func (s *stalling) Decide(_ context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	if c.Verb == ratelimit.VerbDenied {
		return ratelimit.Result{Granted: c.Cost, By: "server"}, nil
	}
	s.asked++
	left := period - time.Duration(time.Now().UnixNano())%period
	if s.asked == 2 {
		time.Sleep(2 * period)
		if s.denies {
			return ratelimit.Result{Limited: true, Limit: 100, RetryAfter: left, ResetAfter: left, By: "server"}, nil
		}
	} else {
		time.Sleep(period / 10)
	}
	return ratelimit.Result{Limit: 100, Remaining: 50, Granted: c.Cost, ResetAfter: left, By: "server"}, nil
}

// callers ask b for one unit each. It returns how to ask, and who got an answer from where.
func callers(t *testing.T, b *batched.Batched) (ask func(ctx context.Context, who string), by map[string]string) {
	t.Helper()
	call := ratelimit.Call{Keys: []ratelimit.Key{{Name: "k", Limits: ratelimit.Limits{ratelimit.Fixed(100, period)}}}, Cost: 1}
	by = map[string]string{}
	var mu sync.Mutex
	return func(ctx context.Context, who string) {
		go func() {
			result, err := b.Decide(ctx, call)
			mu.Lock()
			defer mu.Unlock()
			by[who] = result.By
			if err != nil {
				by[who] = err.Error()
			}
		}()
		synctest.Wait()
	}, by
}

// The units of a window are for callers that came before its end, however late the reply is.
func TestUnitsThatEndedOnTheirWayAreNotForLaterCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &stalling{}
		b := batched.New(server, batched.Options{Units: 10, MaxAge: time.Minute})
		ask, by := callers(t, b)
		leaves, leave := context.WithCancel(t.Context())
		ask(t.Context(), "first")
		ask(t.Context(), "second")
		ask(leaves, "third, who leaves")
		time.Sleep(period / 2) // the second reply is on its way, with units for two
		synctest.Wait()
		require.Equal(t, 2, server.asked)
		leave()
		time.Sleep(period)
		ask(t.Context(), "in the next window")
		time.Sleep(2 * period)
		synctest.Wait()
		assert.Equal(t, map[string]string{
			"first": "server", "second": "server", "third, who leaves": "batched: context canceled", "in the next window": "server",
		}, by)
		assert.Equal(t, 3, server.asked)
		require.NoError(t, b.Close(t.Context()))
	})
}

// Nor is a denial.
func TestADenialThatEndedOnItsWayIsNotForLaterCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &stalling{denies: true}
		b := batched.New(server, batched.Options{Units: 10, MaxAge: time.Minute})
		ask, by := callers(t, b)
		ask(t.Context(), "first")
		ask(t.Context(), "second")
		time.Sleep(period / 2)
		ask(t.Context(), "third")
		time.Sleep(period)
		ask(t.Context(), "in the next window")
		time.Sleep(2 * period)
		synctest.Wait()
		assert.Equal(t, map[string]string{"first": "server", "second": "server", "third": "cache", "in the next window": "server"}, by)
		assert.Equal(t, 3, server.asked)
		require.NoError(t, b.Close(t.Context()))
	})
}
