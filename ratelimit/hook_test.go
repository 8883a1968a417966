package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// deciderFunc decides without a server.
type deciderFunc func(key string, limits Limits) (Result, error)

func (f deciderFunc) Decide(_ context.Context, key string, limits Limits, _ ...LimitOption) (Result, error) {
	return f(key, limits)
}

func TestObserversLearnOfEachDecisionInTheirOrder(t *testing.T) {
	t.Parallel()
	limits := Limits{Rate(5, time.Second), Fixed(1000, day).Named("daily")}
	want, wantErr := Result{Rule: 1, Remaining: 7, By: FromCache}, error(nil)
	var seen []Decision
	var order []string
	observed := Observed(
		deciderFunc(func(string, Limits) (Result, error) { time.Sleep(time.Millisecond); return want, wantErr }),
		func(_ context.Context, d Decision) { seen, order = append(seen, d), append(order, "first") },
		func(context.Context, Decision) { order = append(order, "second") },
	)
	began := time.Now()
	got, err := observed.Decide(t.Context(), "k", limits)
	took := time.Since(began)
	assert.Equal(t, want, got)
	require.NoError(t, err)
	require.Len(t, seen, 1)
	d := seen[0]
	assert.GreaterOrEqual(t, d.Duration, time.Millisecond)
	assert.LessOrEqual(t, d.Duration, took)
	d.Duration = 0
	assert.Equal(t, Decision{Key: "k", Limits: limits, Result: want}, d)
	assert.Equal(t, []string{"first", "second"}, order)

	want, wantErr = Result{}, io.EOF
	_, err = observed.Decide(t.Context(), "k", limits)
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, Outage, seen[1].Outcome())
}

func TestObservedAllocatesNothing(t *testing.T) {
	limits := Limits{Rate(5, time.Second)}
	var policy string
	observed := Observed(
		deciderFunc(func(string, Limits) (Result, error) { return Result{Limited: true}, nil }),
		func(_ context.Context, d Decision) { policy = d.Policy() + d.Outcome().String()[:0] },
	)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = observed.Decide(context.Background(), "k", limits) }))
	assert.Equal(t, "default", policy)
}

func TestOutcomeAndPolicyOfADecision(t *testing.T) {
	t.Parallel()
	one := Limits{Rate(5, time.Second)}
	two := Limits{Rate(5, time.Second), Fixed(1000, day).Named("daily")}
	for _, c := range []struct {
		d       Decision
		outcome string
		policy  string
	}{
		{Decision{Limits: one}, "allowed", "default"},
		{Decision{Limits: two}, "allowed", "limit-1"},
		{Decision{Limits: two, Result: Result{Limited: true, Rule: 1}}, "limited", "daily"},
		{Decision{Limits: two, Result: Result{Limited: true, Banned: true}}, "limited", ""},
		{Decision{Limits: two, Result: Result{By: FromPolicy}}, "allowed", ""},
		{Decision{Limits: one, Err: fmt.Errorf("wrapped: %w", io.EOF)}, "outage", ""},
		{Decision{Limits: one, Err: fmt.Errorf("wrapped: %w", context.Canceled)}, "cancelled", ""},
		{Decision{Limits: one, Err: errors.New("WRONGTYPE")}, "error", ""},
	} {
		assert.Equal(t, c.outcome, c.d.Outcome().String(), "%+v", c.d)
		assert.Equal(t, c.policy, c.d.Policy(), "%+v", c.d)
	}
	assert.Equal(t, "unknown", Outcome(99).String())
}

