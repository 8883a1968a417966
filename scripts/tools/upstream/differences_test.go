package upstream_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// example is one of a difference: requests, and the last answers. Each descriptor of a request is "KEY=VALUE" with the
// units that it takes.
type example struct {
	requests              []*pb.RateLimitRequest
	at                    time.Time
	theirs, ours, compats string // compats are ours with compat: true; "" is not asked
}

const differing = `descriptors:
- {key: few, rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: many, rate_limit: {unit: hour, requests_per_unit: 9}}
- {key: monthly, rate_limit: {unit: month, requests_per_unit: 9}}
- {key: weekly, rate_limit: {unit: week, requests_per_unit: 9}}
- {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: wild, value: "a*b", rate_limit: {unit: hour, requests_per_unit: 9}}
- {key: net, value: 10.0.0.0/8, rate_limit: {unit: hour, requests_per_unit: 9}}
`

// elsewhere are the rows that are not about the answer to a request.
var elsewhere = map[string]string{
	"`Retry-After`":                                    "TestAStatusShowsTheLimit",
	"bytes that are not UTF-8":                         "TestWhateverAClientSendsIsLimited",
	"`is_negative_hits` of a descriptor":               "TestNegativeHitsAreGivenBack",
	"`unit_multiplier` of a limit in the request":      "TestALimitOfARequestIsForSeveralUnits",
	"Redis is out of reach at the start":               "TestHealthFollowsRedisWithoutTraffic",
	"SIGHUP":                                           "TestSIGHUPReadsTheFiles",
	"`RateLimit-Reset` of a request that never passes": "TestWhatNeverPassesIsToldNoTime",
	"`GRPC_CLIENT_TLS_CACERT`, `REDIS_TLS_CACERT`, `CONFIG_GRPC_XDS_SERVER_TLS_CACERT`": "TestRedisIsReachedByTLS",
	"`REDIS_TLS_CACERT` and the like without TLS":                                       "settings",
	"metric `within_limit`":                             "metrics",
	"metrics of values":                                 "metrics",
	"more than 128 descriptors in a request":            "TestDescriptorsAreBounded",
	"`REDIS_TIMEOUT`":                                   "settings",
	"`DEBUG_HOST`, `USE_PROMETHEUS`":                    "settings",
	"a second YAML document, a key that is there twice": "TestMistakesAreToldWithTheirPlace",
	"memcached, `REDIS_PERSECOND`, statsd":              "settings",
	"xDS, before the first configuration":               "TestAManagementServerConfiguresTheGateway",
	"xDS, a refused configuration that comes again":     "TestAManagementServerHearsOfMistakes",
	"`XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES`":                "TestLargeConfigurations",
}

