package load_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/grpclimit"
	"redis-throttle/tests/server"
)

// A flood of calls of gRPC passes no more than the limit, and none of it looks like an outage. What the machine has no
// time for is refused.
func TestAFloodOfGRPCPassesNoMoreThanTheLimit(t *testing.T) {
	s := server.Start(t)
	for name, limiter := range limiters(t, s.Client(asREADMEAsks)) {
		var c tally
		intercept := grpclimit.New(limiter, grpclimit.Options{
			Limits: ratelimit.Limits{ratelimit.Rate(100, 24*time.Hour)}, Key: func(context.Context, string) string { return "grpc:" + name },
			OnError: func(_ context.Context, _ string, err error) { c.fails(err) },
		}).Unary()
		handle := func(context.Context, any) (any, error) {
			compute()
			return "x", nil
		}
		var passed, refused atomic.Int64
		var asking sync.WaitGroup
		for range of(500, 2000) {
			asking.Go(func() {
				for range 2 {
					switch _, err := intercept(t.Context(), "", &grpc.UnaryServerInfo{FullMethod: "/s/M"}, handle); status.Code(err) {
					case codes.OK:
						passed.Add(1)
					case codes.ResourceExhausted:
					default:
						refused.Add(1)
					}
				}
			})
		}
		asking.Wait()
		assert.LessOrEqual(t, passed.Load(), int64(100), name)
		// An overload may have been charged all the same: its reply came too late. Without any, exactly the limit
		// passes.
		assert.GreaterOrEqual(t, passed.Load()+c.overloads.Load(), int64(100), name)
		assert.Zero(t, c.outages.Load(), "%s: %v", name, c.last)
		assert.Equal(t, c.overloads.Load(), refused.Load(), name)
	}
}