func TestABannedKeyHasNothingLeftOfAnyLimit(t *testing.T) {
	t.Parallel()
	m := Middleware{
		Limiter: deciderFunc(func(string, Limits) (Result, error) {
			return Result{Limited: true, Banned: true, Limit: 5, RetryAfter: 90 * time.Second, ResetAfter: 90 * time.Second}, nil
		}),
		Limits:     Limits{Rate(5, time.Second), Fixed(1000, day).Named("daily")},
		Key:        func(*http.Request) string { return "k" },
		XRateLimit: XRateLimitSeconds,
	}
	w := httptest.NewRecorder()
	m.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, 429, w.Code)
	assert.Equal(t, `"limit-1";r=0;t=90, "daily";r=0;t=90`, w.Header().Get("RateLimit"))
	assert.Equal(t, "90", w.Header().Get("Retry-After"))
	assert.Equal(t, "0", w.Header().Get("X-RateLimit-Remaining"))
	assert.JSONEq(t, `{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
		"title":"Abnormal Usage Detected","status":429}`, w.Body.String())
}

// A limit that is only tried out is none for clients.
func TestShadowsAreNotTold(t *testing.T) {
	t.Parallel()
	limits := Limits{Rate(5, time.Second).Shadow(), Fixed(1000, day).Named("daily")}
	policies, err := policiesOf(limits)
	require.NoError(t, err)
	h := http.Header{}
	result := Result{Rule: 1, Remaining: 7, Shadowed: true}
	setHeader(h, policies, result, nil)
	assert.Equal(t, http.Header{"Ratelimit-Policy": {`"daily";q=1000;w=86400`}, "Ratelimit": {`"daily";r=7`}}, h)
	assert.Equal(t, "limit-1", Decision{Limits: limits, Result: result}.Shadowed())
	assert.Empty(t, Decision{Limits: limits, Result: Result{Rule: 1}}.Shadowed())

	policies, err = policiesOf(limits[:1])
	require.NoError(t, err)
	h = http.Header{}
	setHeader(h, policies, Result{}, nil)
	assert.Empty(t, h)
}

// A decision that asked no limit has no fields of one.
func TestADecisionByPolicyHasNoFields(t *testing.T) {
	t.Parallel()
	for _, limited := range []bool{false, true} {
		m := Middleware{
			Limiter: deciderFunc(func(string, Limits) (Result, error) { return Result{Limited: limited, By: FromPolicy}, nil }),
			Limits:  Limits{Rate(5, time.Second)},
			Key:     func(*http.Request) string { return "k" },
		}
		w := httptest.NewRecorder()
		m.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Empty(t, w.Header().Get("RateLimit"))
		assert.Empty(t, w.Header().Get("RateLimit-Policy"))
		assert.Equal(t, map[bool]int{false: 404, true: 503}[limited], w.Code)
		assert.Equal(t, map[bool]string{false: "", true: "1"}[limited], w.Header().Get("Retry-After"))
	}
}

func TestXRateLimitFields(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 500_000_000)
	result := Result{Limit: 10, Remaining: 4, ResetAfter: 6100 * time.Millisecond}
	h := http.Header{}
	fields := func() []string {
		return []string{h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset")}
	}
	setXRateLimit(h, NoXRateLimit, result, now)
	assert.Empty(t, h)
	setXRateLimit(h, XRateLimitSeconds, result, now)
	assert.Equal(t, []string{"10", "4", "7"}, fields())
	// Of nested limits there is room for one.
	setXRateLimit(h, XRateLimitSeconds, Result{Limit: 100, Remaining: 5}, now)
	assert.Equal(t, []string{"10", "4", "7"}, fields(), "the outer one has fewer units left")
	setXRateLimit(h, XRateLimitUnix, Result{Limit: 7, Remaining: 3, ResetAfter: 6100 * time.Millisecond}, now)
	assert.Equal(t, []string{"7", "3", "1700000007"}, fields(), "the inner one has fewer units left")
	setXRateLimit(h, XRateLimitUnix, Result{Limited: true, Limit: 8, Remaining: 5, ResetAfter: 6500 * time.Millisecond}, now)
	assert.Equal(t, []string{"8", "5", "1700000007"}, fields(), "the inner one denied the request")
}
