package httplimit

import (
	"net/http"
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
