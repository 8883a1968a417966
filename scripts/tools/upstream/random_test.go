package upstream_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/envoyproxy/ratelimit/src/limiter"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
)

// Random requests to random configurations, at instants that only go forward. With compat, every status is upstream's:
// its code, its limit, what remains and when that is reset. Without it, the rules are those that upstream finds, and
// all of them are charged, or none. What differs on purpose is corrected here, under the name of its row in
// docs/envoyproxy-ratelimit.md.
func TestAnswersAreThoseOfUpstream(t *testing.T) {
	draw := &maker{Rand: chance.New(t)}
	var files []file
	for i := range size.Of(20, 60) {
		descriptors := "descriptors:\n" + draw.descriptors(0)
		files = append(files, file{fmt.Sprintf("c%d", i), "compat: true\n", descriptors}, file{fmt.Sprintf("a%d", i), "", descriptors})
	}
	b := start(t, files...)
	stream := &stream{both: b, counts: map[string]int64{}, keys: limiter.NewCacheKeyGenerator("")}
	seen := map[string]int{}
	calls := size.Of(4_000, 20_000)
	for made := 0; made < calls || made < 10*calls && rarest(seen) == 0; made++ {
		b.set(b.now.Add(draw.pause()))
		i := draw.IntN(len(files) / 2)
		stream.compare(draw.request(files[2*i].domain), files[2*i+1].domain, seen)
	}
	t.Log(seen)
	require.Positive(t, rarest(seen), "something never came up")
}

// rarest is how often the rarest of what a run has to see has come up.
func rarest(seen map[string]int) int {
	least := math.MaxInt
	for _, what := range []string{
		"passed", "denied", "spared", "unlimited", "without a limit", "over in a shadow", "replaced", "in the request", "of a wildcard", "nothing asked", "nine keys",
		hitsZero, durationUntilReset,
	} {
		least = min(least, seen[what])
	}
	return least
}

// The rows of docs/envoyproxy-ratelimit.md that the comparison corrects.
const (
	hitsZero           = "`hits_addend: 0`"
	durationUntilReset = "`duration_until_reset`"
)

type stream struct {
	*both
	keys   limiter.CacheKeyGenerator
	counts map[string]int64 // what all or none has charged, by upstream's keys
}

// compare asks about a domain with compat, and then about its twin without.
func (s *stream) compare(request *pb.RateLimitRequest, twin string, seen map[string]int) {
	s.t.Helper()
	all := proto.CloneOf(request)
	all.Domain = twin
	rules := s.rules(request)
	if isTwice(rules) {
		return
	}
	mine, theirs := s.ask(request, request)
	if theirs.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
		seen["denied"]++
	} else {
		seen["passed"]++
	}
	want := corrected(theirs, rules, seen)
	require.Equal(s.t, shown(want), shown(mine), "%v at %v\nupstream: %s", request, s.now, shown(theirs))

	mine, theirs = s.ask(all, all)
	want = s.allOrNone(theirs, s.rules(all), seen)
	require.Equal(s.t, shown(want), shown(mine), "%v at %v\nupstream: %s", all, s.now, shown(theirs))
}

// isTwice says that descriptors are the same, which upstream counts one after the other: "the same descriptor twice".
func isTwice(rules []rule) bool {
	known := map[string]bool{}
	for i := range rules {
		if rules[i].key != "" && known[rules[i].key] {
			return true
		}
		known[rules[i].key] = true
	}
	return false
}

// rule is what upstream finds for a descriptor: a key of "" is no limit.
type rule struct {
	key              string
	hits             int64
	shadow, replaced bool
}

func (s *stream) rules(request *pb.RateLimitRequest) []rule {
	rules := make([]rule, len(request.Descriptors))
	replaced := map[string]bool{}
	for i, d := range request.Descriptors {
		if limit := s.config.GetLimit(s.t.Context(), request.Domain, d); limit != nil {
			for _, name := range limit.Replaces {
				replaced[name] = true
			}
			if limit.Unlimited {
				continue
			}
			rules[i].key, rules[i].shadow = s.keys.GenerateCacheKey(request.Domain, d, limit, s.now.Unix()).Key, limit.ShadowMode
		}
		rules[i].hits = int64(max(request.HitsAddend, 1))
		if d.HitsAddend != nil {
			rules[i].hits = int64(d.HitsAddend.Value)
		}
	}
	for i, d := range request.Descriptors {
		if limit := s.config.GetLimit(s.t.Context(), request.Domain, d); limit != nil && limit.Name != "" && replaced[limit.Name] && !limit.Unlimited {
			rules[i].key, rules[i].replaced = "", true
		}
	}
	return rules
}

