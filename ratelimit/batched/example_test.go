package batched_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
)

// One call to the server for up to a hundred requests on a hot key.
func ExampleBatched() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := batched.New(ratelimit.New(client, ratelimit.Options{}), batched.Options{Units: 100, MaxAge: time.Minute})

	limits := ratelimit.Limits{ratelimit.Fixed(1_000_000, 365*24*time.Hour)}
	by := map[string]int{}
	for range 10_000 {
		result, err := limiter.Decide(ctx, ratelimit.Call{Keys: []ratelimit.Key{{Name: "ingest", Limits: limits}}, Cost: 1})
		if err != nil || result.Limited {
			fmt.Println(result, err)
			return
		}
		by[result.By]++
	}
	fmt.Println(by["server"], "calls to the server,", by["batch"], "without")
	fmt.Println(limiter.Close(ctx)) // what is left goes back

	left, err := ratelimit.New(client, ratelimit.Options{}).Peek(ctx, "ingest", limits, 1)
	fmt.Println(left.Remaining, err)
	// Output:
	// 106 calls to the server, 9894 without
	// <nil>
	// 990000 <nil>
}
