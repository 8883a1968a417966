package xrate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/xrate"
)

// In place of rate.NewLimiter(rate.Every(12*time.Minute), 2) of golang.org/x/time/rate.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	bucket := xrate.New(ratelimit.New(client, ratelimit.Options{}), xrate.Options{Key: "reports", Limit: ratelimit.Rate(5, time.Hour).Burst(2)})
	fmt.Println(bucket.Allow(), bucket.Allow(), bucket.Allow())
	reservation := bucket.Reserve()
	fmt.Println(reservation.OK(), reservation.Delay().Round(time.Minute))
	reservation.Cancel()

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := bucket.Wait(ctx) // knows at once that this would take too long
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true true false
	// true 12m0s
	// true
}
