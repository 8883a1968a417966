package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Rules are lines as envoyproxy/ratelimit writes them. What its files cannot say stands behind that, and a line stays
// one line.
func TestRulesAreDumpedByLine(t *testing.T) {
	t.Parallel()
	c, err := load(t, false, `
domain: web
descriptors:
- {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: user, value: "a*", shadow_mode: true, rate_limit: {unit: week, requests_per_unit: 6}}
- {key: free, rate_limit: {unlimited: true}}
- {key: none}
- {key: "two\nlines", quota_mode: true, rate_limit: {unit: year, requests_per_unit: 0}}
- key: path
  value: /a
  descriptors:
  - {key: user, policy: api, limits: [RATE 10/m BURST 5, FIXED 9/d SHADOW BAN 1h AFTER 3/h]}
`)
	require.NoError(t, err)
	var b strings.Builder
	c.Dump(&b)
	assert.Equal(t, `web.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false, limits: unlimited
web.path_/a.user: unit=MINUTE requests_per_unit=10, shadow_mode: false, quota_mode: false, limits: RATE 10/1m BURST 5; FIXED 9/1d SHADOW, ban: BAN 1h0m0s AFTER 3/h, policy: api
web.two_lines: unit=YEAR requests_per_unit=0, shadow_mode: false, quota_mode: true
web.user: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false
web.user_a*: unit=WEEK requests_per_unit=6, shadow_mode: true, quota_mode: false
`, b.String())
}
