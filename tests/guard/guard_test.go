// Package guard tests the guard against real servers that fail.
package guard_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/pipelimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

const day = 24 * time.Hour

func TestMain(m *testing.M) {
	logging.Disable() // a client that fails to reach a dead server says so, often
	os.Exit(m.Run())
}

// timeout is how long a server that hangs keeps a call waiting.
const timeout = 50 * time.Millisecond

func quick(o *redis.Options) {
	o.DialTimeout, o.DialerRetries, o.ReadTimeout, o.MaxRetries, o.ContextTimeoutEnabled = timeout, 1, timeout, -1, true
}

// counted counts the calls that are made on a limiter.
type counted struct {
	*ratelimit.Limiter
	calls atomic.Int64
}

func (c *counted) Decide(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	c.calls.Add(1)
	return c.Limiter.Decide(ctx, call)
}

// silent is a logger for outages that a test is not about.
var silent = slog.New(slog.DiscardHandler)

// An outage of each kind costs a few calls to the server, not one for each request, and two lines
// in the log; meanwhile the policy decides, and afterwards the server does.
func TestAnOutageIsLeftToThePolicy(t *testing.T) {
	t.Parallel()
	set := func(setting, value string) func(*server.Server) {
		return func(s *server.Server) { s.MustDo("CONFIG", "SET", setting, value) }
	}
	const (
		failures = 3
		pause    = 200 * time.Millisecond
		requests = 2000
		count    = 100
	)
	limits := ratelimit.Limits{ratelimit.Fixed(count, 365*day)}
	for name, outage := range map[string]struct{ spoil, repair func(*server.Server) }{
		"stopped":          {(*server.Server).Kill, (*server.Server).Restart},
		"frozen":           {(*server.Server).Pause, (*server.Server).Resume},
		"a replica":        {func(s *server.Server) { s.MustDo("REPLICAOF", "127.0.0.1", "1") }, func(s *server.Server) { s.MustDo("REPLICAOF", "NO", "ONE") }},
		"without replicas": {set("min-replicas-to-write", "1"), set("min-replicas-to-write", "0")},
		"full":             {set("maxmemory", "1"), set("maxmemory", "0")},
	} {
		for _, policy := range []guard.Policy{guard.Fail, guard.Open, guard.Closed, guard.Local} {
			t.Run(fmt.Sprint(name, ", ", policy), func(t *testing.T) {
				t.Parallel()
				s := server.Start(t)
				behind := &counted{Limiter: ratelimit.New(s.Client(quick), ratelimit.Options{})}
				var logged kit.Log
				g := guard.New(behind, guard.Options{
					Policy: policy, Processes: 4, Failures: failures, Pause: pause,
					Logger: logged.Logger(),
				})
				served := func(key string) bool {
					result, err := g.Decide(t.Context(), calls.On(key, limits))
					return err == nil && !result.Limited && result.By == "server"
				}
				require.Eventually(t, func() bool { return served("before") }, 10*time.Second, time.Millisecond)
				require.False(t, g.Out())

				outage.spoil(s)
				before, began := behind.calls.Load(), time.Now()
				allowed, limited, failed, waited, overloads := 0, 0, 0, 0, 0
				for allowed+limited+failed < requests {
					asks := time.Now()
					result, err := g.Decide(t.Context(), calls.On("k", limits))
					if time.Since(asks) >= timeout {
						waited++
					}
					switch {
					case ratelimit.IsOverload(err): // this process was late itself: what was not sent, or was answered, is none
						require.GreaterOrEqual(t, time.Since(asks), timeout, err)
						overloads++
						continue
					case err != nil:
						require.True(t, ratelimit.IsOutage(err), err)
						failed++
						continue
					case result.Limited:
						limited++
						require.Positive(t, result.RetryAfter)
					default:
						allowed++
					}
					by := "policy"
					if policy == guard.Local {
						by = "local"
					}
					require.Equal(t, by, result.By)
				}
				lasted := time.Since(began)
				asked := behind.calls.Load() - before
				assert.True(t, g.Out())
				assert.LessOrEqual(t, asked, failures+1+int64(lasted/pause)+int64(overloads), "calls to the server in %v", lasted)
				assert.LessOrEqual(t, waited, requests/20+overloads, "without a breaker each request costs up to a timeout")
				want := map[guard.Policy][3]int{
					guard.Fail: {0, 0, requests}, guard.Open: {requests, 0, 0}, guard.Closed: {0, requests, 0},
					guard.Local: {count / 4, requests - count/4, 0},
				}[policy]
				assert.Equal(t, want, [3]int{allowed, limited, failed})
				assert.Equal(t, 1, strings.Count(logged.String(), "\n"))
				assert.Contains(t, logged.String(), "redis-throttle: Redis is out of reach\" policy="+policy.String())

				outage.repair(s)
				require.Eventually(t, func() bool { return served("after") }, 10*time.Second, time.Millisecond)
				require.False(t, g.Out())
				require.True(t, served("after"))
				assert.Equal(t, 2, strings.Count(logged.String(), "\n"))
				assert.Contains(t, logged.String(), "Redis is back")
			})
		}
	}
}

// replies are a Decider that returns what a pipeline has brought.
type replies chan *pipelimit.Reply

func (r replies) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return (<-r).Result()
}

// A pipeline that fails is one failure for each breaker, whatever the number of its calls: so a connection that is cut
// off opens none. For the share of calls that fail they all count.
func TestCallsOfOnePipelineFailAsOne(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	sharing := pipelimit.Share(s.Client(quick), pipelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Rate(1000, day)}
	behind := make(replies, 10)
	breaks := func(failures int) *guard.Guard {
		return guard.New(behind, guard.Options{Failures: failures, Pause: time.Hour, Logger: silent})
	}
	// sends sends calls in a pipeline, and lets guards ask for each. A pipeline for which this process was too busy is
	// no failure: it is sent once more.
	sends := func(units int, guards ...*guard.Guard) {
		var queued []*pipelimit.Reply
		for busy := true; busy; {
			pipe := sharing.Pipeline()
			queued = nil
			for range units {
				queued = append(queued, pipelimit.Queue(t.Context(), pipe, calls.On("k", limits)))
			}
			_ = pipe.Exec(t.Context())
			_, err := queued[0].Result()
			busy = ratelimit.IsOverload(err)
		}
		for _, reply := range queued {
			for _, g := range guards {
				if g.Out() {
					continue
				}
				behind <- reply
				_, _ = g.Decide(t.Context(), calls.On("k", limits))
			}
		}
	}
	first, third, share := breaks(1), breaks(3), breaks(5)
	s.Pause()
	sends(10, first, third)
	assert.True(t, first.Out())
	sends(10, third)
	assert.False(t, third.Out(), "two pipelines failed")
	sends(10, third)
	assert.True(t, third.Out(), "three pipelines failed")
	for n := range 20 {
		assert.False(t, share.Out(), "%d pipelines failed, none after the other", n)
		s.Resume()
		require.NoError(t, s.Client().Ping(t.Context()).Err())
		sends(8, share)
		s.Pause()
		sends(10, share)
	}
	assert.True(t, share.Out(), "20 pipelines failed, with more than half of the calls")
	s.Resume()
}
