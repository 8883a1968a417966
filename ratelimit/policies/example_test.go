package policies_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/examples"
	"redis-throttle/ratelimit/policies"
)

// A number of the code is halved for everybody, and one customer has another.
func ExampleNew() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: examples.Addr})
	defer client.Close()
	layer := policies.New(ratelimit.New(client, ratelimit.Options{}), client, policies.Options{Logger: slog.New(slog.DiscardHandler)})
	limiter := ratelimit.With(layer)
	perUser := ratelimit.Policy("api", ratelimit.Rate(100, time.Minute))

	client.HSet(ctx, "throttle:policies", "api", "RATE 50/m", "api/user:42", "NONE")
	defer client.Del(ctx, "throttle:policies")
	_ = layer.Reader().Read(ctx) // for the example: calls read by themselves, once a second
	for _, key := range []string{"user:1", "user:42"} {
		result, err := limiter.Limit(ctx, key, perUser, 1)
		fmt.Println(key, result.Policies[0].Field, result.Limit, result.By, err)
	}
	// Output:
	// user:1 api 50 server <nil>
	// user:42 api/user:42 0 none <nil>
}
