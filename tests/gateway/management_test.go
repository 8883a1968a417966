package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	xds "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	limits "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"
)

// nodeID is the name by which the management server knows the gateway, as Envoy Gateway has it.
const nodeID = "envoy-ratelimit"

// management is a management server of go-control-plane, with which Envoy Gateway is built.
type management struct {
	t       testing.TB
	cache   cache.SnapshotCache
	address string
	grpc    *grpc.Server

	version int

	mu      sync.Mutex
	sent    map[string]string // versions by nonce
	answers map[string]string // of the gateway, by version: "ACK", or the reason of a NACK
	streams int
	refused int // how often the gateway has refused something
	first   *discovery.DiscoveryRequest
	header  metadata.MD
}

// manage starts a management server without a configuration.
func manage(t testing.TB, options ...grpc.ServerOption) *management {
	t.Helper()
	m := &management{t: t}
	m.listen("127.0.0.1:0", options...)
	t.Cleanup(func() { m.grpc.Stop() })
	return m
}

// listen serves as a new process does: it knows no configuration, and its versions begin anew.
func (m *management) listen(address string, options ...grpc.ServerOption) {
	m.t.Helper()
	m.mu.Lock()
	m.sent, m.answers, m.version = map[string]string{}, map[string]string{}, 0
	m.mu.Unlock()
	m.cache = cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	m.grpc = grpc.NewServer(options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(m.grpc, xds.NewServer(context.Background(), m.cache, xds.CallbackFuncs{
		StreamOpenFunc: func(ctx context.Context, _ int64, _ string) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.streams++
			m.header, _ = metadata.FromIncomingContext(ctx)
			return nil
		},
		StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			switch version := m.sent[r.ResponseNonce]; {
			case r.ResponseNonce == "":
				m.first = r
			case r.ErrorDetail != nil:
				m.answers[version] = r.ErrorDetail.Message
				m.refused++
			case r.VersionInfo == version:
				m.answers[version] = "ACK"
			}
			return nil
		},
		StreamResponseFunc: func(_ context.Context, _ int64, _ *discovery.DiscoveryRequest, r *discovery.DiscoveryResponse) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.sent[r.Nonce] = r.VersionInfo
		},
	}))
	l, err := net.Listen("tcp", address)
	require.NoError(m.t, err)
	m.address = l.Addr().String()
	server := m.grpc
	go func() { _ = server.Serve(l) }()
}

// set has the configuration be what some resources say.
func (m *management) set(all ...*limits.RateLimitConfig) {
	m.t.Helper()
	m.version++
	var list []types.Resource
	for _, one := range all {
		list = append(list, one)
	}
	snapshot, err := cache.NewSnapshot(strconv.Itoa(m.version), map[resource.Type][]types.Resource{resource.RateLimitConfigType: list})
	require.NoError(m.t, err)
	require.NoError(m.t, m.cache.SetSnapshot(m.t.Context(), nodeID, snapshot))
}

// answer is what the gateway has answered to the newest configuration: "ACK", a reason, or nothing yet.
func (m *management) answer() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answers[strconv.Itoa(m.version)]
}

// setAnd is set, and waits for the answer.
func (m *management) setAnd(all ...*limits.RateLimitConfig) string {
	m.t.Helper()
	m.set(all...)
	await(m.t, "the gateway answers", func() bool { return m.answer() != "" })
	return m.answer()
}

// started is how many streams there have been.
func (m *management) started() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.streams
}

func (m *management) refusals() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused
}

// managed starts a gateway that a management server at an address configures. It tries again soon.
func managed(t testing.TB, redis, address string, env ...string) *gateway {
	t.Helper()
	return start(t, redis, "", append([]string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + address, "CONFIG_GRPC_XDS_NODE_ID=" + nodeID,
		"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=20ms", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=20ms", "XDS_CLIENT_BACKOFF_MAX_INTERVAL=200ms"}, env...)...)
}

// envoyGateway is a management server with the certificates that Envoy Gateway makes: one authority has signed those of
// both.
func envoyGateway(t testing.TB, dir string, pool *x509.CertPool) *management {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(dir+"/crt", dir+"/key")
	require.NoError(t, err)
	return manage(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert})))
}

// byEnvoyGateway are the variables that Envoy Gateway sets for its rate limit service, with the files of the
// certificate, its key and the authority.
func byEnvoyGateway(address, certificate, key, authority string) []string {
	return []string{
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=info", "USE_STATSD=false",
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + address, "CONFIG_GRPC_XDS_NODE_ID=" + nodeID,
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=" + certificate, "GRPC_SERVER_TLS_KEY=" + key, "GRPC_SERVER_TLS_CA_CERT=" + authority,
		"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=" + certificate, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY=" + key,
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=" + authority, "FORCE_START_WITHOUT_INITIAL_CONFIG=true",
		"REDIS_SOCKET_TYPE=tcp", "USE_PROMETHEUS=true", "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
	}
}

// yearly is a resource whose keys all have one limit.
func yearly(domain string, requests uint32, keys ...string) *limits.RateLimitConfig {
	c := &limits.RateLimitConfig{Name: domain, Domain: domain}
	for _, key := range keys {
		c.Descriptors = append(c.Descriptors, &limits.RateLimitDescriptor{Key: key,
			RateLimit: &limits.RateLimitPolicy{Unit: limits.RateLimitUnit_YEAR, RequestsPerUnit: requests}})
	}
	return c
}

// many is a resource with a number of rules, which takes at least so many bytes.
func many(domain string, rules, bytes int) *limits.RateLimitConfig {
	c := &limits.RateLimitConfig{Name: domain, Domain: domain}
	for i := range rules {
		one := yearly("", 10, "user").Descriptors[0]
		one.Value = fmt.Sprintf("%0*d", max(bytes/rules, 6), i)
		c.Descriptors = append(c.Descriptors, one)
	}
	return c
}

// packed is a resource as a response has it.
func packed(t testing.TB, c *limits.RateLimitConfig) *anypb.Any {
	t.Helper()
	one, err := anypb.New(c)
	require.NoError(t, err)
	return one
}

// scripted is a management server that sends what a test says, right or wrong. A nil ends the stream.
type scripted struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	send chan *discovery.DiscoveryResponse
	got  chan *discovery.DiscoveryRequest
}

func (r *scripted) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	go func() {
		for {
			request, err := stream.Recv()
			if err != nil {
				return
			}
			r.got <- request
		}
	}()
	for {
		select {
		case response := <-r.send:
			if response == nil {
				return nil
			}
			if err := stream.Send(response); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

// script starts a scripted server.
func script(t testing.TB) (*scripted, string) {
	t.Helper()
	r := &scripted{send: make(chan *discovery.DiscoveryResponse), got: make(chan *discovery.DiscoveryRequest, 100)}
	s := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(s, r)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return r, l.Addr().String()
}

// flood sends responses without waiting for answers until ctx ends, and counts them.
func (r *scripted) flood(ctx context.Context, sent *atomic.Int64, response func(n int64) *discovery.DiscoveryResponse) {
	for n := int64(0); ; n++ {
		select {
		case r.send <- response(n):
			sent.Add(1)
		case <-ctx.Done():
			return
		}
	}
}

// next is the next request of the gateway.
func (r *scripted) next(t testing.TB) *discovery.DiscoveryRequest {
	t.Helper()
	select {
	case request := <-r.got:
		return request
	case <-time.After(patience):
		t.Fatal("the gateway asks nothing")
		return nil
	}
}
