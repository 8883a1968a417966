package ratelimittest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/ratelimit/cached"
	"redis-throttle/ratelimit/grpclimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/ratelimit/observed"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/ratelimit/retry"
	"redis-throttle/ratelimit/xrate"
	"redis-throttle/tests/calls"
)

var twoAMinute = ratelimit.Limits{ratelimit.Rate(2, time.Minute)}

func decide(t *testing.T, d ratelimit.Decider, call ratelimit.Call) ratelimit.Result {
	t.Helper()
	result := calls.Ask(t, d, call)
	return result
}

// inBubbles runs a test of each layer in a bubble: the layer, what it stands on and the test have one clock.
func inBubbles(t *testing.T, tests map[string]func(t *testing.T, l *ratelimittest.Limiter)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, ratelimittest.New(t)) })
		})
	}
}

func TestEveryLayerOfTheClientWorksOnIt(t *testing.T) {
	t.Parallel()
	inBubbles(t, map[string]func(t *testing.T, l *ratelimittest.Limiter){
		"cached": func(t *testing.T, l *ratelimittest.Limiter) {
			d := cached.New(l, cached.Options{})
			decide(t, d, calls.On("k", twoAMinute, calls.Cost(2)))
			for range 5 {
				assert.Equal(t, 30*time.Second, decide(t, d, calls.On("k", twoAMinute)).RetryAfter)
			}
			assert.Len(t, l.Asked(), 2, "one denial is remembered")
			l.Advance(9 * time.Second)
			assert.Equal(t, "cache", decide(t, d, calls.On("k", twoAMinute)).By)
			l.Advance(time.Second)
			assert.Equal(t, "server", decide(t, d, calls.On("k", twoAMinute)).By, "it is too old")
		},
		"batched": func(t *testing.T, l *ratelimittest.Limiter) {
			limits := ratelimit.Limits{ratelimit.Fixed(1000, 24*time.Hour)}
			d := batched.New(l, batched.Options{})
			for range 10 {
				assert.False(t, decide(t, d, calls.On("k", limits)).Limited)
			}
			synctest.Wait()
			assert.Less(t, len(l.Asked()), 10)
			l.Advance(time.Second)
			left, err := l.Peek(t.Context(), "k", limits, 1)
			require.NoError(t, err)
			assert.EqualValues(t, 990, left.Remaining, "what was not used is given back")
			require.NoError(t, d.Close(t.Context()))
		},
		"guard": func(t *testing.T, l *ratelimittest.Limiter) {
			var changes []error
			d := guard.New(l, guard.Options{Policy: guard.Local, Failures: 2, OnChange: func(_ string, outage error) { changes = append(changes, outage) }})
			l.Fail(ratelimittest.ErrOutage)
			for i := range 4 {
				result := decide(t, d, calls.On("k", twoAMinute))
				assert.Equal(t, "local", result.By)
				assert.Equal(t, i >= 2, result.Limited)
			}
			assert.Len(t, l.Asked(), 2, "then the server is left alone")
			l.Heal()
			assert.Equal(t, "local", decide(t, d, calls.On("k", twoAMinute)).By)
			l.Advance(time.Second + 1)
			assert.Equal(t, "server", decide(t, d, calls.On("k", twoAMinute)).By)
			require.Len(t, changes, 2)
			assert.ErrorIs(t, changes[0], ratelimittest.ErrOutage)
			assert.NoError(t, changes[1])
		},
		"guard, a server that hangs": func(t *testing.T, l *ratelimittest.Limiter) {
			d := guard.New(l, guard.Options{Policy: guard.Open, Failures: 1, OnChange: func(string, error) {}})
			l.Hang()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			result, err := d.Decide(ctx, calls.On("k", twoAMinute))
			require.NoError(t, err)
			assert.Equal(t, "policy", result.By)
			assert.Equal(t, 100*time.Millisecond, time.Since(began))
			assert.Equal(t, "policy", decide(t, d, calls.On("k", twoAMinute)).By)
			assert.Equal(t, 100*time.Millisecond, time.Since(began), "at once")
		},
		"observed": func(t *testing.T, l *ratelimittest.Limiter) {
			var seen []observed.Outcome
			var took []time.Duration
			d := observed.New(l, func(_ context.Context, d observed.Decision) {
				seen, took = append(seen, d.Outcome()), append(took, d.Duration)
			})
			decide(t, d, calls.On("k", twoAMinute, calls.Cost(2)))
			decide(t, d, calls.On("k", twoAMinute))
			l.Fail(ratelimittest.ErrOutage)
			_, err := d.Decide(t.Context(), calls.On("k", twoAMinute))
			require.Error(t, err)
			l.NoModule()
			_, err = d.Decide(t.Context(), calls.On("k", twoAMinute))
			require.Error(t, err)
			l.Slow(time.Second)
			decide(t, d, calls.On("k", twoAMinute))
			assert.Equal(t, []observed.Outcome{observed.Allowed, observed.Denied, observed.Outage, observed.Mistake, observed.Denied}, seen)
			assert.Equal(t, []time.Duration{0, 0, 0, 0, time.Second}, took)
		},
		"retry": func(t *testing.T, l *ratelimittest.Limiter) {
			began := time.Now()
			for range 3 {
				require.NoError(t, retry.Do(t.Context(), func(ctx context.Context) error {
					result, err := l.Limit(ctx, "k", twoAMinute, 1)
					if err == nil {
						err = result.Err()
					}
					return err
				}))
			}
			assert.GreaterOrEqual(t, time.Since(began), 30*time.Second)
		},
		"xrate": func(t *testing.T, l *ratelimittest.Limiter) {
			b := xrate.New(l, xrate.Options{Key: "k", Limit: ratelimit.Rate(2, time.Minute)})
			began := time.Now()
			for range 4 {
				require.NoError(t, b.Wait(t.Context()))
			}
			assert.Equal(t, time.Minute, time.Since(began))
			assert.False(t, b.Allow())
		},
		"leases": func(t *testing.T, l *ratelimittest.Limiter) {
			o := leases.Options{Key: "jobs", Slots: 1, TTL: time.Minute, MaxWait: time.Hour}
			var order []int
			for i := range 3 {
				go func() {
					lease, err := leases.Take(t.Context(), observed.New(l), o)
					assert.NoError(t, err)
					order = append(order, i)
					time.Sleep(10 * time.Minute)
					assert.NoError(t, lease.Release(t.Context()))
				}()
				synctest.Wait()
			}
			l.Advance(20*time.Minute + time.Second)
			assert.Equal(t, []int{0, 1, 2}, order)
			l.Advance(time.Hour)
		},
		"leases, a reply that gets lost": func(t *testing.T, l *ratelimittest.Limiter) {
			o := leases.Options{Key: "jobs", Slots: 1, TTL: time.Hour}
			l.Next(1).LoseReplies()
			_, err := leases.Take(t.Context(), l, o)
			require.True(t, ratelimit.IsOutage(err), "%v", err)
			l.Advance(time.Minute)
			lease, err := leases.Take(t.Context(), l, o)
			require.NoError(t, err, "the slot was given back")
			require.NoError(t, lease.Release(t.Context()))
		},
		"httplimit": func(t *testing.T, l *ratelimittest.Limiter) {
			serve := httplimit.New(l, httplimit.Options{Limits: twoAMinute, Key: func(*http.Request) string { return "everybody" }})(
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			get := func() *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				serve.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				return w
			}
			assert.Equal(t, `"default";r=1;t=30`, get().Header().Get("RateLimit"))
			get()
			denied := get()
			assert.Equal(t, http.StatusTooManyRequests, denied.Code)
			assert.Equal(t, "30", denied.Header().Get("Retry-After"))
			l.Advance(30 * time.Second)
			assert.Equal(t, http.StatusOK, get().Code)
		},
		"grpclimit": func(t *testing.T, l *ratelimittest.Limiter) {
			limited := grpclimit.New(l, grpclimit.Options{Limits: twoAMinute, Key: func(context.Context, string) string { return "everybody" }}).Unary()
			call := func() codes.Code {
				_, err := limited(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, func(context.Context, any) (any, error) { return nil, nil })
				return status.Code(err)
			}
			assert.Equal(t, []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted}, []codes.Code{call(), call(), call()})
			l.NoModule()
			assert.Equal(t, codes.Internal, call())
		},
		"all at once": func(t *testing.T, l *ratelimittest.Limiter) {
			d := ratelimit.With(observed.New(cached.New(guard.New(l, guard.Options{Policy: guard.Closed, OnChange: func(string, error) {}}), cached.Options{})))
			result, err := d.Wait(t.Context(), "k", twoAMinute, 2)
			require.NoError(t, err)
			assert.Zero(t, result.Wait)
			result, err = d.Wait(t.Context(), "k", twoAMinute, 1)
			require.NoError(t, err)
			assert.Equal(t, 30*time.Second, result.Wait)
			banned, err := d.Ban(t.Context(), "k", time.Hour)
			require.NoError(t, err)
			assert.Equal(t, time.Hour, banned)
			l.Fail(ratelimittest.ErrOutage)
			for range 6 {
				result, err = d.Limit(t.Context(), "other", twoAMinute, 1)
				require.NoError(t, err)
				assert.True(t, result.Limited)
			}
		},
	})
}
