package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/ratelimit/cached"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

// asked is how many calls of CL.LIMIT the server has counted.
func asked(s *server.Server) int {
	var calls int
	_, _ = fmt.Sscanf(s.Info("commandstats")["cmdstat_CL.LIMIT"], "calls=%d", &calls)
	if calls == 0 {
		_, _ = fmt.Sscanf(s.Info("commandstats")["cmdstat_cl.limit"], "calls=%d", &calls)
	}
	return calls
}

// decide asks d, of which no error is expected.
func decide(t testing.TB, d ratelimit.Decider, key string, limits ratelimit.Limits, opts ...calls.Option) ratelimit.Result {
	t.Helper()
	result := calls.Ask(t, d, calls.On(key, limits, opts...))
	return result
}

func TestCachedAnswersWhoIsLimitedItself(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	cached := cached.New(ratelimit.New(s.Client(), ratelimit.Options{}), cached.Options{Denials: 10})
	limits := ratelimit.Limits{ratelimit.Rate(24, day).Burst(2)} // one an hour
	assert.Equal(t, "server", decide(t, cached, "k", limits).By)
	assert.Equal(t, "server", decide(t, cached, "k", limits).By)
	began := time.Now()
	denied := decide(t, cached, "k", limits)
	answered := time.Now()
	require.True(t, denied.Limited)
	require.Equal(t, "server", denied.By)
	require.Equal(t, 3, asked(s))

	for range 100 {
		before := time.Now()
		again := decide(t, cached, "k", limits)
		after := time.Now()
		require.Equal(t, "cache", again.By)
		for _, pair := range [][2]time.Duration{{denied.RetryAfter, again.RetryAfter}, {denied.ResetAfter, again.ResetAfter}, {denied.NextAfter, again.NextAfter}} {
			assert.LessOrEqual(t, pair[1], pair[0]-before.Sub(answered), "counted down since the answer")
			assert.GreaterOrEqual(t, pair[1], pair[0]-after.Sub(began), "and no further")
		}
		again.By, again.RetryAfter, again.ResetAfter, again.NextAfter = denied.By, denied.RetryAfter, denied.ResetAfter, denied.NextAfter
		assert.Equal(t, denied, again)
	}
	assert.Equal(t, 3, asked(s))
}

func TestCachedKnowsWhichCallWasDenied(t *testing.T) {
	t.Parallel()
	cached := cached.New(ratelimittest.New(t), cached.Options{Denials: 100})
	limits := ratelimit.Limits{ratelimit.Rate(10, day)}
	decide(t, cached, "k", limits, calls.Cost(8))
	require.True(t, decide(t, cached, "k", limits, calls.Cost(3)).Limited)
	for _, c := range []struct {
		name   string
		key    string
		limits ratelimit.Limits
		opts   []calls.Option
		by     string
	}{
		{"the same", "k", limits, []calls.Option{calls.Cost(3)}, "cache"},
		{"the same under another name", "k", ratelimit.Limits{ratelimit.Rate(10, day).Named("daily")}, []calls.Option{calls.Cost(3)}, "cache"},
		{"another key", "kk", limits, []calls.Option{calls.Cost(3)}, "server"},
		{"a raised limit", "k", ratelimit.Limits{ratelimit.Rate(10, day).Burst(20)}, []calls.Option{calls.Cost(3)}, "server"},
		{"as much as there is", "k", limits, []calls.Option{calls.Cost(3), calls.UpTo}, "server"},
		{"a smaller cost", "k", limits, nil, "server"},
	} {
		assert.Equal(t, c.by, decide(t, cached, c.key, c.limits, c.opts...).By, c.name)
	}
}

