package ratelimit_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/keyby"
	"redis-throttle/ratelimit/observed"
	"redis-throttle/ratelimit/sloglimit"
	"redis-throttle/tests/server"
)

// A whole service: limits by address for everybody behind a proxy, by API key and route inside, observed and logged.
func TestAStackOfMiddlewares(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	var log bytes.Buffer
	limiter := observed.New(ratelimit.New(s.Client(), ratelimit.Options{}),
		sloglimit.New(sloglimit.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), PerSecond: 1000}))
	outer := httplimit.New(limiter, httplimit.Options{
		Limits:     ratelimit.Limits{ratelimit.Rate(6, day).Named("address")},
		Key:        keyby.Prefixed("ip:", keyby.Client(netip.MustParsePrefix("127.0.0.0/8"))),
		XRateLimit: httplimit.XRateLimitSeconds,
	})
	inner := httplimit.New(limiter, httplimit.Options{
		Key: keyby.Prefixed("key:", keyby.SHA256(keyby.Header("X-Api-Key"))),
		Routes: []httplimit.Route{
			{Pattern: "POST /orders/{id}", Limits: ratelimit.Limits{ratelimit.Rate(1, day).Named("orders"), ratelimit.Fixed(100, day).Named("daily")}},
			{Pattern: "/files/", Limits: ratelimit.Limits{ratelimit.Rate(2, day).Named("files")}},
		},
		XRateLimit: httplimit.XRateLimitSeconds,
	})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.PathValue("id")) })
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	web := httptest.NewServer(outer(inner(mux)))
	t.Cleanup(web.Close)

	for _, c := range []struct {
		rule      string
		method    string
		path      string
		status    int
		policies  []string // behind that of the outer one
		remaining string   // X-RateLimit-Remaining, of whichever has fewer units left
		violated  string
	}{
		{"an order", "POST", "/orders/1", 200, []string{`"orders";q=1;w=86400, "daily";q=100;w=86400`}, "0", ""},
		{"no more orders", "POST", "/orders/2", 429, []string{`"orders";q=1;w=86400, "daily";q=100;w=86400`}, "0", "orders"},
		{"a file", "GET", "/files/a", 200, []string{`"files";q=2;w=86400`}, "1", ""},
		{"no route", "GET", "/", 200, nil, "2", ""},
		{"another file", "GET", "/files/b", 200, []string{`"files";q=2;w=86400`}, "0", ""},
		{"no more files", "GET", "/files/c", 429, []string{`"files";q=2;w=86400`}, "0", "files"},
		{"no more from this address", "GET", "/", 429, nil, "0", "address"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, web.URL+c.path, nil)
		require.NoError(t, err)
		request.Header.Set("X-Api-Key", "s3cret")
		request.Header.Set("X-Forwarded-For", "198.51.100.1, 203.0.113.7")
		response, err := web.Client().Do(request)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		require.NoError(t, err)
		assert.Equal(t, c.status, response.StatusCode, c.rule)
		assert.Equal(t, append([]string{`"address";q=6;w=86400`}, c.policies...), response.Header.Values("RateLimit-Policy"), c.rule)
		assert.Len(t, response.Header.Values("RateLimit"), 1+len(c.policies), c.rule)
		assert.Equal(t, c.remaining, response.Header.Get("X-RateLimit-Remaining"), c.rule)
		assert.Equal(t, c.status == 429, response.Header.Get("Retry-After") != "", c.rule)
		if c.violated != "" {
			assert.Contains(t, string(body), `"violated-policies":["`+c.violated+`"]`, c.rule)
		}
		if c.method == "POST" && c.status == 200 {
			assert.Equal(t, "1", string(body), "the path values of the handler are its own")
		}
	}

	keys, err := s.Client().Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	hash := keyby.Hash("s3cret")
	assert.ElementsMatch(t, []string{"ip:203.0.113.7", "POST /orders/{id} key:" + hash, "/files/ key:" + hash}, keys)

	assert.Equal(t, 3, strings.Count(log.String(), "level=INFO msg=\"rate limited\""), log.String())
	assert.Equal(t, 3, strings.Count(log.String(), "\n"), "nothing about requests that are let through")
	for _, policy := range []string{"orders", "files", "address"} {
		assert.Contains(t, log.String(), "policy="+policy)
	}
}
