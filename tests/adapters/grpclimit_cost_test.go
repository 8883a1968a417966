package adapters

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/grpclimit"
)

// allows is a Decider that lets every call through.
type allows struct{}

func (allows) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{Limit: 9, Remaining: 5, By: "server"}, nil
}

// What LimitsFor chooses is prepared once, and not for each call.
//
//nolint:paralleltest // others would be counted, too
func TestCallsWithChosenLimitsCostNoMoreThanOthers(t *testing.T) {
	limits := ratelimit.Limits{ratelimit.Rate(5, time.Second).Burst(9), ratelimit.FixedMonths(100, 1).Zone("Europe/Berlin")}
	cost := func(limitsFor func(context.Context, string) ratelimit.Limits) float64 {
		intercept := grpclimit.New(allows{}, grpclimit.Options{
			Limits: limits, LimitsFor: limitsFor, Key: func(context.Context, string) string { return "k" },
		}).Unary()
		info := &grpc.UnaryServerInfo{FullMethod: "/shop.Orders/Place"}
		handler := func(context.Context, any) (any, error) { return nil, nil }
		return testing.AllocsPerRun(100, func() {
			if _, err := intercept(context.Background(), nil, info, handler); err != nil {
				t.Fatal(err)
			}
		})
	}
	plain := cost(nil)
	chosen := cost(func(context.Context, string) ratelimit.Limits { return limits })
	t.Log(plain, chosen)
	assert.LessOrEqual(t, chosen, plain+1)
}
