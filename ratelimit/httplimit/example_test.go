package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/keyby"
)

func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Second, ContextTimeoutEnabled: true})
	defer client.Close()

	limited := httplimit.New(ratelimit.New(client, ratelimit.Options{}), httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(2, time.Hour).Named("hourly")},
		Key:    func(r *http.Request) string { return "api:" + keyby.RemoteHost(r) },
	})
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	handler := limited(hello) // http.ListenAndServe("127.0.0.1:8080", handler)

	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit")[:len(`"hourly";r=0`)])
	}
	// Output:
	// 200 "hourly";q=2;w=3600 "hourly";r=1
	// 200 "hourly";q=2;w=3600 "hourly";r=0
	// 429 "hourly";q=2;w=3600 "hourly";r=0
}

// Orders are dearer than the rest, and a plan has more of it.
func ExampleNew_routes() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	plans := map[string]ratelimit.Limits{"gold": {ratelimit.Rate(1000, time.Hour).Named("gold")}}
	limited := httplimit.New(ratelimit.New(client, ratelimit.Options{}), httplimit.Options{
		Key:    keyby.Prefixed("customer:", keyby.Header("X-Tenant")),
		Limits: ratelimit.Limits{ratelimit.Rate(100, time.Hour)},
		Routes: []httplimit.Route{
			{Pattern: "POST /orders", Limits: ratelimit.Limits{ratelimit.Rate(10, time.Hour).Named("orders")}},
		},
		LimitsFor:  func(r *http.Request) ratelimit.Limits { return plans[r.Header.Get("X-Plan")] },
		XRateLimit: httplimit.XRateLimitSeconds,
	})
	handler := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

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

// Five requests of a tenant at a time.
func ExampleNewConcurrency() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	slots := httplimit.NewConcurrency(ratelimit.New(client, ratelimit.Options{}), httplimit.ConcurrencyOptions{
		Slots: 5,
		Key:   func(r *http.Request) string { return "running:" + r.Header.Get("X-Tenant") },
	})
	handler := slots(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 200 hello
}
