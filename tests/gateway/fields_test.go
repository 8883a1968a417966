package gateway_test

import (
	"net/http"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"redis-throttle/tests/server"
)

// A descriptor whose hits are negative gives units back: also if another descriptor of the request denies, and to each
// of its limits.
func TestNegativeHitsAreGivenBack(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]string{"all or none": "", "compat": "compat: true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, server.Start(t).Addr(), own+basic)
			refund := func(descriptors ...string) *rls.RateLimitRequest {
				r := ask("shop", 0, descriptors...)
				r.Descriptors[0].IsNegativeHits = true
				return r
			}
			require.Equal(t, "OK 2", g.asks(ask("shop", 8, "user=1")))
			assert.Equal(t, "OK 7", g.asks(refund("user=1 +5")))
			assert.Equal(t, "OK 6", g.asks(ask("shop", 0, "user=1")))
			assert.Equal(t, "OK 10", g.asks(refund("user=1 +500")), "a limit gets no fuller than full")
			assert.Equal(t, "OK 0", g.asks(ask("shop", 10, "user=1")))
			assert.Equal(t, "OVER 0!", g.asks(ask("shop", 0, "user=1")))
			assert.Equal(t, "OK 1", g.asks(refund("user=1")), "one without a hits_addend")
			assert.Equal(t, "OVER 2 0!", g.asks(refund("user=1", "user=banned")))
			assert.Equal(t, "OK 1", g.asks(ask("shop", 0, "user=1")), "the denial that was remembered is forgotten")
			assert.Equal(t, "OK - 19", g.asks(refund("unknown=1", "path=/x")))
			assert.EqualValues(t, 12+8+1, g.metric("ratelimit_service_rate_limit_total_hits", `key1="user"`), "units that come back are no hits")
		})
	}
}

// A limit of a request's own has a state of its own, also by the number of units of time that it is for.
func TestARequestBringsItsOwnLimit(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic)
	request := ask("shop", 0, "user=1", "new=x")
	own := &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 2, Unit: types.RateLimitUnit_DAY}
	request.Descriptors[0].Limit = own
	for _, c := range []struct {
		units uint32 // 0 for none
		want  string
	}{{0, "OK 1 -"}, {1, "OK 0 -"}, {0, "OVER 0! -"}, {400, "OK 1 -"}, {400, "OK 0 -"}, {400, "OVER 0! -"}, {1<<32 - 1, "InvalidArgument"}} {
		if own.UnitMultiplier = nil; c.units > 0 {
			own.UnitMultiplier = wrapperspb.UInt32(c.units)
		}
		assert.Contains(t, g.asks(request), c.want, "for %d days", c.units)
	}
	own.UnitMultiplier = wrapperspb.UInt32(400)
	response, err := g.ShouldRateLimit(t.Context(), request)
	require.NoError(t, err)
	st := response.Statuses[0]
	assert.EqualValues(t, 400, st.CurrentLimit.GetUnitMultiplier().GetValue())
	assert.Greater(t, st.DurationUntilReset.AsDuration(), 24*time.Hour, "the window is longer than a day")
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")), "so has the file's limit")
	own.UnitMultiplier = wrapperspb.UInt32(0)
	assert.Contains(t, g.asks(request), "InvalidArgument")
	own.UnitMultiplier, own.Unit = nil, types.RateLimitUnit_UNKNOWN
	assert.Contains(t, g.asks(request), "InvalidArgument")
	own.RequestsPerUnit, own.Unit = 0, types.RateLimitUnit_DAY
	assert.Equal(t, "OVER 0! -", g.asks(request))

	twice := ask("shop", 0, "user=2", "user=2")
	for i, want := range []string{"OK 2 4", "OK 0 0", "OVER 0! 0!"} { // 3 and 5 a day, then 3 a day twice
		twice.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3, Unit: types.RateLimitUnit_DAY}
		twice.Descriptors[1].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: types.RateLimitUnit_DAY}
		if i > 0 {
			twice.Descriptors[1].Limit.RequestsPerUnit = 3
		}
		assert.Equal(t, want, g.asks(twice))
	}
}

// A request that never passes is told no time after which it would: neither 0, which invites it to come again at once,
// nor any other.
func TestWhatNeverPassesIsToldNoTime(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic+"- key: closed\n  limits: [RATE 0/h]\n"+`
routes:
- match: /
  descriptors: [[{key: user}]]
  cost: 11
- match: /closed
  descriptors: [[{key: closed}]]
`, "LIMIT_RESPONSE_HEADERS_ENABLED=true")
	for _, r := range []*rls.RateLimitRequest{ask("shop", 11, "user=1"), ask("shop", 0, "user=banned"), ask("shop", 0, "closed=x"), ask("shop", 0, "user=2", "closed=x")} {
		response, err := g.ShouldRateLimit(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, rls.RateLimitResponse_OVER_LIMIT, response.OverallCode, "%v", r)
		for _, h := range response.ResponseHeadersToAdd {
			assert.NotContains(t, []string{"RateLimit-Reset", "Retry-After"}, h.Key, "%v", r)
		}
		last := response.Statuses[len(response.Statuses)-1]
		assert.GreaterOrEqual(t, last.DurationUntilReset.AsDuration(), time.Hour, "Envoy makes a field of it: %v", r)
	}
	for _, path := range []string{"/check/", "/check/closed", "/check/CLOSED/"} {
		response, _ := g.get(path, nil)
		assert.Equal(t, http.StatusTooManyRequests, response.StatusCode, path)
		assert.Empty(t, response.Header.Get("Retry-After"), path)
		assert.NotContains(t, response.Header.Get("RateLimit"), "t=0", path)
	}
}
