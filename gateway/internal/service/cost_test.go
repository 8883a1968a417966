package service

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/settings"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/cached"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/observed"
	"redis-throttle/ratelimit/promlimit"
)

const measured = `domain: bench
descriptors:
- key: user
  rate_limit: {unit: hour, requests_per_unit: 100000000}
- key: path
  rate_limit: {unit: hour, requests_per_unit: 100000000}
routes:
- match: /
  descriptors:
  - [{key: user, value: "{header:X-User}"}]
`

// instant answers at once, as a server that allows the call, without a network.
type instant struct{}

var (
	standing = []any{int64(0), int64(1e8), int64(1e8 - 1), int64(-1), int64(3_600_000)}
	ofOne    = []any{int64(0), int64(1), int64(1e8), int64(1e8 - 1), int64(-1), int64(3_600_000), int64(3_600_000), int64(1), int64(0), int64(0)}
	ofTwo    = append(slices.Clone(ofOne), int64(1), standing, standing)
)

func (instant) Process(_ context.Context, cmd redis.Cmder) error {
	reply := ofOne
	if cmd.Args()[0] == "CL.MLIMIT" {
		reply = ofTwo
	}
	cmd.(interface{ SetVal(any) }).SetVal(reply)
	return nil
}

// alone is one server.
type alone struct{ here }

func (alone) Cluster() bool { return false }

// nowhere is a response that nobody reads.
type nowhere struct {
	header http.Header
	code   int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(code int)        { n.code = code }

// costs are the requests whose cost is bounded, and the allocations of each at most, without those of gRPC, net/http
// and pipelines.
func costs(tb testing.TB) map[string]struct {
	ask  func()
	most float64
} {
	tb.Helper()
	dir := tb.TempDir()
	require.NoError(tb, os.WriteFile(filepath.Join(dir, "limits.yaml"), []byte(measured), 0o644))
	server := ratelimit.New(instant{}, ratelimit.Options{})
	chain := observed.New(cached.New(guard.New(server, guard.Options{}), cached.Options{}), promlimit.New(promlimit.Options{}).Observe)
	o := settings.Settings{MaxConcurrency: 8, MaxRequestBytes: 1 << 20, MaxDescriptors: 128, NearLimitRatio: 0.8}
	s := New(&o, alone{here{ratelimit.With(chain)}}, func() bool { return false }, prometheus.NewRegistry())
	require.NoError(tb, s.Load(config.Read(dir)))

	descriptor := func(key, value string) *common.RateLimitDescriptor {
		return &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: value}}}
	}
	request := &rls.RateLimitRequest{Domain: "bench", Descriptors: []*common.RateLimitDescriptor{descriptor("user", "42"), descriptor("path", "7")}}
	codec := Codec()
	wire := mem.BufferSlice{mem.SliceBuffer(must(proto.Marshal(request)))}
	want := must(proto.Marshal(must(s.ShouldRateLimit(tb.Context(), request))))
	check, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, "http://example.org/check/a/b", nil)
	require.NoError(tb, err)
	check.Header.Set("X-User", "42")
	check.Header.Set("User-Agent", "a proxy")
	w, handler := &nowhere{header: http.Header{}}, s.Handler(func() bool { return true })
	return map[string]struct {
		ask  func()
		most float64
	}{
		"RLS": {func() {
			response, err := s.handle(nil, context.Background(), func(v any) error { return codec.Unmarshal(wire, v) }, nil)
			require.NoError(tb, err)
			if data, err := codec.Marshal(response); err != nil || data.Len() != len(want) {
				tb.Fatal(response, err)
			}
		}, 17},
		"check": {func() {
			clear(w.header)
			if handler.ServeHTTP(w, check); w.code != http.StatusOK || len(w.header["Ratelimit"]) == 0 {
				tb.Fatal(w.code, w.header)
			}
		}, 24},
	}
}

//nolint:paralleltest // others would be counted, too
func TestARequestAllocatesLittle(t *testing.T) {
	for name, c := range costs(t) {
		got := testing.AllocsPerRun(1000, c.ask)
		t.Log(name, got)
		assert.LessOrEqual(t, got, c.most, name)
	}
}

func BenchmarkRequest(b *testing.B) {
	for name, c := range costs(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.ask()
			}
		})
	}
}
