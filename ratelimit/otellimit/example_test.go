package otellimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/examples"
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
	limiter := ratelimit.Observed(ratelimit.New(client), observe)
	limits := ratelimit.Limits{ratelimit.Rate(2, time.Hour).Named("hourly")}
	result, err := limiter.Decide(context.Background(), "traced:42", limits)
	fmt.Println(result.Remaining, err)
	// Output: 1 <nil>
}
