package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
)

func TestABannedKeyHasNothingLeftOfAnyLimit(t *testing.T) {
	t.Parallel()
	m := httplimit.New(deciderFunc(func(string, ratelimit.Limits) (ratelimit.Result, error) {
		return ratelimit.Result{Limited: true, Banned: true, Limit: 5, RetryAfter: 90 * time.Second, ResetAfter: 90 * time.Second}, nil
	}), httplimit.Options{
		Limits:     ratelimit.Limits{ratelimit.Rate(5, time.Second), ratelimit.Fixed(1000, day).Named("daily")},
		Key:        func(*http.Request) string { return "k" },
		XRateLimit: httplimit.XRateLimitSeconds,
	})
	w := httptest.NewRecorder()
	m(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, 429, w.Code)
	assert.Equal(t, `"limit-1";r=0;t=90, "daily";r=0;t=90`, w.Header().Get("RateLimit"))
	assert.Equal(t, "90", w.Header().Get("Retry-After"))
	assert.Equal(t, "0", w.Header().Get("X-RateLimit-Remaining"))
	assert.JSONEq(t, `{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
		"title":"Abnormal Usage Detected","status":429}`, w.Body.String())
}

// A decision that asked no limit has no fields of one.
func TestADecisionByPolicyHasNoFields(t *testing.T) {
	t.Parallel()
	for _, limited := range []bool{false, true} {
		m := httplimit.New(deciderFunc(func(string, ratelimit.Limits) (ratelimit.Result, error) {
			return ratelimit.Result{Limited: limited, By: "policy"}, nil
		}), httplimit.Options{
			Limits: ratelimit.Limits{ratelimit.Rate(5, time.Second)},
			Key:    func(*http.Request) string { return "k" },
		})
		w := httptest.NewRecorder()
		m(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Empty(t, w.Header().Get("RateLimit"))
		assert.Empty(t, w.Header().Get("RateLimit-Policy"))
		assert.Equal(t, map[bool]int{false: 404, true: 503}[limited], w.Code)
		assert.Equal(t, map[bool]string{false: "", true: "1"}[limited], w.Header().Get("Retry-After"))
	}
}
