package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
)

// Two exports at a time, in all processes together.
func ExampleLimiter_Lease() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)

	for range 3 {
		lease, err := limiter.Lease(ctx, "exports:running", 2, 30*time.Second)
		var limited *ratelimit.LimitedError
		switch {
		case errors.As(err, &limited):
			fmt.Println("all", limited.Limit, "slots are taken")
			continue
		case err != nil:
			fmt.Println(err)
			return
		}
		defer lease.Release(ctx)
		fmt.Println("exporting", lease.Context().Err()) // pass lease.Context() to the work
	}
	// Output:
	// exporting <nil>
	// exporting <nil>
	// all 2 slots are taken
}

// Which exports run, and how many callers wait.
func ExampleLimiter_Leases() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)

	if _, err := limiter.TakeLease(ctx, "exports:listed", 2, time.Minute, "export:17").Result(); err != nil {
		fmt.Println(err)
		return
	}
	leases, err := limiter.Leases(ctx, "exports:listed", 10).Result()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(leases.Held, "held,", leases.Waiting, "waiting")
	for _, lease := range leases.Leases {
		fmt.Println(lease.ID, lease.Lasts > 0)
	}
	// Output:
	// 1 held, 0 waiting
	// export:17 true
}

// Five requests of a tenant at a time.
func ExampleConcurrency() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	slots := ratelimit.Concurrency{
		Limiter: ratelimit.New(client),
		Slots:   5,
		Key:     func(r *http.Request) string { return "running:" + r.Header.Get("X-Tenant") },
	}
	handler := slots.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 200 hello
}
