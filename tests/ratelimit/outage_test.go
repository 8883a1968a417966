package ratelimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// quick is a client that gives up quickly.
func quick(o *redis.Options) {
	o.DialTimeout, o.DialerRetries, o.ReadTimeout, o.MaxRetries = time.Second, 1, 100*time.Millisecond, -1
}

// A mistake never lets a request through, whatever FailClosed says; an outage does unless
// it is set.
func TestOnlyAnOutageLetsRequestsThrough(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(1000, day)}
	set := func(setting, value string) func(*server.Server) {
		return func(s *server.Server) { s.MustDo("CONFIG", "SET", setting, value) }
	}
	for _, c := range []struct {
		name   string
		spoil  func(s *server.Server)
		repair func(s *server.Server)
		cost   int64
		outage bool
	}{
		{"a key of another type", func(s *server.Server) { s.MustDo("DEL", "everybody"); s.MustDo("RPUSH", "everybody", "1") },
			func(s *server.Server) { s.MustDo("DEL", "everybody") }, 1, false},
		{"a cost that is none", nil, nil, -1, false},
		{"no permission", func(s *server.Server) { s.MustDo("ACL", "SETUSER", "default", "-cl.limit") },
			func(s *server.Server) { s.MustDo("ACL", "SETUSER", "default", "+@all") }, 1, false},
		{"no module", func(s *server.Server) { s.MustDo("MODULE", "UNLOAD", "throttle") }, func(s *server.Server) {
			path, err := server.ModulePath()
			require.NoError(t, err)
			s.MustDo("MODULE", "LOAD", path)
		}, 1, false},
		{"READONLY", func(s *server.Server) { s.MustDo("REPLICAOF", "127.0.0.1", "1") },
			func(s *server.Server) { s.MustDo("REPLICAOF", "NO", "ONE") }, 1, true},
		{"OOM", set("maxmemory", "1"), set("maxmemory", "0"), 1, true},
		{"NOREPLICAS", set("min-replicas-to-write", "1"), set("min-replicas-to-write", "0"), 1, true},
		{"a server that hangs", (*server.Server).Pause, (*server.Server).Resume, 1, true},
		{"a server that is down", (*server.Server).Kill, (*server.Server).Restart, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			for _, failClosed := range []bool{false, true} {
				cost := int64(1)
				var errs []error
				page := site(t, httplimit.New(byModule(s.Client(quick)), httplimit.Options{
					Limits:   limits,
					Key:      everybody,
					Cost:     func(*http.Request) int64 { return cost },
					Failures: httplimit.Failures{Outage: answerOf(failClosed), OnError: func(_ *http.Request, err error) { errs = append(errs, err) }},
				}))
				limited := func() bool {
					response, _ := get(t, page)
					return response.StatusCode == http.StatusOK && response.Header.Get("RateLimit") != ""
				}
				require.Eventually(t, limited, 10*time.Second, 10*time.Millisecond)

				errs, cost = nil, c.cost
				if c.spoil != nil {
					c.spoil(s)
				}
				response, body := get(t, page)
				if c.repair != nil {
					c.repair(s)
				}
				require.Len(t, errs, 1)
				assert.Equal(t, c.outage, ratelimit.IsOutage(errs[0]), errs[0])
				want := http.StatusInternalServerError
				if c.outage {
					want = map[bool]int{false: http.StatusOK, true: http.StatusServiceUnavailable}[failClosed]
				}
				assert.Equal(t, want, response.StatusCode)
				assert.Equal(t, want == http.StatusOK, body == "hello", body)

				cost = 1
				require.Eventually(t, limited, 10*time.Second, 10*time.Millisecond)
			}
		})
	}
}

func TestWhatIsAnOutage(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := topology.StartCluster(t)
	elsewhere := c.Masters()[0]
	if c.Owner(c.Slot("k")) == elsewhere {
		elsewhere = c.Masters()[1]
	}
	closed := s.Client()
	require.NoError(t, closed.Close())
	expired, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	address := func(addr string) *redis.Client {
		client := s.Client(quick, func(o *redis.Options) { o.Addr = addr })
		return client
	}
	clusterOn := func(addrs ...string) *redis.ClusterClient {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, MaxRedirects: -1, DialerRetries: 1})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	for _, call := range []struct {
		name   string
		ctx    context.Context
		client client
		count  int64
		outage bool
	}{
		{"nobody there", t.Context(), address("127.0.0.1:1"), 1, true},
		{"no node there", t.Context(), clusterOn("127.0.0.1:1"), 1, true},
		{"a deadline", expired, s.Client(quick), 1, true},
		{"an address without a port", t.Context(), address("127.0.0.1"), 1, false},
		{"a limit that is none", t.Context(), s.Client(quick), -1, false},
		{"a client that is closed", t.Context(), closed, 1, false},
		{"a caller that left", cancelled, s.Client(quick), 1, false},
		{"a client for one server in a cluster", t.Context(), elsewhere.Client(quick), 1, false},
		{"a client for clusters on one server", t.Context(), clusterOn(s.Addr()), 1, false},
	} {
		_, err := ratelimit.New(call.client, ratelimit.Options{}).Limit(call.ctx, "k", ratelimit.Limits{ratelimit.Rate(call.count, day)}, 1)
		if assert.Error(t, err, call.name) {
			assert.Equal(t, call.outage, ratelimit.IsOutage(err), "%s: %v", call.name, err)
		}
	}
	assert.False(t, ratelimit.IsOutage(nil))
}

// Leaving early is no way round a limit, and neither is a short deadline, which some clients choose themselves.
func TestRequestOfAClientThatLeftIsNotLetThrough(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	hanging := ratelimit.New(s.Client(func(o *redis.Options) { o.ContextTimeoutEnabled = true }), ratelimit.Options{})
	s.Pause()
	defer s.Resume()
	left, leave := context.WithCancel(t.Context())
	leave()
	within := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}
	for _, c := range []struct {
		name    string
		ctx     context.Context
		decider ratelimit.Decider
	}{
		{"it has left", left, ratelimittest.New(t)},
		{"it has left a server that hangs", left, hanging},
		{"its deadline has passed", within(-time.Second), ratelimittest.New(t)},
		{"its deadline passes while the server hangs", within(20 * time.Millisecond), hanging},
	} {
		failures := httplimit.Failures{OnError: func(_ *http.Request, err error) { t.Error(c.name, err) }}
		for _, middleware := range []func(http.Handler) http.Handler{
			httplimit.New(c.decider, httplimit.Options{Limits: ratelimit.Limits{ratelimit.Rate(1, day)}, Key: everybody, Failures: failures}),
			httplimit.NewConcurrency(c.decider, httplimit.ConcurrencyOptions{Slots: 1, Key: everybody, Failures: failures}),
		} {
			handler := middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was let through: " + c.name) }))
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(c.ctx, http.MethodGet, "/", nil))
			assert.Equal(t, http.StatusServiceUnavailable, w.Code, c.name)
		}
	}
}
