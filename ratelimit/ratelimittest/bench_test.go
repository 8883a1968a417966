package ratelimittest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/limiter/embedded"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/ratelimittest"
)

var perSecond = ratelimit.Limits{ratelimit.Rate(100, time.Second)}

// BenchmarkCalls also prints how many calls are decided in a second.
func BenchmarkCalls(b *testing.B) {
	l := ratelimittest.New(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Limit(b.Context(), "user:42", perSecond, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkTheClient is the share of package ratelimit and go-redis: a call whose answer is there at once.
func BenchmarkTheClient(b *testing.B) {
	l := ratelimit.New(answered{int64(0), int64(1), int64(100), int64(99), int64(-1), int64(10), int64(10), int64(1), int64(0), int64(0)}, ratelimit.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Limit(b.Context(), "user:42", perSecond, 1); err != nil {
			b.Fatal(err)
		}
	}
}

type answered []any

func (a answered) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.(interface{ SetVal(value any) }).SetVal([]any(a))
	return nil
}

// BenchmarkTheHost is the share of package embedded: the words of the same call, decided.
func BenchmarkTheHost(b *testing.B) {
	var host embedded.Host
	words := [][]byte{[]byte("CL.LIMIT"), []byte("user:42"), []byte("RATE"), []byte("100/1s"), []byte("COMPACT")}
	nowNs := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	b.ReportAllocs()
	for b.Loop() {
		if r := host.Do(embedded.Call{NowNs: nowNs, MayBlock: true, Words: words}); r.Error != "" {
			b.Fatal(r.Error)
		}
	}
}
