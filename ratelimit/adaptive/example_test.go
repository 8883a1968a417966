package adaptive_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/adaptive"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/leases"
)

// A service that answers 503 gets fewer requests at a time, in all processes together.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := adaptive.New(ratelimit.New(client, ratelimit.Options{}), adaptive.Options{
		Slow: 300 * time.Millisecond, Window: 50 * time.Millisecond,
	})
	limited := httplimit.NewConcurrency(limiter, httplimit.ConcurrencyOptions{
		Slots: 100, Key: func(*http.Request) string { return "search" },
	})
	handler := limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(10 * time.Millisecond) // the service is asked
		leases.Failed(r.Context())        // and has answered that it is overloaded
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	for range 20 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	for slots := int64(100); slots == 100; time.Sleep(10 * time.Millisecond) {
		result, err := limiter.Decide(context.Background(), ratelimit.Call{
			Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: "search", Slots: 100, TTL: time.Minute}}, ID: "mine",
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		slots = result.Limit
	}
	fmt.Println("fewer than 100 slots")
	// Output: fewer than 100 slots
}
