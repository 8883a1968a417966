package httplimit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/policies"
)

// full is a Decider that limits every call by its last limit.
type full struct{}

func (full) Decide(_ context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{By: "server", Limited: true, Limit: 7, Key: call.Keys[0].Name, Rule: len(call.Keys[0].Limits) - 1,
		RetryAfter: time.Second, NextAfter: time.Second}, nil
}

// Header fields and problems are those of the limits in force. A policy that lets everything through has none.
func TestFieldsTellOfTheLimitsInForce(t *testing.T) {
	t.Parallel()
	hash := map[string]string{"api/a": "RATE 7/m NAME minute FIXED 9/d", "api/free": "NONE"}
	decider := policies.New(full{}, nil, policies.Options{Read: func(context.Context) (map[string]string, error) { return hash, nil }})
	require.NoError(t, decider.Reader().Read(t.Context()))
	limits := ratelimit.Policy("api", ratelimit.Rate(100, time.Minute))
	handler := New(decider, Options{Limits: limits, Key: func(r *http.Request) string { return r.Header.Get("User") },
		XRateLimit: XRateLimitSeconds})(http.NotFoundHandler())
	for user, want := range map[string]struct {
		status          int
		policy, problem string
	}{
		"a":    {429, `"minute";q=7;w=60, "api-2";q=9;w=86400`, `"violated-policies":["api-2"]`},
		"b":    {429, `"api";q=100;w=60`, `"violated-policies":["api"]`},
		"free": {404, "", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("User", user)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		assert.Equal(t, want.status, w.Code, user)
		assert.Equal(t, want.policy, w.Header().Get("RateLimit-Policy"), user)
		assert.Equal(t, want.policy == "", w.Header().Get("RateLimit") == "" && w.Header().Get("X-RateLimit-Limit") == "", user)
		assert.Contains(t, w.Body.String(), want.problem)

		// The same for programs that answer by themselves.
		own, err := NewPolicies(limits)
		require.NoError(t, err)
		result, err := ratelimit.With(decider).Limit(t.Context(), user, limits, 1)
		require.NoError(t, err)
		w = httptest.NewRecorder()
		SetFields(w.Header(), []*Policies{own}, result)
		WriteProblem(w, http.StatusTooManyRequests, []*Policies{own}, result)
		assert.Equal(t, want.policy, w.Header().Get("RateLimit-Policy"), user)
		assert.Contains(t, w.Body.String(), want.problem)
	}
}
