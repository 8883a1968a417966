package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
)

// instant answers at once, as a server that allows the call, without a network.
type instant struct{ reply any }

func (i instant) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.(interface{ SetVal(any) }).SetVal(i.reply)
	return nil
}

// costs are the calls whose cost is bounded, and the allocations of each at most, the command of go-redis and its words
// included.
func costs() map[string]struct {
	limits ratelimit.Limits
	most   float64
} {
	return map[string]struct {
		limits ratelimit.Limits
		most   float64
	}{
		"a Rate":       {ratelimit.Limits{ratelimit.Rate(5, time.Second)}, 4},
		"three limits": {ratelimit.Limits{ratelimit.Rate(5, time.Second).Burst(9), ratelimit.Window(9, time.Hour), ratelimit.FixedMonths(9, 1).Zone("Europe/Berlin")}, 4},
	}
}

func limited(limits ratelimit.Limits) func(b testing.TB) func() {
	return func(b testing.TB) func() {
		reply := make([]any, 10)
		for i := range reply {
			reply[i] = int64(1)
		}
		reply[0], reply[9] = int64(0), int64(0)
		l, ctx := ratelimit.New(instant{reply}, ratelimit.Options{}), context.Background()
		return func() {
			if _, err := l.Limit(ctx, "user:42", limits, 1); err != nil {
				b.Fatal(err)
			}
		}
	}
}

//nolint:paralleltest // others would be counted, too
func TestACallAllocatesLittle(t *testing.T) {
	for name, c := range costs() {
		got := testing.AllocsPerRun(1000, limited(c.limits)(t))
		t.Log(name, got)
		assert.LessOrEqual(t, got, c.most, name)
	}
}

func BenchmarkLimit(b *testing.B) {
	for name, c := range costs() {
		b.Run(name, func(b *testing.B) {
			call := limited(c.limits)(b)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}
