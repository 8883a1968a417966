package observed_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/observed"
)

const day = 24 * time.Hour

// deciderFunc decides without a server.
type deciderFunc func(key string, limits ratelimit.Limits) (ratelimit.Result, error)

func (f deciderFunc) Decide(_ context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	return f(c.Keys[0].Name, c.Keys[0].Limits)
}

// on is a call on a key.
func on(limits ratelimit.Limits) ratelimit.Call {
	return ratelimit.Call{Keys: []ratelimit.Key{{Name: "k", Limits: limits}}, Cost: 1}
}

func TestObserversLearnOfEachDecisionInTheirOrder(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(5, time.Second), ratelimit.Fixed(1000, day).Named("daily")}
	want, wantErr := ratelimit.Result{Rule: 1, Remaining: 7, By: "cache"}, error(nil)
	var seen []observed.Decision
	var order []string
	decider := observed.New(
		deciderFunc(func(string, ratelimit.Limits) (ratelimit.Result, error) {
			time.Sleep(time.Millisecond)
			return want, wantErr
		}),
		func(_ context.Context, d observed.Decision) { seen, order = append(seen, d), append(order, "first") },
		func(context.Context, observed.Decision) { order = append(order, "second") },
	)
	began := time.Now()
	got, err := decider.Decide(t.Context(), on(limits))
	took := time.Since(began)
	assert.Equal(t, want, got)
	require.NoError(t, err)
	require.Len(t, seen, 1)
	d := seen[0]
	assert.GreaterOrEqual(t, d.Duration, time.Millisecond)
	assert.LessOrEqual(t, d.Duration, took)
	d.Duration = 0
	assert.Equal(t, observed.Decision{Call: on(limits), Result: want}, d)
	assert.Equal(t, []string{"first", "second"}, order)

	want, wantErr = ratelimit.Result{}, io.EOF
	_, err = decider.Decide(t.Context(), on(limits))
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, observed.Outage, seen[1].Outcome())
}

func TestObservedAllocatesNothing(t *testing.T) {
	limits := ratelimit.Limits{ratelimit.Rate(5, time.Second)}
	call := on(limits)
	var policy string
	decider := observed.New(
		deciderFunc(func(string, ratelimit.Limits) (ratelimit.Result, error) { return ratelimit.Result{Limited: true}, nil }),
		func(_ context.Context, d observed.Decision) { policy = d.Policy() + d.Outcome().String()[:0] },
	)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = decider.Decide(context.Background(), call) }))
	assert.Equal(t, "default", policy)
}

func TestOutcomeAndPolicyOfADecision(t *testing.T) {
	t.Parallel()
	one := ratelimit.Limits{ratelimit.Rate(5, time.Second)}
	two := ratelimit.Limits{ratelimit.Rate(5, time.Second), ratelimit.Fixed(1000, day).Named("daily")}
	api := ratelimit.Policy("api", one...)
	for _, c := range []struct {
		d       observed.Decision
		outcome string
		policy  string
	}{
		{observed.Decision{Call: on(one)}, "allowed", "default"},
		{observed.Decision{Call: on(two)}, "allowed", "limit-1"},
		{observed.Decision{Call: on(two), Result: ratelimit.Result{Limited: true, Rule: 1}}, "limited", "daily"},
		{observed.Decision{Call: on(two), Result: ratelimit.Result{Limited: true, Banned: true}}, "limited", ""},
		{observed.Decision{Call: on(two), Result: ratelimit.Result{By: "policy"}}, "allowed", ""},
		{observed.Decision{Call: on(api)}, "allowed", "api"},
		{observed.Decision{Call: on(api), Result: ratelimit.Result{By: "none", Policies: []ratelimit.Applied{{Name: "api", Field: "api"}}}}, "allowed", ""},
		{observed.Decision{Call: on(api), Result: ratelimit.Result{Rule: 1,
			Policies: []ratelimit.Applied{{Name: "api", Field: "api", Limits: ratelimit.Policy("api", two...)}}}}, "allowed", "daily"},
		{observed.Decision{Call: on(api), Result: ratelimit.Result{Policies: []ratelimit.Applied{{Name: "api", Field: "api",
			Limits: ratelimit.Policy("api", two...)}}}}, "allowed", "api-1"},
		{observed.Decision{Call: on(two), Result: ratelimit.Result{Rule: 1, Policies: []ratelimit.Applied{{}}}}, "allowed", "daily"},
		{observed.Decision{Call: on(one), Err: fmt.Errorf("wrapped: %w", io.EOF)}, "outage", ""},
		{observed.Decision{Call: on(one), Err: fmt.Errorf("wrapped: %w", context.Canceled)}, "cancelled", ""},
		{observed.Decision{Call: on(one), Err: errors.New("WRONGTYPE")}, "error", ""},
	} {
		assert.Equal(t, c.outcome, c.d.Outcome().String(), "%+v", c.d)
		assert.Equal(t, c.policy, c.d.Policy(), "%+v", c.d)
	}
	assert.Equal(t, "unknown", observed.Outcome(99).String())
}

// A limit that is only tried out is told of as such.
func TestShadowedIsTheNameOfTheLimit(t *testing.T) {
	t.Parallel()
	call := on(ratelimit.Limits{ratelimit.Rate(5, time.Second).Shadow(), ratelimit.Fixed(1000, day).Named("daily")})
	assert.Equal(t, "limit-1", observed.Decision{Call: call, Result: ratelimit.Result{Rule: 1, Shadowed: true}}.Shadowed())
	assert.Empty(t, observed.Decision{Call: call, Result: ratelimit.Result{Rule: 1}}.Shadowed())
}

// A program that forgets an argument is told when it starts, not by the first request.
func TestObserversAreNotNil(t *testing.T) {
	t.Parallel()
	assert.Panics(t, func() { observed.New(nil) })
	assert.Panics(t, func() { observed.New(deciderFunc(nil), nil) })
}
