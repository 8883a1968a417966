package pipelimit_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/pipelimit"
)

// Calls that go out together, in one round trip.
func ExampleQueue() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	pipe := client.Pipeline()
	perDay := ratelimit.Limits{ratelimit.Rate(1000, 24*time.Hour)}
	byUser := pipelimit.Queue(ctx, pipe, ratelimit.Call{Keys: []ratelimit.Key{{Name: "user:1", Limits: perDay}}, Cost: 1})
	byAddress := pipelimit.Queue(ctx, pipe, ratelimit.Call{Keys: []ratelimit.Key{{Name: "address:203.0.113.7", Limits: perDay}}, Cost: 1})
	if _, err := pipe.Exec(ctx); err != nil {
		fmt.Println(err)
		return
	}
	user, _ := byUser.Result()
	address, _ := byAddress.Result()
	fmt.Println(user.Limited || address.Limited)
	// Output: false
}

// Calls of several goroutines share pipelines.
func ExampleShare() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	limiter := ratelimit.New(pipelimit.Share(client, pipelimit.Options{}), ratelimit.Options{})
	perDay := ratelimit.Limits{ratelimit.Rate(1000, 24*time.Hour)}
	var asking sync.WaitGroup
	for _, user := range []string{"user:1", "user:2", "user:3"} {
		asking.Go(func() {
			if result, err := limiter.Limit(context.Background(), user, perDay, 1); err != nil || result.Limited {
				fmt.Println(user, result.Limited, err)
			}
		})
	}
	asking.Wait()
	// Output:
}
