package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
)

// The header fields are in spec/clients/fields.json.
func TestTheDocumentOfADeniedRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		result ratelimit.Result
		want   string
	}{
		{ratelimit.Result{Limited: true, Rule: 1, RetryAfter: time.Second}, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
			"title":"Quota Exceeded","status":429,"violated-policies":["daily"]}`},
		{ratelimit.Result{Limited: true, Banned: true, RetryAfter: time.Second}, `{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
			"title":"Abnormal Usage Detected","status":429}`},
	} {
		m := httplimit.New(deciderFunc(func(string, ratelimit.Limits) (ratelimit.Result, error) { return c.result, nil }), httplimit.Options{
			Limits: ratelimit.Limits{ratelimit.Rate(5, time.Second), ratelimit.Fixed(1000, day).Named("daily")},
			Key:    func(*http.Request) string { return "k" },
		})
		w := httptest.NewRecorder()
		m(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Equal(t, 429, w.Code)
		assert.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		assert.JSONEq(t, c.want, w.Body.String())
	}
}

func TestRetryAfterOfAnOutage(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]string{0: "1", time.Minute: "60", 1500 * time.Millisecond: "2", -1: ""} {
		m := httplimit.New(failing{io.EOF}, httplimit.Options{
			Limits: ratelimit.Limits{ratelimit.Rate(1, day)}, Key: func(*http.Request) string { return "k" },
			Failures: httplimit.Failures{Outage: httplimit.Deny, RetryAfter: after, OnError: func(*http.Request, error) {}},
		})
		w := httptest.NewRecorder()
		m(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Equal(t, want, w.Header().Get("Retry-After"), after)
	}
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
