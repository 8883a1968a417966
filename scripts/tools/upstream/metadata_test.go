package upstream_test

import (
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
)

// What filters of Envoy are told about a request is what upstream tells them, in quota mode, too.
func TestMetadataIsThatOfUpstream(t *testing.T) {
	for _, all := range []string{"false", "true"} {
		t.Run("QUOTA_MODE="+all, func(t *testing.T) {
			// Both read these when they start.
			t.Setenv("RESPONSE_DYNAMIC_METADATA", "true")
			t.Setenv("QUOTA_MODE", all)
			b := start(t, file{"d", "compat: true\n", `descriptors:
- {key: many, rate_limit: {unit: hour, requests_per_unit: 90}}
- {key: few, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: tried, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: both, quota_mode: true, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: free, quota_mode: true, rate_limit: {unlimited: true}}
`})
			limited := request(2, "many=x", "unknown=y")
			limited.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: types.RateLimitUnit_DAY}
			seen := 0
			for _, r := range []*pb.RateLimitRequest{
				request(0, "many=1"), limited, nothing("many=2"), request(0, "free=1"), request(0, "unknown=1"),
				request(0, "quota=1", "many=3"), request(0, "many=3", "quota=1"), request(0, "quota=1", "many=3", "quota=2"), request(0, "quota=1", "quota=2", "many=3"),
				request(0, "tried=1", "few=1"), request(0, "tried=1", "few=1"), request(0, "both=1"), request(0, "both=1", "free=1"),
			} {
				r.Domain = "d"
				mine, theirs := b.ask(r, r)
				want, err := protojson.Marshal(theirs.DynamicMetadata)
				require.NoError(t, err)
				got, err := protojson.Marshal(mine.DynamicMetadata)
				require.NoError(t, err)
				assert.JSONEq(t, plainly(want), plainly(got), "%v", r)
				if theirs.DynamicMetadata.Fields["quotaModeViolations"] != nil {
					seen++
				}
			}
			assert.Positive(t, seen, "no request was over a quota")
		})
	}
}

// plainly is text without the spaces that protobuf doubles in some builds, so that nobody relies on the form of its
// texts.
func plainly(text []byte) string { return strings.ReplaceAll(string(text), "  ", " ") }
