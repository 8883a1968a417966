package ratelimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/grpclimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/xrate"
	"redis-throttle/tests/server"
)

// mistakes are servers that are set up wrongly, and what their errors say.
func mistakes(t *testing.T) map[string]*redis.Client {
	t.Helper()
	rotated := server.Start(t, server.Password("new"))
	return map[string]*redis.Client{
		"unknown command": server.Start(t, server.WithoutModule()).Client(quick), // such as a replica that has taken over
		"WRONGPASS":       rotated.Client(quick, server.User("default", "old")),
	}
}

// A password that was changed is no outage, in which requests may be let through: not when a cluster is asked for its nodes, nor Sentinels
// for a master.
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

// Whatever asks with an OnError that is nil: of a flood of requests that fail, one line is logged, and no key.
//
//nolint:paralleltest // it sets the default logger
func TestAFloodOfErrorsIsOneLine(t *testing.T) {
	const secret, requests = "secret-key", 50
	before := slog.Default()
	defer slog.SetDefault(before)
	limits := ratelimit.Limits{ratelimit.Rate(1, day)}
	key := func(*http.Request) string { return secret }
	request := func() *http.Request { return httptest.NewRequest(http.MethodGet, "/", nil) }
	serve := func(m func(http.Handler) http.Handler) func() {
		handler := m(http.NotFoundHandler())
		return func() { handler.ServeHTTP(httptest.NewRecorder(), request()) }
	}
	for text, client := range mistakes(t) {
		l := byModule(client)
		transport := httplimit.NewTransport(l, httplimit.TransportOptions{Limits: limits, Key: key})
		unary := grpclimit.NewClient(l, grpclimit.ClientOptions{
			Limits: limits, Key: func(context.Context, string) string { return secret },
		}).Unary()
		bucket := xrate.New(l, xrate.Options{Key: secret, Limit: limits[0]})
		for name, ask := range map[string]func(){
			"a middleware":   serve(httplimit.New(l, httplimit.Options{Limits: limits, Key: key})),
			"slots":          serve(httplimit.NewConcurrency(l, httplimit.ConcurrencyOptions{Slots: 1, TTL: time.Minute, Key: key})),
			"a transport":    func() { _, _ = transport.RoundTrip(request()) }, //nolint:bodyclose // it is not sent
			"an interceptor": func() { _ = unary(t.Context(), "/s/m", nil, nil, nil, unsent) },
			"a bucket":       func() { bucket.Allow(); bucket.Reserve() },
		} {
			var logged bytes.Buffer
			slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
			for range requests {
				ask()
			}
			assert.Equal(t, 1, strings.Count(logged.String(), "\n"), "%s:\n%s", name, logged.String())
			assert.Contains(t, logged.String(), text, name)
			assert.Contains(t, logged.String(), "kind=mistake", name)
			assert.NotContains(t, logged.String(), secret, name)
		}
	}
}

func unsent(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
	return nil
}
