package leases_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/leases"
)

// Two exports at a time, in all processes together.
func ExampleTake() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client, ratelimit.Options{})

	for range 3 {
		lease, err := leases.Take(ctx, limiter, leases.Options{Key: "exports:running", Slots: 2, TTL: 30 * time.Second})
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

// A request to a language model: its tokens by an estimate, and one of two slots; then what was used.
func ExampleDoAdmitted() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client, ratelimit.Options{})

	perDay := ratelimit.Fixed(100_000, 24*time.Hour)
	call := ratelimit.Call{Keys: []ratelimit.Key{
		{Name: "{7}:tokens", Limits: ratelimit.Limits{perDay.Take(1200)}},
		{Name: "{7}:running", Slots: 2, TTL: time.Minute},
	}}
	err := leases.DoAdmitted(ctx, limiter, call, func(ctx context.Context, a *leases.Admission) error {
		fmt.Println("asking", ctx.Err()) // pass ctx to the work
		a.Used("{7}:tokens", 734)
		return nil
	})
	left, _ := limiter.Peek(ctx, "{7}:tokens", ratelimit.Limits{perDay}, 1)
	fmt.Println(err, left.Remaining)
	// Output:
	// asking <nil>
	// <nil> 99266
}

// Which exports run, and how many callers wait.
func ExampleList() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client, ratelimit.Options{})

	if _, err := limiter.Decide(ctx, ratelimit.Call{Verb: ratelimit.VerbLease,
		Keys: []ratelimit.Key{{Name: "exports:listed", Slots: 2, TTL: time.Minute}}, ID: "export:17"}); err != nil {
		fmt.Println(err)
		return
	}
	leases, err := leases.List(ctx, client, "exports:listed", 10)
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