// corrected is upstream's answer with what differs on purpose.
func corrected(theirs *pb.RateLimitResponse, rules []rule, seen map[string]int) *pb.RateLimitResponse {
	want := proto.CloneOf(theirs)
	for i, s := range want.Statuses {
		note(theirs.Statuses[i], &rules[i], seen)
		if rules[i].key == "" {
			continue
		}
		if rules[i].hits == 0 && s.LimitRemaining == 0 && s.Code == pb.RateLimitResponse_OK && !rules[i].shadow {
			s.Code, want.OverallCode = pb.RateLimitResponse_OVER_LIMIT, pb.RateLimitResponse_OVER_LIMIT
			seen[hitsZero]++
		}
		switch limit := s.CurrentLimit.RequestsPerUnit; {
		case s.Code == pb.RateLimitResponse_OVER_LIMIT && (limit == 0 || rules[i].hits > int64(limit)):
			s.DurationUntilReset = period(s)
			seen[durationUntilReset]++
		case s.LimitRemaining == limit: // full
			s.DurationUntilReset = nil
			seen[durationUntilReset]++
		}
	}
	return want
}

// period returns the period of a limit, which is told of a request that never passes.
func period(s *pb.RateLimitResponse_DescriptorStatus) *durationpb.Duration {
	length := map[pb.RateLimitResponse_RateLimit_Unit]time.Duration{
		pb.RateLimitResponse_RateLimit_SECOND: time.Second, pb.RateLimitResponse_RateLimit_MINUTE: time.Minute, pb.RateLimitResponse_RateLimit_HOUR: time.Hour,
		pb.RateLimitResponse_RateLimit_DAY: 24 * time.Hour, pb.RateLimitResponse_RateLimit_WEEK: 7 * 24 * time.Hour,
	}[s.CurrentLimit.Unit]
	return durationpb.New(max(length, s.DurationUntilReset.AsDuration()))
}

func note(s *pb.RateLimitResponse_DescriptorStatus, r *rule, seen map[string]int) {
	switch {
	case s.CurrentLimit == nil && s.LimitRemaining > 0:
		seen["unlimited"]++
	case s.CurrentLimit == nil:
		seen["without a limit"]++
	case r.shadow && s.LimitRemaining == 0 && r.hits > 0:
		seen["over in a shadow"]++
	case r.hits == 0:
		seen["nothing asked"]++
	}
	if r.replaced {
		seen["replaced"]++
	}
	if strings.Contains(r.key, "_own_") {
		seen["in the request"]++
	}
	if strings.Contains(r.key, "*") {
		seen["of a wildcard"]++
	}
}

// allOrNone is the answer with the rules that upstream has found, where a request charges all of them or none. Upstream
// has charged what it denied, so its numbers are left out.
func (s *stream) allOrNone(theirs *pb.RateLimitResponse, rules []rule, seen map[string]int) *pb.RateLimitResponse {
	want := proto.CloneOf(theirs)
	want.OverallCode = pb.RateLimitResponse_OK
	asked, never := map[string]bool{}, map[int]bool{}
	for i, status := range want.Statuses {
		r := &rules[i]
		status.Code = pb.RateLimitResponse_OK
		if r.key == "" {
			continue
		}
		asked[r.key] = true
		limit := int64(status.CurrentLimit.RequestsPerUnit)
		over := s.counts[r.key]+r.hits > limit || (r.hits == 0 && s.counts[r.key] == limit)
		status.LimitRemaining = uint32(limit - s.counts[r.key])
		if !over {
			continue
		}
		status.LimitRemaining = 0
		if !r.shadow && (limit == 0 || r.hits > limit) {
			status.DurationUntilReset = period(status)
			never[i] = true
		}
		if !r.shadow {
			status.Code, want.OverallCode = pb.RateLimitResponse_OVER_LIMIT, pb.RateLimitResponse_OVER_LIMIT
		}
		r.hits = 0 // a shadow that would have denied takes nothing
		r.shadow = true
	}
	if len(asked) > 8 {
		seen["nine keys"]++
	}
	for i, status := range want.Statuses {
		r := &rules[i]
		if r.key == "" {
			continue
		}
		if want.OverallCode == pb.RateLimitResponse_OK && r.hits > 0 {
			s.counts[r.key] += r.hits
			status.LimitRemaining -= uint32(r.hits)
		} else if r.hits > 0 {
			seen["spared"]++
		}
		if s.counts[r.key] == 0 && !never[i] {
			status.DurationUntilReset = nil
		}
	}
	return want
}

