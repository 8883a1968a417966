package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/adaptive"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// service answers as fast as it can bear: the more calls it serves at a time beyond its capacity, the longer each takes.
type service struct {
	capacity atomic.Int64
	serving  atomic.Int64
	most     atomic.Int64 // the most at a time since it was reset
	fails    atomic.Bool
}

const (
	usual = 20 * time.Millisecond
	slow  = 200 * time.Millisecond // ten times the usual, so that a machine with other work to do is not taken for an overload
)

func (s *service) call() error {
	serving := s.serving.Add(1)
	defer s.serving.Add(-1)
	for {
		most := s.most.Load()
		if serving <= most || s.most.CompareAndSwap(most, serving) {
			break
		}
	}
	if s.fails.Load() {
		return errors.New("overloaded")
	}
	time.Sleep(usual)
	if beyond := serving - s.capacity.Load(); beyond > 0 {
		time.Sleep(2 * slow)
	}
	return nil
}

// process is one that shares the slots of a service.
func (s *service) process(d ratelimit.Decider, key string, most int64) http.Handler {
	limited := httplimit.NewConcurrency(d, httplimit.ConcurrencyOptions{
		Slots: most, TTL: time.Minute, Key: func(*http.Request) string { return key }, Failures: httplimit.Failures{Outage: httplimit.Deny, OnError: func(*http.Request, error) {}},
	})
	return limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.call() != nil {
			leases.Failed(r.Context())
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
}

// load asks a handler by so many callers at a time until the test ends.
func load(t *testing.T, handler http.Handler, callers int) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var asking sync.WaitGroup
	t.Cleanup(func() { stop(); asking.Wait() })
	for range callers {
		asking.Go(func() {
			for ctx.Err() == nil {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
				if w.Code != http.StatusOK {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
}

// slotsOf is how many slots all processes go by, as the server has it.
func slotsOf(t *testing.T, l *ratelimit.Limiter, key string, o adaptive.Options, most int64) int64 {
	t.Helper()
	result, err := l.Peek(t.Context(), key+" adaptive slots", ratelimit.Limits{ratelimit.Rate(most-o.Floor, o.Recovery)}, 0)
	require.NoError(t, err)
	return o.Floor + result.Remaining
}

// Three processes share a service whose calls take longer the more there are. They let it have as many at a time as it can bear.
// When it can bear more, all slots come back.
func TestSlotsFollowWhatTheServiceCanBear(t *testing.T) {
	t.Parallel()
	const most, capacity = 60, 10
	o := adaptive.Options{Slow: slow, Floor: 2, Recovery: 15 * time.Second, Window: 100 * time.Millisecond, OnError: func(err error) {
		if t.Context().Err() == nil { // afterwards the client is closed
			t.Error(err)
		}
	}}
	s := server.Start(t)
	l := ratelimit.New(s.Client(), ratelimit.Options{})
	var backend service
	backend.capacity.Store(capacity)
	for range 3 {
		load(t, backend.process(adaptive.New(ratelimit.New(s.Client(), ratelimit.Options{}), o), "backend", most), 20)
	}
	require.Eventually(t, func() bool { return slotsOf(t, l, "backend", o, most) <= 2*capacity }, time.Minute, 10*time.Millisecond, "it is too much for the service")
	for range 100 { // while the load goes on, the number stays what it has to be
		slots := slotsOf(t, l, "backend", o, most)
		require.GreaterOrEqual(t, slots, o.Floor)
		require.LessOrEqual(t, slots, int64(4*capacity))
		held, err := leases.List(t.Context(), s.Client(), "backend", 1)
		require.NoError(t, err)
		require.LessOrEqual(t, held.Held, int64(most))
		time.Sleep(10 * time.Millisecond)
	}

	// A process that starts begins with the number of the others.
	fresh, err := adaptive.New(l, o).Decide(t.Context(), ratelimit.Call{Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: "backend", Slots: most, TTL: time.Second}}, ID: "fresh"})
	require.NoError(t, err)
	assert.LessOrEqual(t, fresh.Limit, int64(4*capacity))

	backend.capacity.Store(10 * most)
	require.Eventually(t, func() bool { return slotsOf(t, l, "backend", o, most) == most }, 5*time.Minute, 10*time.Millisecond, "it can bear all")
}

// Admissions take units with a slot: their slots are adapted, too, and settled as ever.
func TestSlotsOfAdmissionsAreAdapted(t *testing.T) {
	t.Parallel()
	const most = 40
	o := adaptive.Options{Slow: time.Minute, Floor: 1, Recovery: time.Hour, Window: 20 * time.Millisecond}
	s := server.Start(t)
	l := ratelimit.New(s.Client(), ratelimit.Options{})
	d := adaptive.New(l, o)
	tokens := ratelimit.Limits{ratelimit.Rate(1_000_000, day).Take(10)}
	for i := 0; slotsOf(t, l, "{llm}:slots", o, most) == most; i++ {
		require.NoError(t, t.Context().Err())
		id := string(rune('a' + i%20))
		admitted, err := d.Decide(t.Context(), ratelimit.Call{ID: id, Cost: 1, Keys: []ratelimit.Key{
			{Name: "{llm}:tokens", Limits: tokens}, {Name: "{llm}:slots", Slots: most, TTL: time.Minute},
		}})
		require.NoError(t, err)
		require.False(t, admitted.Limited)
		require.Nil(t, admitted.Each, "it was not asked for")
		settled, err := d.Decide(t.Context(), ratelimit.Call{Verb: ratelimit.VerbSettle, ID: id, Failed: true, Keys: []ratelimit.Key{
			{Name: "{llm}:tokens", Limits: ratelimit.Limits{tokens[0].Used(4)}}, {Name: "{llm}:slots"},
		}})
		require.NoError(t, err)
		require.False(t, settled.Limited)
		require.EqualValues(t, -6, settled.Granted)
	}
}

// In a cluster the number is wherever its key is; behind a guard it outlives the master.
func TestTheNumberOfSlotsOutlivesAMaster(t *testing.T) {
	t.Parallel()
	const most = 40
	o := adaptive.Options{Slow: time.Minute, Floor: 1, Recovery: time.Hour, Window: 50 * time.Millisecond, OnError: func(error) {}}
	c := topology.StartCluster(t, server.Config("cluster-require-full-coverage no"))
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Masters()[0].Addr()}, ReadTimeout: 200 * time.Millisecond, DialerRetries: 1, MaxRetries: -1, MaxRedirects: 1})
	t.Cleanup(func() { _ = client.Close() })
	l := ratelimit.New(client, ratelimit.Options{})
	d := adaptive.New(guard.New(l, guard.Options{Node: guard.Masters(client), OnChange: func(string, error) {}}), o)
	key, owner := "", (*server.Server)(nil) // of a key, and of its number, which are on different masters
	for i := 0; key == "" || owner == c.Owner(c.Slot(key)); i++ {
		key = fmt.Sprint("backend", i)
		owner = c.Owner(c.Slot(key + " adaptive slots"))
	}
	var backend service
	backend.fails.Store(true)
	load(t, backend.process(d, key, most), 10)
	require.Eventually(t, func() bool { return slotsOf(t, l, key, o, most) <= most/2 }, time.Minute, 10*time.Millisecond)

	// The master with the number stands still: the number of before holds.
	owner.Pause()
	defer owner.Resume()
	for range 20 {
		result := calls.Ask(t, d, ratelimit.Call{Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: key, Slots: most, TTL: time.Second}}, ID: "probe"})
		require.LessOrEqual(t, result.Limit, int64(most/2))
		time.Sleep(o.Window)
	}
}
