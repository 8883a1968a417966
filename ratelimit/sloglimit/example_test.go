package sloglimit_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/examples"
	"redis-throttle/ratelimit/observed"
	"redis-throttle/ratelimit/sloglimit"
)

func TestMain(m *testing.M) { examples.Main(m) }

func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: examples.Addr})
	defer client.Close()

	// Without times, which differ.
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey, "duration", "retry_after":
			return slog.Attr{}
		}
		return a
	}}))
	limiter := observed.New(ratelimit.New(client, ratelimit.Options{}), sloglimit.New(sloglimit.Options{Logger: logger}))
	limits := ratelimit.Limits{ratelimit.Rate(1, time.Hour).Named("hourly")}
	for range 2 { // the first is allowed
		_, _ = limiter.Decide(context.Background(), ratelimit.Call{Keys: []ratelimit.Key{{Name: "logged:42", Limits: limits}}, Cost: 1})
	}
	// Output: level=INFO msg="redis-throttle: rate limited" verb=limit by=server policy=hourly
}
