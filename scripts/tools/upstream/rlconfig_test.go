package upstream_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What /rlconfig prints of files of upstream is what upstream prints, whose order is any.
func TestRlconfigIsThatOfUpstream(t *testing.T) {
	b := start(t, file{domain: "one", descriptors: `descriptors:
- {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: user, value: "a*", shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 4294967295, name: a}}
- {key: none}
- key: path
  value: /a
  quota_mode: true
  rate_limit: {unit: day, requests_per_unit: 0}
  descriptors:
  - {key: user, detailed_metric: true, rate_limit: {unit: week, requests_per_unit: 7}}
`}, file{domain: "two", descriptors: "descriptors:\n- {key: user, rate_limit: {unit: year, requests_per_unit: 5}}\n"})
	response, err := http.Get("http://" + b.debug + "/rlconfig")
	require.NoError(t, err)
	defer response.Body.Close()
	printed, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	upstreams := slices.Sorted(strings.Lines(b.config.Dump()))
	assert.Equal(t, upstreams, slices.Sorted(strings.Lines(string(printed))))
	assert.Len(t, upstreams, 5)
}
