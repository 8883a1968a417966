package observed_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/observed"
)

func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	limiter := observed.New(ratelimit.New(client, ratelimit.Options{}), func(_ context.Context, d observed.Decision) {
		fmt.Println(d.Outcome(), "by the", d.Result.By, "for", d.Policy(), d.Duration < time.Minute)
	})
	limits := ratelimit.Limits{ratelimit.Rate(1, time.Hour).Named("hourly")}
	for range 2 {
		_, _ = limiter.Decide(context.Background(), ratelimit.Call{Keys: []ratelimit.Key{{Name: "observed:42", Limits: limits}}, Cost: 1})
	}
	// Output:
	// allowed by the server for hourly true
	// limited by the server for hourly true
}
