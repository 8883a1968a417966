package ratelimit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
)

// A caller that keeps asking while it is limited costs the server nothing.
func ExampleCached() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.NewCached(ratelimit.New(client), 10_000)

	limits := ratelimit.Limits{ratelimit.Rate(1, time.Hour)}
	for range 4 {
		result, err := limiter.Decide(ctx, "keen:42", limits)
		fmt.Println("limited", result.Limited, "by the", result.By, err)
	}
	// Output:
	// limited false by the server <nil>
	// limited true by the server <nil>
	// limited true by the cache <nil>
	// limited true by the cache <nil>
}

// One call to the server for up to a hundred requests on a hot key.
func ExampleBatched() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.NewBatched(ratelimit.New(client), ratelimit.Batching{Units: 100, MaxAge: time.Minute})

	limits := ratelimit.Limits{ratelimit.Fixed(1_000_000, 365*24*time.Hour)}
	by := map[ratelimit.Source]int{}
	for range 10_000 {
		result, err := limiter.Decide(ctx, "ingest", limits)
		if err != nil || result.Limited {
			fmt.Println(result, err)
			return
		}
		by[result.By]++
	}
	fmt.Println(by[ratelimit.FromServer], "calls to the server,", by[ratelimit.FromBatch], "without")
	fmt.Println(limiter.Close(ctx)) // what is left goes back

	left, err := ratelimit.New(client).Peek(ctx, "ingest", limits).Result()
	fmt.Println(left.Remaining, err)
	// Output:
	// 106 calls to the server, 9894 without
	// <nil>
	// 990000 <nil>
}
