package ratelimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/keyby"
)

// Orders are dearer than the rest, and a plan has more of it.
func ExampleMiddleware_routes() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	plans := map[string]ratelimit.Limits{"gold": {ratelimit.Rate(1000, time.Hour).Named("gold")}}
	limited := ratelimit.Middleware{
		Limiter: ratelimit.New(client),
		Key:     keyby.Prefixed("customer:", keyby.Header("X-Tenant")), // set by what authenticates requests
		Limits:  ratelimit.Limits{ratelimit.Rate(100, time.Hour)},
		Routes: []ratelimit.Route{
			{Pattern: "POST /orders", Limits: ratelimit.Limits{ratelimit.Rate(10, time.Hour).Named("orders")}},
		},
		LimitsFor:  func(r *http.Request) ratelimit.Limits { return plans[r.Header.Get("X-Plan")] },
		XRateLimit: ratelimit.XRateLimitSeconds,
	}
	handler := limited.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for _, request := range []struct{ method, path, tenant, plan string }{
		{"GET", "/", "7", ""}, {"GET", "/", "8", "gold"}, {"POST", "/orders", "7", ""},
	} {
		r := httptest.NewRequest(request.method, request.path, nil)
		r.Header.Set("X-Tenant", request.tenant)
		r.Header.Set("X-Plan", request.plan)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Header().Get("RateLimit-Policy"), w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// "default";q=100;w=3600 99
	// "gold";q=1000;w=3600 999
	// "orders";q=10;w=3600 9
}

func ExampleObserved() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	limiter := ratelimit.Observed(ratelimit.New(client), func(_ context.Context, d ratelimit.Decision) {
		fmt.Println(d.Outcome(), "by the", d.Result.By, "for", d.Policy(), d.Duration < time.Minute)
	})
	limits := ratelimit.Limits{ratelimit.Rate(1, time.Hour).Named("hourly")}
	for range 2 {
		_, _ = limiter.Decide(context.Background(), "observed:42", limits)
	}
	// Output:
	// allowed by the server for hourly true
	// limited by the server for hourly true
}
