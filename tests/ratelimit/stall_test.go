package ratelimit_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

// A server that stands still executes later what its callers have given up: their slots are given back, long before the
// TTL.
func TestSlotsOfCallersThatGaveUpAreGivenBack(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	client := s.Client(quick)
	require.NoError(t, client.Ping(t.Context()).Err())
	limited := httplimit.NewConcurrency(ratelimit.New(client, ratelimit.Options{}), httplimit.ConcurrencyOptions{
		Slots: 10, TTL: time.Hour, Key: everybody, Failures: httplimit.Failures{OnError: func(*http.Request, error) {}},
	})
	handler := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Pause()
	var asking sync.WaitGroup
	for range 10 {
		asking.Go(func() {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			assert.Equal(t, http.StatusOK, w.Code, "an outage lets requests through")
		})
	}
	asking.Wait()
	s.Resume()
	require.Eventually(t, func() bool {
		held, err := leases.List(t.Context(), s.Client(), "everybody", 10)
		return err == nil && held.Held == 0
	}, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		return s.InfoInt("throttle", "throttle_leases_released") == s.InfoInt("throttle", "throttle_leases_granted")
	}, time.Minute, 10*time.Millisecond, "none has lapsed")
}

// Callers that wait, and those that have left, keep nobody else from the server.
func TestCallersThatWaitLeaveThePoolToOthers(t *testing.T) {
	t.Parallel()
	const callers = 20
	s := server.Start(t)
	client := s.Client(func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 2, 5*time.Second })
	l := ratelimit.New(client, ratelimit.Options{})
	holder, err := leases.Take(t.Context(), l, leases.Options{Key: "slots", Slots: 1, TTL: time.Hour})
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, callers)
	for range callers {
		go func() {
			_, err := leases.Take(ctx, l, leases.Options{Key: "slots", Slots: 1, TTL: time.Hour, MaxWait: ratelimit.Forever})
			left <- err
		}()
	}
	require.Eventually(t, func() bool { return waiting(s) == fmt.Sprint(callers) }, 30*time.Second, time.Millisecond)
	calls.Ask(t, l, calls.On("k", ratelimit.Limits{ratelimit.Rate(1, day)}))
	leave()
	for range callers {
		require.ErrorIs(t, <-left, context.Canceled)
	}
	require.Eventually(t, func() bool { return waiting(s) == "0" }, 30*time.Second, time.Millisecond, "they have left the line")
	require.NoError(t, holder.Release(t.Context()))
	require.Eventually(t, func() bool { return s.MustDo("EXISTS", "slots").Int == 0 }, 30*time.Second, time.Millisecond, "nobody has taken the slot")
}

// A caller at a server that stands still, before it is in line or while it is, is told so by Patience, and not by the
// end of its wait.
func TestPatienceEndsAWaitAtAServerThatHangs(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Window(1, day)}
	for name, c := range map[string]struct {
		fill, wait ratelimit.Call
		waiting    string
	}{
		"a window": {calls.On("k", limits), calls.InLine("k", limits, 0), "throttle_waiting"},
		"a lease":  {calls.Lease("k", 1, time.Hour, "holder"), calls.Lease("k", 1, time.Hour, "waits", calls.MaxWait(time.Hour)), "throttle_leases_waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			await := func(n int64) {
				require.Eventually(t, func() bool { return s.InfoInt("throttle", c.waiting) == n }, time.Minute, time.Millisecond)
			}
			for library, client := range onServer(t, s, quick) {
				calls.Ask(t, ratelimit.New(client, ratelimit.Options{}), c.fill)
				l := ratelimit.New(client, ratelimit.Options{Patience: 200 * time.Millisecond})
				for _, inLine := range []bool{true, false} {
					if !inLine {
						s.Pause()
					}
					ended := calls.Ends(context.WithoutCancel(t.Context()), l, c.wait)
					if inLine {
						await(1)
						s.Pause()
					}
					select {
					case err := <-ended:
						// On a machine so busy that this process is late, the lateness is its own.
						assert.True(t, ratelimit.IsOutage(err) || ratelimit.IsOverload(err) && strings.Contains(err.Error(), "too busy"), "%s: %v", library, err)
					case <-time.After(time.Minute):
						t.Error(library, " waits for as long as it may")
					}
					s.Resume()
					await(0)
				}
			}
		})
	}
}

