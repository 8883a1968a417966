package cached_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/cached"
)

// A caller that keeps asking while it is limited costs the server nothing.
func ExampleCached() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := cached.New(ratelimit.New(client, ratelimit.Options{}), cached.Options{Denials: 10_000})

	limits := ratelimit.Limits{ratelimit.Rate(1, time.Hour)}
	for range 4 {
		result, err := limiter.Decide(ctx, ratelimit.Call{Keys: []ratelimit.Key{{Name: "keen:42", Limits: limits}}, Cost: 1})
		fmt.Println("limited", result.Limited, "by the", result.By, err)
	}
	// Output:
	// limited false by the server <nil>
	// limited true by the server <nil>
	// limited true by the cache <nil>
	// limited true by the cache <nil>
}
