package upstream_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	xds "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	limits "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/limiter"
	"github.com/envoyproxy/ratelimit/src/provider"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
)

// management is a management server that configures both services.
type management struct {
	*both
	cache   cache.SnapshotCache
	version int

	mu      sync.Mutex
	sent    map[string]string // versions by nonce
	answers map[string]string // by node and version: "ACK", or a reason
}

// The names of the services as nodes.
const ours, theirs = "ours", "theirs"

// manage starts both with a first configuration from a management server.
func manage(t *testing.T, first ...*limits.RateLimitConfig) *management {
	t.Helper()
	needsPrograms(t)
	m := &management{both: &both{t: t}, cache: cache.NewSnapshotCache(false, cache.IDHash{}, nil), sent: map[string]string{}, answers: map[string]string{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(s,
		xds.NewServer(context.Background(), m.cache, xds.CallbackFuncs{StreamRequestFunc: m.hear, StreamResponseFunc: m.said}))
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	m.send(first)
	m.startOurs([]string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + l.Addr().String(), "CONFIG_GRPC_XDS_NODE_ID=" + ours})
	m.startUpstream(func(manager stats.Manager) provider.RateLimitConfigProvider {
		s := settings.NewSettings()
		s.ConfigGrpcXdsNodeId, s.ConfigGrpcXdsServerUrl = theirs, l.Addr().String()
		return provider.NewXdsGrpcSotwProvider(s, manager)
	})
	m.awaitAnswers("ACK")
	return m
}

func (m *management) hear(_ int64, r *discovery.DiscoveryRequest) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch version := m.sent[r.ResponseNonce]; {
	case version == "":
	case r.ErrorDetail != nil:
		m.answers[r.Node.Id+version] = r.ErrorDetail.Message
	case r.VersionInfo == version:
		m.answers[r.Node.Id+version] = "ACK"
	}
	return nil
}

func (m *management) said(_ context.Context, _ int64, _ *discovery.DiscoveryRequest, r *discovery.DiscoveryResponse) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent[r.Nonce] = r.VersionInfo
}

func (m *management) send(all []*limits.RateLimitConfig) {
	m.t.Helper()
	m.version++
	var list []types.Resource
	for _, one := range all {
		list = append(list, one)
	}
	snapshot, err := cache.NewSnapshot(strconv.Itoa(m.version), map[resource.Type][]types.Resource{resource.RateLimitConfigType: list})
	require.NoError(m.t, err)
	for _, node := range []string{ours, theirs} {
		require.NoError(m.t, m.cache.SetSnapshot(m.t.Context(), node, snapshot))
	}
}

// change has both take a configuration.
func (m *management) change(all ...*limits.RateLimitConfig) {
	m.t.Helper()
	before := m.config
	m.send(all)
	m.awaitAnswers("ACK")
	require.Eventually(m.t, func() bool { m.config, _, _ = m.upstream.GetCurrentConfig(); return m.config != before }, patience, patience/10000,
		"it says that it has it before it has")
}

// refuse has both refuse a configuration.
func (m *management) refuse(all ...*limits.RateLimitConfig) {
	m.t.Helper()
	m.send(all)
	m.awaitAnswers("")
}

// awaitAnswers waits for what both say of the newest configuration: "ACK", or reasons.
func (m *management) awaitAnswers(want string) {
	m.t.Helper()
	version := strconv.Itoa(m.version)
	answer := func(node string) string {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.answers[node+version]
	}
	require.Eventually(m.t, func() bool { return answer(ours) != "" && answer(theirs) != "" }, patience, patience/10000, "both answer")
	for _, node := range []string{ours, theirs} {
		if want == "ACK" {
			require.Equal(m.t, want, answer(node), node)
		} else {
			require.NotEqual(m.t, "ACK", answer(node), node)
		}
	}
	m.config, _, _ = m.upstream.GetCurrentConfig()
}

// resourceOf is a file of upstream as a resource, as far as resources go.
func resourceOf(name, text string) *limits.RateLimitConfig {
	file := config.ConfigFileContentToYaml(name, text)
	return &limits.RateLimitConfig{Name: file.Domain, Domain: file.Domain, Descriptors: descriptorsOf(file.Descriptors)}
}

func descriptorsOf(list []config.YamlDescriptor) (all []*limits.RateLimitDescriptor) {
	for _, d := range list {
		one := &limits.RateLimitDescriptor{
			Key: d.Key, Value: d.Value, ShadowMode: d.ShadowMode, DetailedMetric: d.DetailedMetric, Descriptors: descriptorsOf(d.Descriptors),
		}
		if l := d.RateLimit; l != nil {
			one.RateLimit = &limits.RateLimitPolicy{
				Unit: limits.RateLimitUnit(limits.RateLimitUnit_value[strings.ToUpper(l.Unit)]), RequestsPerUnit: l.RequestsPerUnit,
				Unlimited: l.Unlimited, Name: l.Name,
			}
			for _, r := range l.Replaces {
				one.RateLimit.Replaces = append(one.RateLimit.Replaces, &limits.RateLimitReplace{Name: r.Name})
			}
		}
		all = append(all, one)
	}
	return all
}