// A balancer that forgets a connection leaves the server alive: a caller whose call is lost there waits no longer than
// its time and patience.
func TestNobodyWaitsForEverOverAConnectionThatIsLost(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	carryAll(t, listener, s).loses = "TIMEOUT"
	for library, client := range clientsOf(t, listener.Addr().String()) {
		l := ratelimit.New(client, ratelimit.Options{Patience: 200 * time.Millisecond})
		calls.Ask(t, l, calls.Lease(library, 1, time.Hour, "holder"))
		for name, waits := range map[string]ratelimit.Call{
			"a lease":  calls.Lease(library, 1, time.Hour, "waits", calls.MaxWait(time.Second)),
			"a window": calls.InLine("window "+library, ratelimit.Limits{ratelimit.Window(1, day)}, time.Second),
		} {
			select {
			case err := <-calls.Ends(context.WithoutCancel(t.Context()), l, waits):
				assert.True(t, ratelimit.IsOutage(err), "%s, %s: %v", library, name, err)
			case <-time.After(time.Minute):
				t.Errorf("%s, %s: it waits for ever", library, name)
			}
		}
		assert.False(t, calls.Ask(t, l, calls.On(library+" another", ofMany)).Limited)
	}
}

// A caller in line when its master becomes a replica can ask the next master: an outage, which is soon over.
func TestACallerWhoseMasterStepsDownMeetsAnOutage(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := ratelimit.New(s.Client(), ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Window(1, day)}
	calls.Ask(t, l, calls.On("k", limits))
	ended := calls.Ends(context.WithoutCancel(t.Context()), l, calls.InLine("k", limits, 0))
	require.Eventually(t, func() bool { return s.InfoInt("throttle", "throttle_waiting") == 1 }, 10*time.Second, time.Millisecond)
	s.MustDo("REPLICAOF", "127.0.0.1", "1")
	err := <-ended
	require.ErrorContains(t, err, "UNBLOCKED")
	assert.True(t, ratelimit.IsOutage(err), err)
}

// A caller that leaves while its reserved units are on their way returns at once, and the units are there for others
// again.
func TestAReservedWaitThatIsCancelledIsNotCharged(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	limits := ratelimit.Limits{ratelimit.Rate(1, time.Hour)}
	for library, client := range onServer(t, s) {
		l := ratelimit.New(client, ratelimit.Options{})
		resetAfter := func() time.Duration {
			return calls.Ask(t, l, ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: calls.On(library, limits).Keys}).ResetAfter
		}
		calls.Ask(t, l, calls.On(library, limits))
		for _, hangs := range []bool{false, true} {
			before := resetAfter()
			ctx, cancel := context.WithCancel(t.Context())
			ended := calls.Ends(ctx, l, calls.InLine(library, limits, 0))
			require.Eventually(t, func() bool { return s.InfoInt("throttle", "throttle_waiting") == 1 }, 10*time.Second, time.Millisecond)
			require.Greater(t, resetAfter(), before+time.Minute, "it has reserved its unit")
			if hangs {
				s.Pause()
			}
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
			if hangs {
				s.Resume()
			}
			require.Eventually(t, func() bool { return resetAfter() <= before }, 30*time.Second, time.Millisecond, "%s, hangs: %v", library, hangs)
		}
	}
}

// Keys may hold what does not belong into a log.
func TestNoErrorHoldsAKey(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.WithoutModule())
	l := byModule(s.Client())
	for _, call := range everyVerb("secret:") {
		if call.Verb == ratelimit.VerbReset { // which every server has
			continue
		}
		_, err := l.Decide(t.Context(), call)
		require.ErrorIs(t, err, ratelimit.ErrNoModule, call.Verb)
		assert.NotContains(t, err.Error(), "secret", call.Verb)
	}
}
