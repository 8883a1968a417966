package cached_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/cached"
)

// denying is a server that denies everything for a month.
type denying struct{}

func (denying) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{Limited: true, RetryAfter: 30 * 24 * time.Hour, By: "server"}, nil
}

func callOn(key string) ratelimit.Call {
	return ratelimit.Call{Keys: []ratelimit.Key{{Name: key, Limits: ratelimit.Limits{ratelimit.FixedMonths(1, 1)}}}, Cost: 1}
}

// hit asks for what is remembered.
func hit(t testing.TB) func() {
	c, call, ctx := cached.New(denying{}, cached.Options{}), callOn("user:42"), t.Context()
	return func() {
		if result, err := c.Decide(ctx, call); err != nil || !result.Limited {
			t.Fatal(result, err)
		}
	}
}

//nolint:paralleltest // others would be counted, too
func TestARememberedDenialAllocatesNothing(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(1000, hit(t)))
}

func BenchmarkHit(b *testing.B) {
	ask := hit(b)
	b.ReportAllocs()
	for b.Loop() {
		ask()
	}
}

type allowing struct{}

func (allowing) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{}, nil
}

// A call that nobody has denied goes on, which is what most calls do.
func BenchmarkMiss(b *testing.B) {
	c, call, ctx := cached.New(allowing{}, cached.Options{}), callOn("user:42"), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if result, err := c.Decide(ctx, call); err != nil || result.Limited {
			b.Fatal(result, err)
		}
	}
}
