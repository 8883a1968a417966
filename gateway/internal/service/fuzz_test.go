package service

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/settings"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/ratelimittest"
)

const fuzzed = `
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 3}}
- {key: user, value: banned, rate_limit: {unit: hour, requests_per_unit: 0}}
- {key: path, value: "/a*b*", detailed_metric: true, rate_limit: {unit: month, requests_per_unit: 4294967295}}
- {key: path, value_to_metric: true, limits: [RATE 5/s BURST 10, WINDOW 7/m, FIXED 9/d SHADOW]}
- {key: tried, shadow_mode: true, metadata: {a: {b: 1}}, rate_limit: {unit: second, requests_per_unit: 1}}
- {key: quota, quota_mode: true, detailed_metric: true, rate_limit: {unit: week, requests_per_unit: 1}}
- {key: free, value_to_metric: true, rate_limit: {unlimited: true}}
- {key: small, rate_limit: {unit: year, requests_per_unit: 1, name: small}}
- {key: big, rate_limit: {unit: year, requests_per_unit: 5, replaces: [{name: small}]}}
- {key: hot, batch: 10, rate_limit: {unit: year, requests_per_unit: 50}}
routes:
- match: /
  descriptors:
  - [{key: user, value: "{header:X-User}"}, {key: ip, value: "{client}"}]
  - [{key: path, value: "{method} {path}"}]
  - [{key: free, value: "{host} {header:X-User}"}]
`

// here decides in this process as a server does.
type here struct{ *ratelimit.Limiter }

func (h here) Of(guard.Policy, int64) ratelimit.Decider { return h }
func (h here) Cluster() bool                            { return true }

func (h here) Each(ctx context.Context, _ guard.Policy, calls []ratelimit.Call) (results []ratelimit.Result, errs []error) {
	for _, call := range calls {
		result, err := h.Decide(ctx, call)
		results, errs = append(results, result), append(errs, err)
	}
	return results, errs
}

// serviceOf has the domains all, which charges all or none, and each, which is compatible. Only all has routes.
func serviceOf(f *testing.F, o settings.Settings) *Service {
	f.Helper()
	dir := f.TempDir()
	descriptors, _, _ := strings.Cut(fuzzed, "routes:")
	for name, text := range map[string]string{"all": "domain: all" + fuzzed, "each": "domain: each\ncompat: true" + descriptors} {
		require.NoError(f, os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o644))
	}
	o.Headers, o.LimitHeader, o.RemainingHeader, o.ResetHeader, o.NearLimitRatio = true, "A", "B", "C", 0.8
	o.DynamicMetadata, o.MaxConcurrency, o.MaxRequestBytes, o.MaxDescriptors = true, 8, 1<<20, 128
	server := here{ratelimit.New(ratelimittest.New(f), ratelimit.Options{})}
	s := New(&o, server, func() bool { return false }, prometheus.NewRegistry())
	s.decider.Lost = func(_ int64, err error) { panic("units could not be given back: " + err.Error()) }
	require.NoError(f, s.Load(config.Read(dir)))
	return s
}

// requests are where fuzzing begins.
var requests = []string{
	`{"domain": "all", "descriptors": [{"entries": [{"key": "user", "value": "1"}]}]}`,
	`{"domain": "all", "hitsAddend": 3, "descriptors": [{"entries": [{"key": "user", "value": "1"}]}, {"entries": [{"key": "path", "value": "/axb"}], "hitsAddend": "0"}]}`,
	`{"domain": "each", "descriptors": [{"entries": [{"key": "user", "value": "banned"}]}, {"entries": [{"key": "path", "value": "x"}], "hitsAddend": "18446744073709551615"}]}`,
	`{"domain": "all", "descriptors": [{"entries": [{"key": "new"}], "limit": {"requestsPerUnit": 4294967295, "unit": "YEAR"}}, {"entries": [{"key": "quota", "value": "q"}]}]}`,
	`{"domain": "each", "descriptors": [{"entries": [{"key": "small"}]}, {"entries": [{"key": "big"}]}, {"entries": [{"key": "free"}]}, {"entries": [{"key": "tried"}]}, {}]}`,
	`{"domain": "all", "descriptors": [{"entries": [{"key": "hot"}]}, {"entries": [{"key": "quota"}]}, {"entries": [{"key": "quota", "value": "2"}]}]}`,
}