func TestWhatCachedNeverRemembers(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("RPUSH", "list", "1")
	limits := ratelimit.Limits{ratelimit.Rate(2, day)}
	for _, c := range []struct {
		name   string
		key    string
		limits ratelimit.Limits
		opts   []calls.Option
		used   bool
	}{
		{"a call that is let through", "free", ratelimit.Limits{ratelimit.Rate(1000, day)}, nil, false},
		{"an error", "list", limits, nil, false},
		{"a limit that is none", "none", ratelimit.Limits{ratelimit.Rate(-1, day)}, nil, false},
		{"a denial that is charged", "strict", limits, []calls.Option{calls.Strict}, true},
		{"a call that can never succeed", "never", limits, []calls.Option{calls.Cost(3)}, false},
	} {
		cached := cached.New(ratelimit.New(s.Client(), ratelimit.Options{}), cached.Options{Denials: 10})
		if c.used {
			decide(t, cached, c.key, c.limits, calls.Cost(2))
		}
		for range 3 {
			result, _ := cached.Decide(t.Context(), calls.On(c.key, c.limits, c.opts...))
			assert.NotEqual(t, "cache", result.By, c.name)
		}
	}
	local := decider(func() ratelimit.Result {
		return ratelimit.Result{Limited: true, RetryAfter: time.Hour, By: "local"}
	})
	cached := cached.New(local, cached.Options{Denials: 10})
	for range 2 {
		assert.Equal(t, "local", decide(t, cached, "k", limits).By, "what was not decided by the server")
	}
}

// decider is one that needs no server.
type decider func() ratelimit.Result

func (d decider) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return d(), nil
}

func TestCachedForgetsTheDenialUsedLeastRecently(t *testing.T) {
	t.Parallel()
	cached := cached.New(ratelimittest.New(t), cached.Options{Denials: 2})
	limits := ratelimit.Limits{ratelimit.Rate(1, day)}
	for _, key := range []string{"a", "b", "c"} {
		decide(t, cached, key, limits)
	}
	for _, step := range []struct {
		key string
		by  string
	}{
		{"a", "server"}, {"b", "server"}, {"a", "cache"}, {"c", "server"},
		{"a", "cache"}, {"b", "server"}, {"a", "cache"}, {"c", "server"},
	} {
		result := decide(t, cached, step.key, limits)
		require.True(t, result.Limited)
		assert.Equal(t, step.by, result.By, step.key)
	}
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

// tardy keeps back the answer to a denied call until the test goes on.
type tardy struct {
	ratelimit.Decider
	denied, goOn chan struct{}
}

func (h tardy) Decide(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	result, err := h.Decider.Decide(ctx, call)
	if err == nil && result.Limited {
		h.denied <- struct{}{}
		<-h.goOn
	}
	return result, err
}

// A denial that was on its way when units were given back is not remembered.
func TestARefundOvertakesADenial(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	limits := ratelimit.Limits{ratelimit.Window(1, day)}
	for name, layer := range map[string]func(next ratelimit.Decider) ratelimit.Decider{
		"cached":  func(next ratelimit.Decider) ratelimit.Decider { return cached.New(next, cached.Options{}) },
		"batched": func(next ratelimit.Decider) ratelimit.Decider { return batched.New(next, batched.Options{}) },
	} {
		slow := tardy{ratelimit.New(s.Client(), ratelimit.Options{}), make(chan struct{}), make(chan struct{})}
		d := layer(slow)
		calls.Ask(t, slow.Decider, calls.On(name, limits))
		answered := make(chan ratelimit.Result, 1)
		go func() { answered <- decide(t, d, name, limits) }()
		<-slow.denied
		calls.Ask(t, d, ratelimit.Call{Verb: ratelimit.VerbRefund, Keys: calls.On(name, limits).Keys, Cost: 1})
		slow.goOn <- struct{}{}
		require.True(t, (<-answered).Limited)
		go func() {
			for range slow.denied {
				slow.goOn <- struct{}{}
			}
		}()
		again := decide(t, d, name, limits)
		close(slow.denied)
		assert.False(t, again.Limited, "%s answers by %s", name, again.By)
	}
}
