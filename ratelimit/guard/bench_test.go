package guard_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
)

// What a request costs while no server is there.
func BenchmarkOutage(b *testing.B) {
	for _, policy := range []guard.Policy{guard.Fail, guard.Open, guard.Closed, guard.Local} {
		b.Run(policy.String(), func(b *testing.B) {
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
			defer client.Close()
			g := guard.New(ratelimit.New(client, ratelimit.Options{}), guard.Options{
				Policy: policy, Failures: 1, Pause: time.Hour, Logger: slog.New(slog.DiscardHandler),
			})
			limits := ratelimit.Limits{ratelimit.Rate(5, time.Second).Burst(10)}
			_, _ = g.Decide(context.Background(), ratelimit.Call{Keys: []ratelimit.Key{{Name: "k", Limits: limits}}, Cost: 1})
			b.ReportAllocs()
			for b.Loop() {
				_, _ = g.Decide(context.Background(), ratelimit.Call{Keys: []ratelimit.Key{{Name: "k", Limits: limits}}, Cost: 1})
			}
		})
	}
}
