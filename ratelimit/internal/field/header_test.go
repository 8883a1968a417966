package field

import (
	"flag"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/about"
)

const day = 24 * time.Hour

// set writes the fields of a response as httplimit does.
func set(h http.Header, p *Policies, result ratelimit.Result, key []byte) {
	p.AddPolicy(h, Partition(key))
	p.AddLimit(h, &result, Partition(key))
	if result.Limited && result.RetryAfter != ratelimit.Never {
		SetRetryAfter(h, result.RetryAfter)
	}
}

// What spec/clients/fields.json does not say.
func TestPolicyIsWhatComesBackWhileAFullLimitRefills(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit ratelimit.Limit
		want  string
	}{
		{ratelimit.Window(30, time.Minute), `"default";q=30;w=60`},
		{ratelimit.Rate(5, time.Second).Burst(10), `"default";q=10;w=2`},
		{ratelimit.Rate(60, time.Minute).Burst(10), `"default";q=10;w=10`},
		// A window has whole seconds: the quota is then what a longer one brings.
		{ratelimit.Rate(100, time.Second).Burst(10), `"default";q=100;w=1`},
		{ratelimit.Rate(10, 100*time.Millisecond), `"default";q=100;w=1`},
		{ratelimit.Window(10, 1500*time.Millisecond), `"default";q=13;w=2`},
		{ratelimit.Rate(1, day).Burst(1_000_000_000_000_000_000), `"default";q=11574074074;w=999999999999999`},
		{ratelimit.Rate(1_000_000_000_000_000_000, day), `"default";q=999999999999999;w=86400`},
		{ratelimit.Rate(1, 250*time.Microsecond), `"default";q=4000;w=1`},
		// Months and years as long as they are on average.
		{ratelimit.FixedWeeks(10, 2), `"default";q=10;w=1209600`},
		{ratelimit.FixedMonths(100, 1), `"default";q=100;w=2629746`},
		{ratelimit.FixedYears(100, 1).Zone("Europe/Berlin"), `"default";q=100;w=31556952`},
		{ratelimit.FixedYears(1, 292), `"default";q=1;w=9214629984`},
	} {
		policies, err := policiesOf(ratelimit.Limits{c.limit})
		require.NoError(t, err)
		assert.Equal(t, c.want, policies.list, "%v", c.limit)
	}
}

func TestMoreThanAFieldCanHold(t *testing.T) {
	t.Parallel()
	policies, err := policiesOf(ratelimit.Limits{ratelimit.Rate(5, time.Hour)})
	require.NoError(t, err)
	h := http.Header{}
	set(h, policies, ratelimit.Result{Remaining: 1 << 62}, nil)
	assert.Equal(t, `"default";r=999999999999999`, h.Get("RateLimit"))
}

func init() { _ = flag.Set("rapid.nofailfile", "true") }

// The draft: both are lists of strings with parameters of these types, w is at least 1,
// and Retry-After does not come before the end of t.
func TestFieldsAreWhatTheDraftDemands(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		count := rapid.Int64Range(1, 1<<62).Draw(r, "count")
		period := time.Duration(rapid.Int64Range(1, 1<<40).Draw(r, "ms")) * time.Millisecond
		// A full bucket that takes more than 292 years to refill is none for the server.
		most := int64(min(float64(1<<62)/float64(period)*float64(count), 1<<62))
		limit := rapid.SampledFrom([]ratelimit.Limit{ratelimit.Rate(count, period), ratelimit.Window(count, period), ratelimit.Fixed(count, period),
			ratelimit.Rate(count, period).Burst(rapid.Int64Range(1, max(most, 1)).Draw(r, "burst"))}).Draw(r, "limit")
		limit = limit.Named(rapid.StringMatching(`[ -~]+`).Draw(r, "name"))
		policies, err := policiesOf(ratelimit.Limits{limit})
		require.NoError(r, err)
		next := time.Duration(rapid.Int64Range(0, 1<<62).Draw(r, "next"))
		result := ratelimit.Result{
			Limited:    rapid.Bool().Draw(r, "limited"),
			Remaining:  rapid.Int64Range(0, about.Of(&limit).Capacity).Draw(r, "remaining"),
			NextAfter:  next,
			RetryAfter: next + time.Duration(rapid.Int64Range(1, 1<<61).Draw(r, "retry")),
		}
		h := http.Header{}
		set(h, policies, result, []byte("key"))

		policy := parseItem(r, h.Get("RateLimit-Policy"))
		assert.Equal(r, about.Of(&limit).Name, policy.Value)
		assert.Equal(r, []string{"q", "w", "pk"}, policy.Params.Names())
		assert.GreaterOrEqual(r, integer(r, policy, "q"), min(about.Of(&limit).Capacity, maxInteger))
		assert.GreaterOrEqual(r, integer(r, policy, "w"), int64(1))

		service := parseItem(r, h.Get("RateLimit"))
		assert.Equal(r, about.Of(&limit).Name, service.Value)
		assert.LessOrEqual(r, integer(r, service, "r"), integer(r, policy, "q"))
		if next > 0 {
			assert.GreaterOrEqual(r, time.Duration(integer(r, service, "t")), next/time.Second)
		}
		if result.Limited {
			retryAfter, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
			require.NoError(r, err)
			if next > 0 {
				assert.GreaterOrEqual(r, retryAfter, integer(r, service, "t"))
			}
		}
	})
}

func parseItem(t require.TestingT, text string) httpsfv.Item {
	list, err := httpsfv.UnmarshalList([]string{text})
	require.NoError(t, err, text)
	require.Len(t, list, 1, text)
	return list[0].(httpsfv.Item)
}

func integer(t require.TestingT, item httpsfv.Item, name string) int64 {
	value, ok := item.Params.Get(name)
	require.True(t, ok, name)
	require.IsType(t, int64(0), value, name)
	require.GreaterOrEqual(t, value, int64(0), name)
	return value.(int64)
}
