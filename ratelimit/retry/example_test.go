package retry_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/retry"
)

func ExampleDo() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client, ratelimit.Options{})

	limits := ratelimit.Limits{ratelimit.Rate(10, time.Second).Burst(1)}
	for range 2 {
		err := retry.Do(ctx, func(ctx context.Context) error {
			result, err := limiter.Limit(ctx, "jobs", limits, 1)
			if err != nil {
				return err
			}
			if err := result.Err(); err != nil {
				return err // Retry waits and tries again
			}
			fmt.Println("the job")
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// the job
	// the job
}
