package ratelimit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/cached"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

// decide asks d, of which no error is expected.
func decide(t testing.TB, d ratelimit.Decider, key string, limits ratelimit.Limits, opts ...calls.Option) ratelimit.Result {
	t.Helper()
	result := calls.Ask(t, d, calls.On(key, limits, opts...))
	return result
}

// What Cached denies the server would deny, too, and a caller that waits as told gets through.
func TestCachedIsAsStrictAsTheServer(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	limiter := ratelimit.New(s.Client(), ratelimit.Options{})
	for _, limits := range []ratelimit.Limits{
		{ratelimit.Rate(50, time.Second).Burst(3)},
		{ratelimit.Window(5, 100*time.Millisecond)},
		{ratelimit.Fixed(5, 100*time.Millisecond), ratelimit.Rate(70, time.Second)},
	} {
		t.Run(limits[0].String(), func(t *testing.T) {
			t.Parallel()
			cached := cached.New(limiter, cached.Options{Denials: 10})
			key, remembered := limits[0].String(), 0
			// Cached counts from when a reply arrives, the server from when it decides.
			slowestReply := time.Duration(0)
			ask := func(cost calls.Option) ratelimit.Result {
				asked := time.Now()
				result := decide(t, cached, key, limits, cost)
				slowestReply = max(slowestReply, time.Since(asked))
				return result
			}
			// On a busy machine a second holds few calls, so it goes on until enough were answered from the cache.
			const enough, patience = 100, time.Minute
			for began := time.Now(); time.Since(began) < time.Second || remembered <= enough && time.Since(began) < patience; {
				cost := calls.Cost(1 + rand.Int64N(3))
				before := time.Now()
				result := ask(cost)
				if result.By == "cache" {
					remembered++
					peeked := calls.Ask(t, limiter, calls.On(key, limits, cost))
					if !peeked.Limited {
						require.Less(t, result.RetryAfter, time.Since(before)+slowestReply+2*time.Millisecond)
					}
				}
				if again := result; result.Limited && result.By == "server" && rand.IntN(5) == 0 {
					if again = ask(cost); again.Limited { // from the cache, unless it was over
						time.Sleep(again.RetryAfter)
						again = ask(cost)
					}
					require.False(t, again.Limited, "after waiting as told: %+v, then %+v", result, again)
				}
			}
			assert.Greater(t, remembered, enough)
		})
	}
}
