package ratelimit_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
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
	// A type of one's own sends each call by itself. Pipelines have a pool of their own in go-redis.
	exhausted := &struct{ *redis.Client }{s.Client(func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 1, time.Millisecond })}
	require.NoError(t, exhausted.Ping(t.Context()).Err())
	go exhausted.BLPop(t.Context(), 0, "list") // which has the only connection
	require.Eventually(t, func() bool { return s.InfoInt("clients", "blocked_clients") == 1 }, time.Minute, time.Millisecond)
	s.MustDo("ACL", "SETUSER", "peeks", "on", ">secret", "~*", "+@all", "-cl.limit", "-@scripting")
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
		{"a deadline that had passed before", expired, s.Client(quick), 1, false},
		{"an address without a port", t.Context(), address("127.0.0.1"), 1, false},
		{"a limit that is none", t.Context(), s.Client(quick), -1, false},
		{"a client that is closed", t.Context(), closed, 1, false},
		{"a caller that left", cancelled, s.Client(quick), 1, false},
		{"a client for one server in a cluster", t.Context(), elsewhere.Client(quick), 1, false},
		{"a pool that is too small", t.Context(), exhausted, 1, false},
		{"no permission", t.Context(), s.Client(quick, server.User("peeks", "secret")), 1, false},
		{"a client for clusters on one server", t.Context(), clusterOn(s.Addr()), 1, false},
	} {
		_, err := ratelimit.New(call.client, ratelimit.Options{}).Limit(call.ctx, "k", ratelimit.Limits{ratelimit.Rate(call.count, day)}, 1)
		if assert.Error(t, err, call.name) {
			assert.Equal(t, call.outage, ratelimit.IsOutage(err), "%s: %v", call.name, err)
			assert.Equal(t, call.client == client(exhausted) || call.ctx == expired, ratelimit.IsOverload(err), "%s: %v", call.name, err)
		}
	}
	assert.False(t, ratelimit.IsOutage(nil))
}

// An error says which server, and what is wrong with it.
func TestAnOutageNamesTheServerAndTheReason(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	hangs := server.Start(t)
	hangs.Pause()
	t.Cleanup(hangs.Resume)
	plain := s.Addr() // which speaks no TLS
	for reason, o := range map[string]*redis.Options{
		"refused":           {Addr: "127.0.0.1:1"},
		"no such host":      {Addr: "nobody.invalid:6379"},
		"by TLS":            {Addr: plain, TLSConfig: &tls.Config{ServerName: "localhost"}},
		"timeout":           {Addr: hangs.Addr(), ReadTimeout: 50 * time.Millisecond},
		"deadline exceeded": {Addr: hangs.Addr(), ContextTimeoutEnabled: true},
	} {
		quick(o)
		if reason == "deadline exceeded" {
			o.ReadTimeout = time.Hour
		}
		client := redis.NewClient(o)
		var err error
		for err == nil || ratelimit.IsOverload(err) { // on a busy machine, of this process
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = ratelimit.New(client, ratelimit.Options{}).Limit(ctx, "secret", ratelimit.Limits{ratelimit.Rate(1, day)}, 1)
			cancel()
			require.Error(t, err, reason)
		}
		require.ErrorContains(t, err, reason)
		assert.ErrorContains(t, err, strings.Split(o.Addr, ":")[0], reason)
		assert.NotContains(t, err.Error(), "secret", reason)
		assert.NoError(t, client.Close())
	}
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

func everybody(*http.Request) string { return "everybody" }

// A password that was changed is no outage, in which requests may be let through: not when a cluster is asked for its
// nodes, nor Sentinels for a master.
func TestALoginThatIsRefusedIsAMistakeOnEveryClient(t *testing.T) {
	t.Parallel()
	rotated := server.Start(t, server.Password("new"))
	addrs := []string{rotated.Addr()}
	for name, client := range map[string]redis.UniversalClient{
		"server":    redis.NewClient(&redis.Options{Addr: addrs[0], Password: "old"}),
		"cluster":   redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Password: "old"}),
		"Sentinels": redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: addrs, SentinelPassword: "old"}),
	} {
		_, err := byModule(client).Limit(t.Context(), "k", ratelimit.Limits{ratelimit.Rate(1, day)}, 1)
		require.ErrorContains(t, err, "WRONGPASS", name)
		assert.False(t, ratelimit.IsOutage(err) || ratelimit.IsOverload(err), "%s: %v", name, err)
		assert.NoError(t, client.Close())
	}
}
