package guard_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
)

// While no Redis is there, each of two processes decides by its half of the limit.
func Example() {
	logging.Disable()
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: 100 * time.Millisecond,
	})
	defer client.Close()
	limiter := guard.New(ratelimit.New(client, ratelimit.Options{}), guard.Options{
		Policy:    guard.Local,
		Processes: 2,
		Logger:    slog.New(slog.DiscardHandler),
	})

	perUser := ratelimit.Limits{ratelimit.Rate(6, time.Hour)}
	for range 4 {
		result, err := limiter.Decide(context.Background(), ratelimit.Call{Keys: []ratelimit.Key{{Name: "user:42", Limits: perUser}}, Cost: 1})
		fmt.Println("limited", result.Limited, "by", result.By, err)
	}
	// Output:
	// limited false by local <nil>
	// limited false by local <nil>
	// limited false by local <nil>
	// limited true by local <nil>
}