// Configurations come and go: a new one, that of before, and none of those before it. Random requests about all of them
// are answered alike, also after a configuration that both refuse, while others ask without a pause. These see one
// configuration after the other, and none again.
func TestAnswersAreThoseOfUpstreamWhileConfigurationsChange(t *testing.T) {
	draw := &maker{Rand: chance.New(t)}
	loaded := func(version int) *limits.RateLimitConfig {
		return resourceOf("load", fmt.Sprintf("domain: load\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: %d}}\n", 1_000_000+version))
	}
	m := manage(t, loaded(0))
	m.startClock()
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer cancel()
	for _, ask := range []func(context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error){
		m.upstream.ShouldRateLimit,
		func(ctx context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
			return m.ours.ShouldRateLimit(ctx, r)
		},
	} {
		load.Go(func() {
			for newest := uint32(0); ctx.Err() == nil; {
				r := request(0, "a=x", "a=y")
				r.Domain = "load"
				answer, err := ask(context.Background(), r)
				if !assert.NoError(t, err) {
					return
				}
				now := answer.Statuses[0].CurrentLimit.GetRequestsPerUnit()
				assert.Equal(t, now, answer.Statuses[1].CurrentLimit.GetRequestsPerUnit())
				assert.GreaterOrEqual(t, now, max(newest, 1_000_000), "an older one")
				newest = now
			}
		})
	}
	stream := &stream{both: m.both, counts: map[string]int64{}, keys: limiter.NewCacheKeyGenerator("")}
	seen := map[string]int{}
	var before *limits.RateLimitConfig
	for round := range size.Of(12, 60) {
		now := resourceOf("c", fmt.Sprintf("domain: c%d\ndescriptors:\n%s", round, draw.descriptors(0)))
		if before == nil {
			before = now
		}
		all := []*limits.RateLimitConfig{loaded(round + 1), now}
		if before != now {
			all = append(all, before)
		}
		m.change(all...)
		compare := func() {
			for range 40 {
				m.set(m.now.Add(draw.pause()))
				r := draw.request(fmt.Sprintf("c%d", max(round-draw.IntN(3), 0)))
				rules := stream.rules(r)
				if isTwice(rules) {
					continue
				}
				mine, theirs := m.ask(r, r)
				want := stream.allOrNone(theirs, rules, seen)
				require.Equal(t, shown(want), shown(mine), "%v at %v\nupstream: %s", r, m.now, shown(theirs))
			}
		}
		compare()
		if round%5 == 0 {
			twice := resourceOf("c", "domain: c\ndescriptors:\n- {key: a}\n")
			twice.Descriptors = append(twice.Descriptors, twice.Descriptors...)
			m.refuse(loaded(0), twice)
			compare()
		}
		before = now
	}
	t.Log(seen)
	require.Positive(t, seen["spared"])
}

var reset = regexp.MustCompile(` in \d+s`)

// Envoy Gateway's own expectations of what its rate limit service is sent, from a checkout of
// github.com/envoyproxy/gateway. Each limit is asked until it denies. Months and years are the calendar's here, so
// times are left out.
func TestAnswersAreThoseOfUpstreamToEnvoyGateway(t *testing.T) {
	checkout := os.Getenv("THROTTLE_ENVOY_GATEWAY")
	if checkout == "" {
		t.Skip("give a checkout of github.com/envoyproxy/gateway as THROTTLE_ENVOY_GATEWAY")
	}
	names, err := filepath.Glob(filepath.Join(checkout, "internal/xds/translator/testdata/out/ratelimit-config/*.yaml"))
	require.NoError(t, err)
	m := manage(t)
	m.startClock()
	files, asked := 0, 0
	for _, name := range names {
		if strings.HasSuffix(name, ".routes.yaml") { // which Envoy is sent
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		var all []*limits.RateLimitConfig
		for one := range strings.SplitSeq(string(text), "\n---\n") {
			c := resourceOf(name, one)
			c.Domain = strconv.Itoa(files) + c.Domain // limits of another file begin full
			c.Name = c.Domain
			all = append(all, c)
		}
		m.change(all...)
		for _, c := range all {
			m.exhaust(c.Domain, nil, c.Descriptors, &asked)
		}
		files++
	}
	t.Logf("%d files, %d requests", files, asked)
	require.Positive(t, asked)
}

// exhaust asks about each descriptor until its limit denies, and twice more.
func (m *management) exhaust(domain string, above []string, list []*limits.RateLimitDescriptor, asked *int) {
	m.t.Helper()
	for _, d := range list {
		value := d.Value
		if value == "" {
			value = "any"
		}
		way := append(above[:len(above):len(above)], d.Key+"="+value)
		if l := d.RateLimit; l != nil {
			for range min(l.RequestsPerUnit, 50) + 2 {
				r := request(0, way[0])
				r.Domain = domain
				for _, more := range way[1:] {
					r.Descriptors[0].Entries = append(r.Descriptors[0].Entries, request(0, more).Descriptors[0].Entries...)
				}
				mine, theirs := m.ask(r, r)
				require.Equal(m.t, reset.ReplaceAllString(shown(theirs), ""), reset.ReplaceAllString(shown(mine), ""), "%v", r)
				*asked++
			}
		}
		m.exhaust(domain, way, d.Descriptors, asked)
	}
}