// Whatever a Rate Limit Service client sends, it gets a decision or hears what is wrong with its request.
func FuzzRateLimitRequest(f *testing.F) {
	for _, text := range requests {
		request := &rls.RateLimitRequest{}
		require.NoError(f, protojson.Unmarshal([]byte(text), request))
		wire, err := proto.Marshal(request)
		require.NoError(f, err)
		for mode := range byte(4) {
			f.Add(wire, mode)
		}
	}
	var modes []*Service
	for mode := range 4 {
		modes = append(modes, serviceOf(f, settings.Settings{ShadowMode: mode&1 != 0, QuotaMode: mode&2 != 0}))
	}
	f.Fuzz(func(t *testing.T, wire []byte, mode byte) {
		request := &rls.RateLimitRequest{}
		if proto.Unmarshal(wire, request) != nil {
			return // gRPC refuses it
		}
		s := modes[mode%4]
		o, err := s.decideRequest(t.Context(), request, "grpc")
		if err != nil {
			err = s.failure(t.Context(), err)
			require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
			return
		}
		response, plain := s.write(request, &o), &rls.RateLimitResponse{}
		decided(t, s, request, response)
		require.NoError(t, Codec().Unmarshal(must(Codec().Marshal(s.writePlain(&o))), plain))
		response.ResponseHeadersToAdd, response.DynamicMetadata = nil, nil
		assert.True(t, proto.Equal(response, plain), "%v, not %v", plain, response)
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// decided checks what holds for every response.
func decided(t *testing.T, s *Service, request *rls.RateLimitRequest, response *rls.RateLimitResponse) {
	t.Helper()
	_, err := proto.Marshal(response)
	require.NoError(t, err)
	require.Len(t, response.Statuses, len(request.Descriptors))
	over := false
	for _, one := range response.Statuses {
		over = over || one.Code == rls.RateLimitResponse_OVER_LIMIT
		assert.GreaterOrEqual(t, one.DurationUntilReset.AsDuration(), time.Duration(0))
		if one.Code == rls.RateLimitResponse_OVER_LIMIT {
			assert.Zero(t, one.LimitRemaining)
		}
	}
	if response.OverallCode == rls.RateLimitResponse_OVER_LIMIT {
		assert.True(t, over, "a request is over because a descriptor is: %v", response)
		assert.False(t, s.settings.ShadowMode, "a shadow denies nothing")
	}
}

// Whatever /json is sent, it answers: with a decision, or with what is wrong with the body.
func FuzzJSON(f *testing.F) {
	for _, text := range requests {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"domain": "all", "descriptors": [{"entries": [{"key": "user", "value": "\ud800"}]}]}`))
	s := serviceOf(f, settings.Settings{})
	handler := s.Handler(func() bool { return true })
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", bytes.NewReader(body)))
		switch w.Code {
		case http.StatusOK, http.StatusTooManyRequests:
			request, response := &rls.RateLimitRequest{}, &rls.RateLimitResponse{}
			require.NoError(t, protojson.Unmarshal(body, request))
			require.NoError(t, protojson.Unmarshal(w.Body.Bytes(), response))
			decided(t, s, request, response)
			assert.Equal(t, w.Code == http.StatusTooManyRequests, response.OverallCode == rls.RateLimitResponse_OVER_LIMIT)
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		default:
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
	})
}

// Whatever a proxy passes on of a client's request, /check decides or says what is wrong with it.
func FuzzCheck(f *testing.F) {
	for _, head := range []string{
		"GET /check/a%20b?c=%ff HTTP/1.1\r\nHost: h\r\nX-User: 1\r\n\r\n",
		"POST /check HTTP/1.1\r\nHost: h\r\nX-Forwarded-Uri: /axb/../%ff\r\nX-Forwarded-Method: PUT\r\nX-Forwarded-Host: \xff\r\nX-User: \xff\xfe\r\n\r\n",
		"GET /domains/all/check/%61 HTTP/1.0\r\nX-Forwarded-For: 1.2.3.4, x\r\n\r\n",
		"GET /domains/%ff/check HTTP/1.1\r\nHost: [::1\r\n\r\n",
		"GET http://h/check//x HTTP/1.1\r\nHost: g\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
		"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n",
		"GET /healthcheck HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		f.Add([]byte(head))
	}
	handler := serviceOf(f, settings.Settings{}).Handler(func() bool { return true })
	f.Fuzz(func(t *testing.T, head []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil {
			return // net/http refuses it
		}
		r.RemoteAddr = "192.0.2.1:1234"
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK, http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		default:
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		for name, values := range w.Header() {
			for _, value := range values {
				assert.NotContains(t, value, "\n", name)
			}
		}
	})
}

// Whatever bytes come as a message, the codec takes all that protobuf takes, and makes the same of it. What it takes
// beyond that is text that is UTF-8 now.
func FuzzCodec(f *testing.F) {
	for _, text := range requests {
		request := &rls.RateLimitRequest{}
		require.NoError(f, protojson.Unmarshal([]byte(text), request))
		wire, err := proto.Marshal(request)
		require.NoError(f, err)
		f.Add(wire)
		f.Add(bytes.ReplaceAll(wire, []byte("user"), []byte("us\xe9r")))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		plain, got := &rls.RateLimitRequest{}, &asked{}
		refused, err := proto.Unmarshal(wire, plain), Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, got)
		switch {
		case refused == nil:
			require.NoError(t, err)
			assert.True(t, proto.Equal(plain, got))
		case err == nil:
			_, err := proto.Marshal(got)
			assert.NoError(t, err)
		}
	})
}

// Bytes that are not UTF-8 become what a URL has for them, at any depth, and the rest of the message stays.
func TestBytesThatAreNoTextArePercentEncoded(t *testing.T) {
	request := &rls.RateLimitRequest{}
	require.NoError(t, protojson.Unmarshal([]byte(requests[1]), request))
	wire, err := proto.Marshal(request)
	require.NoError(t, err)
	want := proto.CloneOf(request)
	want.Descriptors[0].Entries[0].Key = "us%E9r"
	got := &asked{}
	require.NoError(t, Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(bytes.Replace(wire, []byte("user"), []byte("us\xe9r"), 1))}, got))
	assert.True(t, proto.Equal(want, got), "%v", got)
}