// maker makes configurations and requests up. There are few names, so that they meet.
type maker struct{ *rand.Rand }

func (m *maker) one(of ...string) string { return of[m.IntN(len(of))] }

func (m *maker) often(percent int) bool { return m.IntN(100) < percent }

// descriptors is the list of a level.
func (m *maker) descriptors(depth int) string {
	indent := strings.Repeat("    ", depth)
	text := ""
	for _, key := range []string{"a", "b", "c"} {
		for _, value := range []string{"", "x", "y", "x*", "*"} {
			if !m.often(45) {
				continue
			}
			text += fmt.Sprintf("%s  - key: %s\n", indent, key)
			line := func(format string, args ...any) { text += indent + "    " + fmt.Sprintf(format, args...) + "\n" }
			if value != "" {
				line("value: %q", value)
			}
			if strings.HasSuffix(value, "*") && m.often(50) {
				line("share_threshold: true")
			}
			for _, word := range []string{"detailed_metric", "value_to_metric", "shadow_mode"} {
				if m.often(15) {
					line("%s: true", word)
				}
			}
			switch {
			case m.often(10):
				line("rate_limit: {unlimited: true}")
			case m.often(80):
				names := ""
				if m.often(20) {
					own := m.one("n", "m")
					names = fmt.Sprintf(", name: %s", own)
				} else if m.often(20) {
					names = fmt.Sprintf(", replaces: [{name: %s}]", m.one("n", "m"))
				}
				line("rate_limit: {unit: %s, requests_per_unit: %d%s}", m.one("second", "minute", "hour", "Day"), m.IntN(8), names)
			}
			if depth < 2 && m.often(35) {
				if below := m.descriptors(depth + 1); below != "" {
					line("descriptors:")
					text += below
				}
			}
		}
	}
	return text
}

func (m *maker) request(domain string) *pb.RateLimitRequest {
	request := &pb.RateLimitRequest{Domain: domain, HitsAddend: uint32(max(m.IntN(8)-4, 0))}
	many := 1 + m.IntN(4)
	if m.often(10) {
		many = 14
	}
	for range many {
		d := &common.RateLimitDescriptor{}
		for range 1 + m.IntN(3)*m.IntN(2) {
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: m.one("a", "b", "c"), Value: m.one("", "x", "y", "xy", "xz", "z", "1", "2")})
		}
		if m.often(15) {
			d.HitsAddend = wrapperspb.UInt64(uint64(m.IntN(5)))
		}
		if m.often(5) { // of a name that the file does not have, see "a limit in the request"
			d.Entries[0].Key = "own"
			unit := types.RateLimitUnit(1 + m.IntN(4))
			limit := uint32(1 + m.IntN(5))
			// Each limit has a name of its own, see "a limit that is raised".
			d.Entries[0].Value += fmt.Sprint(unit, limit)
			d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: limit, Unit: unit}
		}
		request.Descriptors = append(request.Descriptors, d)
	}
	return request
}

// pause is until the next request: mostly nothing, and now and then into another window.
func (m *maker) pause() time.Duration {
	switch n := m.IntN(1000); {
	case n < 800:
		return 0
	case n < 960:
		return time.Duration(m.IntN(900)) * time.Millisecond
	case n < 985:
		return time.Duration(m.IntN(40)) * time.Second
	case n < 997:
		return time.Duration(m.IntN(50)) * time.Minute
	}
	return time.Duration(m.IntN(30)) * time.Hour
}
