package httplimit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
)

func TestXRateLimitFields(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 500_000_000)
	result := ratelimit.Result{Limit: 10, Remaining: 4, ResetAfter: 6100 * time.Millisecond}
	h := http.Header{}
	fields := func() []string {
		return []string{h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset")}
	}
	setXRateLimit(h, NoXRateLimit, &result, now)
	assert.Empty(t, h)
	setXRateLimit(h, XRateLimitSeconds, &result, now)
	assert.Equal(t, []string{"10", "4", "7"}, fields())
	// Of nested limits there is room for one.
	setXRateLimit(h, XRateLimitSeconds, &ratelimit.Result{Limit: 100, Remaining: 5}, now)
	assert.Equal(t, []string{"10", "4", "7"}, fields(), "the outer one has fewer units left")
	setXRateLimit(h, XRateLimitUnix, &ratelimit.Result{Limit: 7, Remaining: 3, ResetAfter: 6100 * time.Millisecond}, now)
	assert.Equal(t, []string{"7", "3", "1700000007"}, fields(), "the inner one has fewer units left")
	setXRateLimit(h, XRateLimitUnix, &ratelimit.Result{Limited: true, Limit: 8, Remaining: 5, ResetAfter: 6500 * time.Millisecond}, now)
	assert.Equal(t, []string{"8", "5", "1700000007"}, fields(), "the inner one denied the request")
}

// A shadow denies nobody, so clients are not told that nothing is left of it.
func TestClientsAreNotToldOfAShadow(t *testing.T) {
	t.Parallel()
	result := ratelimit.Result{Limit: 5, By: "server"}
	middleware := New(decided{&result}, Options{
		Limits: ratelimit.Limits{ratelimit.Rate(5, time.Minute).Shadow(), ratelimit.Rate(9, time.Minute)}, XRateLimit: XRateLimitSeconds,
		Key: func(*http.Request) string { return "k" },
	})(http.NotFoundHandler())
	for _, c := range []struct {
		rule      int
		banned    bool
		remaining string
	}{{0, false, ""}, {1, false, "0"}, {0, true, "0"}} {
		result.Rule, result.Banned, result.Limited = c.rule, c.banned, c.banned
		w := httptest.NewRecorder()
		middleware.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Equal(t, c.remaining, w.Header().Get("X-RateLimit-Remaining"))
		assert.NotContains(t, w.Header().Get("RateLimit"), "limit-1")
	}
}

// decided decides all calls in the same way.
type decided struct{ result *ratelimit.Result }

func (d decided) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return *d.result, nil
}
