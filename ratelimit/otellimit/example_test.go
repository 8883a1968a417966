package otellimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/examples"
	"redis-throttle/ratelimit/observed"
	"redis-throttle/ratelimit/otellimit"
)

func TestMain(m *testing.M) { examples.Main(m) }

// The metrics go to the global MeterProvider, and denials into the span of ctx.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: examples.Addr})
	defer client.Close()

	observe, err := otellimit.New(otellimit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter := observed.New(ratelimit.New(client, ratelimit.Options{}), observe)
	limits := ratelimit.Limits{ratelimit.Rate(2, time.Hour).Named("hourly")}
	result, err := limiter.Decide(context.Background(), ratelimit.Call{Keys: []ratelimit.Key{{Name: "traced:42", Limits: limits}}, Cost: 1})
	fmt.Println(result.Remaining, err)
	// Output: 1 <nil>
}
