package ratelimittest_test

import (
	"testing"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/ratelimittest"
)

// BenchmarkCalls also prints how many calls are decided in a second.
func BenchmarkCalls(b *testing.B) {
	l := ratelimittest.New(b)
	limits := ratelimit.Limits{ratelimit.Rate(100, time.Second)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Limit(b.Context(), "user:42", limits, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
