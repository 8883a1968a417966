package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"redis-throttle/tests/server"
)

// receiver collects spans, by gRPC and by HTTP.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	mu  sync.Mutex
	all []*trace.ResourceSpans
}

func (r *receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, request.ResourceSpans...)
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	spans := &collector.ExportTraceServiceRequest{}
	if err != nil || request.URL.Path != "/v1/traces" || proto.Unmarshal(body, spans) != nil {
		http.Error(w, "these are no spans", http.StatusBadRequest)
		return
	}
	_, _ = r.Export(request.Context(), spans)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// listen returns the URL for a protocol of TRACING_EXPORTER_PROTOCOL.
func (r *receiver) listen(t *testing.T, protocol string) string {
	if protocol == "http" {
		s := httptest.NewServer(r)
		t.Cleanup(s.Close)
		return s.URL
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return "http://" + l.Addr().String()
}

// spans returns the spans of a trace, or all if the id is empty.
func (r *receiver) spans(id string) (spans []*trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range r.all {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				if id == "" || string(s.TraceId) == id {
					spans = append(spans, s)
				}
			}
		}
	}
	return spans
}

func attributes(all []*commonpb.KeyValue) map[string]any {
	values := map[string]any{}
	for _, a := range all {
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			values[a.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			values[a.Key] = v.IntValue
		}
	}
	return values
}

const (
	parent    = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"
	parentID  = "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"
	parentOff = "00-1112131415161718191a1b1c1d1e1f20-0102030405060708-00" // not sampled
)

// Each request has a span, in the trace of its caller, which says how it was decided. No span holds anything that a
// client chose. The last spans are sent before the gateway ends.
func TestSpansSayHowARequestWasDecidedAndHoldNoKey(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, protocol := range []string{"http", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			var r receiver
			g := start(t, s.Addr(), "domain: "+protocol+`
descriptors:
- {key: user, rate_limit: {unit: year, requests_per_unit: 1, name: per-user}}
- {key: address, rate_limit: {unit: year, requests_per_unit: 1}}
routes:
- match: /
  descriptors:
  - [{key: user, value: "{path}{header:X-User}"}]
`, "TRACING_ENABLED=true", "TRACING_EXPORTER_PROTOCOL="+protocol, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.listen(t, protocol),
				"TRACING_SERVICE_NAME=limits", "TRACING_SERVICE_NAMESPACE=edge", "TRACING_SERVICE_INSTANCE_ID=one")

			ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent)
			byRLS := func() {
				_, err := g.ShouldRateLimit(ctx, ask(protocol, 0, "user=hidden1"))
				require.NoError(t, err)
			}
			byRLS()
			byRLS()
			_, err := g.ShouldRateLimit(ctx, ask("", 0, "user=hidden2"))
			require.Error(t, err)
			header := http.Header{"X-User": {"hidden3"}, "X-Forwarded-For": {"203.0.113.77"}, "User-Agent": {"hidden4"}, "Traceparent": {parent}}
			for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
				response, _ := g.get("/check/hidden5?hidden6=1", header)
				require.Equal(t, status, response.StatusCode)
			}
			g.get("/hidden7", header)
			_, err = g.ShouldRateLimit(metadata.AppendToOutgoingContext(t.Context(), "traceparent", parentOff), ask(protocol, 0, "user=hidden8"))
			require.NoError(t, err)
			failing := ask(protocol, 0, "user=hidden9")
			_, err = g.ShouldRateLimit(t.Context(), failing)
			require.NoError(t, err)
			keys := s.MustDo("KEYS", "*hidden9*").Elems
			require.NotEmpty(t, keys)
			for _, key := range keys {
				s.MustDo("SET", key.Text, "hidden10") // a value of another kind
			}
			_, err = g.ShouldRateLimit(ctx, failing)
			require.Error(t, err)
			require.True(t, g.Ends())

			var said []string
			for _, span := range r.spans(parentID) {
				assert.Equal(t, trace.Span_SPAN_KIND_SERVER, span.Kind)
				assert.Equal(t, "\x01\x02\x03\x04\x05\x06\x07\x08", string(span.ParentSpanId))
				line := span.Name
				if status, ok := attributes(span.Attributes)["http.response.status_code"]; ok {
					line += fmt.Sprint(" ", status)
				}
				for _, event := range span.Events {
					if event.Name == "ratelimit" {
						line += " " + attributes(event.Attributes)["ratelimit.outcome"].(string)
					}
				}
				said = append(said, line)
			}
			const call = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
			assert.ElementsMatch(t, []string{call, call + " limited", call, call + " error", "GET /check 200", "GET /check 429 limited", "GET 404"}, said)
			assert.Len(t, r.spans(""), len(said)+1, "a span that the caller does not sample is not sent")
			require.NotEmpty(t, r.all)
			for _, resource := range r.all {
				about := attributes(resource.Resource.Attributes)
				assert.Equal(t, []any{"limits", "edge", "one"}, []any{about["service.name"], about["service.namespace"], about["service.instance.id"]})
				text := protojson.Format(resource)
				assert.NotContains(t, text, "hidden")
				assert.NotContains(t, text, "203.0.113.77")
			}
		})
	}
}

// TRACING_SAMPLING_RATE is for requests whose caller did not decide.
func TestASampleOfRequestsIsTraced(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	var r receiver
	g := start(t, s.Addr(), basic, "TRACING_ENABLED=true", "TRACING_SAMPLING_RATE=0", "OTEL_EXPORTER_OTLP_ENDPOINT="+r.listen(t, "http"))
	for range 3 {
		g.asks(ask("shop", 0, "user=1"))
		g.get("/healthcheck", nil)
	}
	_, err := g.ShouldRateLimit(metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent), ask("shop", 0, "user=1"))
	require.NoError(t, err)
	require.True(t, g.Ends())
	assert.Len(t, r.spans(parentID), 1)
	assert.Len(t, r.spans(""), 1)
}

// A collector that does not answer holds nobody up.
func TestRequestsAreDecidedWithoutACollector(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic, "TRACING_ENABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:"+strconv.Itoa(server.FreePort(t)))
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	response, _ := g.get("/healthcheck", nil)
	assert.Equal(t, http.StatusOK, response.StatusCode)
}
