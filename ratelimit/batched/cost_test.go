package batched_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
)

// plenty grants what is asked.
type plenty struct{}

func (plenty) Decide(_ context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{Limit: 1 << 40, Remaining: 1 << 39, Granted: c.Cost, By: "server"}, nil
}

// hit asks for units that are there, almost always.
func hit(t testing.TB) func() {
	b, ctx := batched.New(plenty{}, batched.Options{Units: 1 << 30, MaxAge: time.Hour}), context.Background()
	t.Cleanup(func() { _ = b.Close(ctx) })
	call := ratelimit.Call{Keys: []ratelimit.Key{{Name: "user:42", Limits: ratelimit.Limits{ratelimit.Rate(1<<40, time.Hour)}}}, Cost: 1}
	ask := func() {
		if result, err := b.Decide(ctx, call); err != nil || result.Limited {
			t.Fatal(result, err)
		}
	}
	for range 1 << 16 { // batches grow
		ask()
	}
	return ask
}

//nolint:paralleltest // others would be counted, too
func TestAUnitOfABatchAllocatesNothing(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(1000, hit(t)))
}

func BenchmarkHit(b *testing.B) {
	ask := hit(b)
	b.ReportAllocs()
	for b.Loop() {
		ask()
	}
}