// Each row of what differs has an example here, or is about something else.
func TestEachDifferenceIsARowOfThePage(t *testing.T) {
	few, many := "few=x", "many=x"
	limited := func(hits uint32, descriptor string, limit uint32) *pb.RateLimitRequest {
		r := request(hits, descriptor)
		r.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: limit, Unit: types.RateLimitUnit_HOUR}
		return r
	}
	january := time.Date(2026, 1, 31, 23, 59, 0, 0, time.UTC)
	sunday := time.Date(2026, 2, 1, 23, 59, 0, 0, time.UTC)
	examples := map[string]example{
		"one of several descriptors denies": {
			requests: []*pb.RateLimitRequest{request(3, few, many), request(0, many)},
			theirs:   "OK | 5 of 9 in 3600s", ours: "OK | 8 of 9 in 3600s", compats: "OK | 5 of 9 in 3600s",
		},
		"a request takes more than is left": {
			requests: []*pb.RateLimitRequest{request(3, few), request(0, few)},
			theirs:   "OVER_LIMIT | 0 of 2 in 3600s!", ours: "OK | 1 of 2 in 3600s", compats: "OVER_LIMIT | 0 of 2 in 3600s!",
		},
		"tokens that are charged after a response": {
			requests: []*pb.RateLimitRequest{request(0, few), request(7, few), request(0, few)},
			theirs:   "OVER_LIMIT | 0 of 2 in 3600s!", ours: "OK | 0 of 2 in 3600s", compats: "OVER_LIMIT | 0 of 2 in 3600s!",
		},
		hitsZero: {
			requests: []*pb.RateLimitRequest{request(2, few), nothing(few)},
			theirs:   "OK | 0 of 2 in 3600s", ours: "OVER_LIMIT | 0 of 2 in 3600s!", compats: "OVER_LIMIT | 0 of 2 in 3600s!",
		},
		"month, year": {
			requests: []*pb.RateLimitRequest{request(0, "monthly=x")}, at: january,
			theirs: "OK | 8 of 9 in 432060s", ours: "OK | 8 of 9 in 60s", compats: "OK | 8 of 9 in 60s",
		},
		"week": {
			requests: []*pb.RateLimitRequest{request(0, "weekly=x")}, at: sunday,
			theirs: "OK | 8 of 9 in 259260s", ours: "OK | 8 of 9 in 60s", compats: "OK | 8 of 9 in 60s",
		},
		durationUntilReset: {
			requests: []*pb.RateLimitRequest{nothing(many)},
			theirs:   "OK | 9 of 9 in 3600s", ours: "OK | 9 of 9 in 0s", compats: "OK | 9 of 9 in 0s",
		},
		"status of a descriptor that has room while another denies": {
			requests: []*pb.RateLimitRequest{request(3, few, many)},
			theirs:   "OVER_LIMIT | 0 of 2 in 3600s! | 6 of 9 in 3600s", ours: "OVER_LIMIT | 0 of 2 in 3600s! | 9 of 9 in 0s",
		},
		"`quota_mode`": {
			requests: []*pb.RateLimitRequest{request(0, "quota=x"), request(0, "quota=x")},
			theirs:   "OK | 0 of 1 in 0s", ours: "OVER_LIMIT | 0 of 1 in 3600s!", compats: "OVER_LIMIT | 0 of 1 in 3600s!",
		},
		"a value with `*` before its end": {
			requests: []*pb.RateLimitRequest{request(0, "wild=axb")},
			theirs:   "OK | 0", ours: "OK | 8 of 9 in 3600s",
		},
		"a value that is a network": {
			requests: []*pb.RateLimitRequest{request(0, "net=10.1.2.3")},
			theirs:   "OK | 0", ours: "OK | 8 of 9 in 3600s",
		},
		"the same descriptor twice": {
			requests: []*pb.RateLimitRequest{request(0, few), request(0, few, few)},
			theirs:   "OVER_LIMIT | 0 of 2 in 3600s | 0 of 2 in 3600s!", ours: "OVER_LIMIT | 0 of 2 in 3600s! | 0 of 2 in 3600s!",
		},
		"a limit in the request": {
			requests: []*pb.RateLimitRequest{request(0, "few=y"), limited(0, "few=y", 2)},
			theirs:   "OK | 0 of 2 in 3600s", ours: "OK | 1 of 2 in 3600s",
		},
		"a limit that is raised": {
			requests: []*pb.RateLimitRequest{limited(7, "own=x", 2), limited(0, "own=x", 10)},
			theirs:   "OK | 2 of 10 in 3600s", ours: "OK | 9 of 10 in 3600s", compats: "OK | 7 of 10 in 3600s",
		},
	}
	for row, e := range examples {
		t.Run(strings.Map(plain, row), func(t *testing.T) {
			b := start(t, file{"all", "", differing}, file{"each", "compat: true\n", differing})
			if !e.at.IsZero() {
				b.set(e.at)
			}
			for _, domain := range []string{"all", "each"} {
				var mine, theirs *pb.RateLimitResponse
				for _, r := range e.requests {
					r.Domain = domain
					mine, theirs = b.ask(r, r)
				}
				assert.Equal(t, e.theirs, short(theirs))
				want := e.ours
				if domain == "each" {
					want = e.compats
				}
				if want != "" {
					assert.Equal(t, want, short(mine), domain)
				}
			}
		})
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "envoyproxy-ratelimit.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "What changes with ")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "## ")
	rows := map[string]bool{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, " | "); len(cells) == 3 && cells[0] != "|" {
			row := strings.TrimPrefix(cells[0], "| ")
			rows[row] = true
			_, shown := examples[row]
			assert.True(t, shown || elsewhere[row] != "", "%q has no example", row)
		}
	}
	for row := range examples {
		assert.True(t, rows[row], "%q is no row of docs/envoyproxy-ratelimit.md", row)
	}
}

func plain(r rune) rune {
	if r >= 'a' && r <= 'z' {
		return r
	}
	return '_'
}

// short is shown without the units and names of limits.
func short(r *pb.RateLimitResponse) string {
	text := shown(r)
	for _, s := range r.Statuses {
		if s.CurrentLimit != nil {
			text = strings.Replace(text, "/"+s.CurrentLimit.Unit.String()+` ""`, "", 1)
		}
	}
	return text
}

func request(hits uint32, descriptors ...string) *pb.RateLimitRequest {
	r := &pb.RateLimitRequest{HitsAddend: hits}
	for _, text := range descriptors {
		key, value, _ := strings.Cut(text, "=")
		r.Descriptors = append(r.Descriptors, &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: value}}})
	}
	return r
}

// nothing is a request that takes no units.
func nothing(descriptor string) *pb.RateLimitRequest {
	r := request(0, descriptor)
	r.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
	return r
}
