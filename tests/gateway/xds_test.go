package gateway_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	limits "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/anypb"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// A gateway that a management server configures is ready when the first configuration has come, and says by whose name
// it asks.
func TestAManagementServerConfiguresTheGateway(t *testing.T) {
	t.Parallel()
	m := manage(t)
	g := managed(t, server.Start(t).Addr(), m.address, "CONFIG_GRPC_XDS_NODE_METADATA=zone=a,rack=7", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=x-tenant:shop")
	await(t, "a stream begins", func() bool { return g.metric("throttle_gateway_xds_connected") == 1 })
	g.awaitReady(false, "without a configuration")
	assert.True(t, g.serves("live"))
	assert.Contains(t, g.asks(ask("shop", 0, "user=1")), "code = Unavailable desc = no configuration has been loaded yet")

	assert.Equal(t, "ACK", m.setAnd(yearly("shop", 10, "user"), yearly("web", 5, "user")))
	g.awaitReady(true, "with one")
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	assert.Equal(t, "OK 4", g.asks(ask("web", 0, "user=1")))
	_, rules := g.getFrom("debug", "/rlconfig", nil)
	assert.Contains(t, rules, "shop.user")
	assert.Contains(t, rules, "web.user")
	why, err := http.Post("http://"+g.At["debug"]+"/explain", "application/json",
		strings.NewReader(`{"ratelimit": {"domain": "web", "descriptors": [{"entries": [{"key": "user", "value": "1"}]}]}}`))
	require.NoError(t, err)
	defer why.Body.Close()
	text, err := io.ReadAll(why.Body)
	require.NoError(t, err)
	assert.Contains(t, string(text), "FIXED 5/1y")
	assert.Equal(t, nodeID, m.first.Node.Id)
	assert.Equal(t, map[string]any{"zone": "a", "rack": "7"}, m.first.Node.Metadata.AsMap())
	assert.Equal(t, []string{"shop"}, m.header.Get("x-tenant"))

	assert.Equal(t, "ACK", m.setAnd(yearly("shop", 20, "user")))
	assert.Equal(t, "OK 18", g.asks(ask("shop", 0, "user=1")), "what was charged stays charged")
	assert.Equal(t, "OK -", g.asks(ask("web", 0, "user=1")))
	assert.Contains(t, g.Log(), `a domain has gone: its requests are let through" domain=web`)
	assert.Equal(t, "ACK", m.setAnd())
	assert.Equal(t, "OK -", g.asks(ask("shop", 0, "user=1")), "all have gone")
	g.awaitReady(true, "with none")
	assert.EqualValues(t, 3, g.metric("ratelimit_service_config_load_success"))

	require.NoError(t, g.Cmd.Process.Signal(syscall.SIGHUP))
	await(t, "a signal has it ask anew", func() bool { return m.started() == 2 })
}

// Envoy Gateway starts its rate limit service before anybody has configured limits: requests are refused until then,
// and the process is healthy unless its health is to need a domain.
func TestAGatewayMayStartBeforeItsFirstConfiguration(t *testing.T) {
	t.Parallel()
	m := manage(t)
	redis := server.Start(t).Addr()
	g := managed(t, redis, m.address, "FORCE_START_WITHOUT_INITIAL_CONFIG=true")
	needs := managed(t, redis, m.address, "FORCE_START_WITHOUT_INITIAL_CONFIG=true", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true")
	g.awaitReady(true, "without a configuration")
	needs.awaitReady(false, "without a configuration")
	assert.Contains(t, g.asks(ask("shop", 0, "user=1")), "code = Unavailable")
	m.set()
	await(t, "it is loaded", func() bool { return needs.metric("ratelimit_service_config_load_success") == 1 })
	needs.awaitReady(false, "without a domain")
	m.set(yearly("shop", 10, "user"))
	needs.awaitReady(true, "with a domain")
	assert.Equal(t, "OK 9", needs.asks(ask("shop", 0, "user=1")))
}

// A configuration with a mistake is refused as a whole, with the domain and the field in the reason, and the last one
// that was right stays.
func TestAManagementServerHearsOfMistakes(t *testing.T) {
	t.Parallel()
	m := manage(t)
	g := managed(t, server.Start(t).Addr(), m.address)
	require.Equal(t, "ACK", m.setAnd(yearly("shop", 1000, "user")))
	noUnit := yearly("web", 1, "user")
	noUnit.Descriptors[0].RateLimit.Unit = limits.RateLimitUnit_UNKNOWN
	other := yearly("shop", 5, "user")
	other.Name = "z"
	left := 1000
	for want, wrong := range map[string]*limits.RateLimitConfig{
		`the domain "web": descriptors[0].rate_limit: rate_limit needs a unit`:                                      noUnit,
		`the domain "web": descriptors[1].key: the descriptor "web.user" is there twice`:                            yearly("web", 1, "user", "user"),
		`the resource "web" with the domain "": the domain is missing`:                                              {Name: "web"},
		`the resource "z" with the domain "shop": domain: the domain "shop" is in another file or resource already`: other,
	} {
		assert.Contains(t, m.setAnd(yearly("shop", 5, "user"), wrong), want)
		assert.EqualValues(t, 1, g.metric("throttle_gateway_config_load_failed"), want)
		left--
		assert.Equal(t, fmt.Sprint("OK ", left), g.asks(ask("shop", 0, "user=1")), want)
		assert.Equal(t, "OK -", g.asks(ask("web", 0, "user=1")), want)
	}
	assert.EqualValues(t, 4, g.metric("ratelimit_service_config_load_error"), "the server sends each of them again and again")
	assert.Equal(t, 4, strings.Count(g.Log(), "the configuration stays as it was"))
	began, before := time.Now(), m.refusals()
	await(t, "the server sends it again", func() bool { return m.refusals() >= before+2 })
	assert.Greater(t, time.Since(began), time.Second, "so both have something else to do")
	assert.Equal(t, "ACK", m.setAnd(yearly("shop", 2000, "user")))
	assert.Zero(t, g.metric("throttle_gateway_config_load_failed"))
	assert.Equal(t, fmt.Sprint("OK ", left+1000-1), g.asks(ask("shop", 0, "user=1")))
}

// Servers that are not go-control-plane's may send what its cache cannot: a name twice, another type, bytes that are no
// resource. The answer names the response that it is about, and the version that is in force.
func TestEachResponseIsAnswered(t *testing.T) {
	t.Parallel()
	r, at := script(t)
	g := managed(t, server.Start(t).Addr(), at)
	first := r.next(t)
	assert.Equal(t, resource.RateLimitConfigType, first.TypeUrl)
	assert.Empty(t, first.VersionInfo)
	for i, step := range []struct {
		resources []*anypb.Any
		inForce   string
		reason    string
	}{
		{[]*anypb.Any{packed(t, yearly("shop", 10, "user"))}, "v0", ""},
		{[]*anypb.Any{packed(t, yearly("shop", 20, "user")), packed(t, yearly("shop", 30, "user"))}, "v0", `the resource "shop" is there twice`},
		{[]*anypb.Any{packed(t, yearly("shop", 20, "user")), {TypeUrl: "type.googleapis.com/google.protobuf.Empty"}}, "v0", "the resource at 1 is no " + resource.RateLimitConfigType},
		{[]*anypb.Any{{TypeUrl: resource.RateLimitConfigType, Value: []byte("nonsense")}}, "v0", "the resource at 0 is no " + resource.RateLimitConfigType},
		{[]*anypb.Any{packed(t, yearly("shop", 40, "user"))}, "v4", ""},
	} {
		r.send <- &discovery.DiscoveryResponse{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster", VersionInfo: "c", Nonce: "c"} // is not answered
		r.send <- &discovery.DiscoveryResponse{TypeUrl: resource.RateLimitConfigType, VersionInfo: fmt.Sprint("v", i), Nonce: fmt.Sprint("n", i),
			Resources: step.resources}
		answer := r.next(t)
		assert.Equal(t, fmt.Sprint("n", i), answer.ResponseNonce)
		assert.Equal(t, step.inForce, answer.VersionInfo)
		assert.Contains(t, answer.ErrorDetail.GetMessage(), step.reason)
		assert.Equal(t, step.reason == "", answer.ErrorDetail == nil)
	}
	assert.Equal(t, "OK 39", g.asks(ask("shop", 0, "user=1")))
}

// A server that sends without end fills no disk and keeps no processor busy: a response a second is taken and answered,
// the newest, and the log has few lines. A change among them is taken.
func TestAServerThatDoesNotStop(t *testing.T) {
	t.Parallel()
	redis := server.Start(t).Addr()
	response := func(version string, resources ...*anypb.Any) *discovery.DiscoveryResponse {
		return &discovery.DiscoveryResponse{TypeUrl: resource.RateLimitConfigType, VersionInfo: version, Nonce: version, Resources: resources}
	}
	right := response("right", packed(t, yearly("shop", 10, "user")))
	change := response("change", packed(t, yearly("shop", 20, "user")))
	type counts struct{ sent, answers atomic.Int64 }
	for name, is := range map[string]struct {
		response func(n int64) *discovery.DiscoveryResponse
		goesOn   bool // beside the change
		enough   func(*gateway, *counts) bool
		loads    float64
		line     string
		lines    int // at most, and perTen more in ten seconds
		perTen   int
	}{
		"another type": {
			func(int64) *discovery.DiscoveryResponse {
				return &discovery.DiscoveryResponse{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster", VersionInfo: "c", Nonce: "c"}
			}, true,
			func(_ *gateway, c *counts) bool { return c.sent.Load() >= 15_000 },
			0, "what was not asked for", 1, 0,
		},
		"the same": {
			func(int64) *discovery.DiscoveryResponse { return right }, false,
			func(_ *gateway, c *counts) bool { return c.answers.Load() >= 5 },
			1, "configuration loaded", 1, 0,
		},
		"mistakes, each another": {
			func(n int64) *discovery.DiscoveryResponse {
				name := fmt.Sprint("web", n)
				return response(name, packed(t, yearly(name, 10, "user", "user")))
			}, false,
			func(g *gateway, _ *counts) bool { return strings.Contains(g.Log(), "left_out=") },
			0, "the configuration stays as it was", 5, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, at := script(t)
			g := managed(t, redis, at, "FORCE_START_WITHOUT_INITIAL_CONFIG=true")
			r.next(t)
			began := time.Now()
			var c counts
			var taken atomic.Bool
			go func() {
				for {
					select {
					case request := <-r.got:
						c.answers.Add(1)
						if request.VersionInfo == "change" && request.ErrorDetail == nil {
							taken.Store(true)
						}
					case <-t.Context().Done():
						return
					}
				}
			}()
			flooded, stop := context.WithCancel(t.Context())
			defer stop()
			go r.flood(flooded, &c.sent, is.response)
			await(t, "much is sent", func() bool { return is.enough(g, &c) })
			answers, failed, sent, log := c.answers.Load(), g.metric("ratelimit_service_config_load_error"), c.sent.Load(), g.Log()
			loads := g.metric("ratelimit_service_config_load_success")
			seconds := int(time.Since(began)/time.Second) + 1
			assert.LessOrEqual(t, answers, int64(seconds+1))
			assert.LessOrEqual(t, failed, float64(seconds+2))
			assert.LessOrEqual(t, sent, int64(10_000+3_000*seconds), "it is not read as fast as it sends")
			assert.Equal(t, is.loads, loads)
			assert.Positive(t, strings.Count(log, is.line))
			assert.LessOrEqual(t, strings.Count(log, is.line), is.lines+is.perTen*seconds/10)
			assert.LessOrEqual(t, strings.Count(log, "\n"), 30+seconds)

			if !is.goesOn {
				stop()
			}
			go r.flood(t.Context(), &c.sent, func(int64) *discovery.DiscoveryResponse { return change })
			await(t, "the change is taken", taken.Load)
			assert.Equal(t, is.loads+1, g.metric("ratelimit_service_config_load_success"))
		})
	}
}

// A thousand domains come as one configuration. One of them that flaps leaves the others as they are, and in the end
// the last counts.
func TestAThousandDomainsOfWhichOneFlaps(t *testing.T) {
	t.Parallel()
	m := manage(t)
	g := managed(t, server.Start(t).Addr(), m.address)
	var all []*limits.RateLimitConfig
	for i := range 1000 {
		all = append(all, yearly(fmt.Sprint("d", i), 1000, "user"))
	}
	require.Equal(t, "ACK", m.setAnd(all...))
	assert.Equal(t, "OK 999", g.asks(ask("d0", 0, "user=1")))
	left, began := 1000, time.Now()
	for i := range 200 {
		m.set(all[:999+i%2]...)
		if i%10 == 0 {
			left--
			require.Equal(t, fmt.Sprint("OK ", left), g.asks(ask("d500", 0, "user=1")))
			require.Contains(t, []string{"OK -", "OK 1000"}, g.asks(ask("d999", 0, "user=1 +0")), "with or without a limit")
		}
	}
	await(t, "the last is taken", func() bool { return m.answer() == "ACK" })
	assert.Equal(t, "OK 999", g.asks(ask("d999", 0, "user=2")))
	assert.LessOrEqual(t, g.metric("ratelimit_service_config_load_success"), 3+time.Since(began).Seconds(), "one a second is loaded")
}

// A server that hangs before it says anything, or that knows no such node, is told in the log, and the process ends
// when it is to.
func TestAServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	redis := server.Start(t).Addr()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer mute.Close()
	m := manage(t)
	m.set(yearly("shop", 10, "user"))
	unknown := managed(t, redis, m.address, "CONFIG_GRPC_XDS_NODE_ID=another")
	hangs := managed(t, redis, mute.Addr().String())
	await(t, "the log names the setting", func() bool {
		log := unknown.Log()
		return strings.Contains(log, "nothing for this node yet: it knows the node by CONFIG_GRPC_XDS_NODE_ID") && strings.Contains(log, "node=another")
	})
	await(t, "the log says that nobody answers", func() bool { return strings.Contains(hangs.Log(), "the management server is not reached") })
	for _, g := range []*gateway{unknown, hangs} {
		g.awaitReady(false, "without a configuration")
		assert.True(t, g.serves("live"))
		assert.True(t, g.Ends())
	}
}

// A stream that ends is no server out of reach: the log tells whether it sent anything.
func TestTheLogTellsThatAStreamEnded(t *testing.T) {
	t.Parallel()
	r, at := script(t)
	g := managed(t, server.Start(t).Addr(), at)
	r.next(t)
	r.send <- nil
	await(t, "it ended at once", func() bool {
		return strings.Contains(g.Log(), "the stream of the management server ended before it sent anything")
	})
	r.next(t)
	r.send <- &discovery.DiscoveryResponse{TypeUrl: resource.RateLimitConfigType, VersionInfo: "v", Nonce: "n",
		Resources: []*anypb.Any{packed(t, yearly("shop", 10, "user"))}}
	r.send <- nil
	await(t, "it ended after a response", func() bool {
		return strings.Contains(g.Log(), "the stream of the management server ended: the configuration stays as it was")
	})
	g.awaitReady(true, "with the configuration")
	assert.NotContains(t, g.Log(), "is not reached")
}

// While configurations change, each answer is by one of them: no request sees a part of one and a part of the next.
func TestEachAnswerIsByOneConfiguration(t *testing.T) {
	t.Parallel()
	const callers, changes = 8, 10
	m := manage(t)
	g := managed(t, server.Start(t).Addr(), m.address)
	require.Equal(t, "ACK", m.setAnd(yearly("shop", 1_000_000, "a", "b", "c")))
	ctx, cancel := context.WithCancel(t.Context())
	seen := sync.Map{}
	var asked atomic.Int64
	var load sync.WaitGroup
	for range callers {
		load.Go(func() {
			for ctx.Err() == nil {
				response, err := g.ShouldRateLimit(t.Context(), ask("shop", 0, "a=1", "b=1", "c=1"))
				if !assert.NoError(t, err) {
					return
				}
				version := response.Statuses[0].CurrentLimit.GetRequestsPerUnit()
				for _, s := range response.Statuses {
					assert.Equal(t, version, s.CurrentLimit.GetRequestsPerUnit())
				}
				assert.Equal(t, rls.RateLimitResponse_OK, response.OverallCode)
				seen.Store(version, true)
				asked.Add(1)
			}
		})
	}
	for i := range uint32(changes) {
		before := asked.Load()
		if i%5 == 0 {
			assert.Contains(t, m.setAnd(yearly("shop", 5, "a", "a", "b", "c")), "is there twice")
		}
		assert.Equal(t, "ACK", m.setAnd(yearly("shop", 1_000_001+i, "a", "b", "c")))
		await(t, "requests go on", func() bool { return asked.Load() > before+callers })
	}
	cancel()
	load.Wait()
	versions := 0
	seen.Range(func(version, _ any) bool {
		versions++
		assert.GreaterOrEqual(t, version, uint32(1_000_000), "one that was refused")
		return true
	})
	assert.Greater(t, versions, changes/2)
}

// The configuration stays while the server is away. When it is back, what it has counts, whatever the number of its
// version.
func TestTheConfigurationStaysWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	m := manage(t)
	g := managed(t, server.Start(t).Addr(), m.address)
	require.Equal(t, "ACK", m.setAnd(yearly("shop", 10, "user")))
	m.grpc.Stop()
	await(t, "the gateway knows", func() bool { return g.metric("throttle_gateway_xds_connected") == 0 })
	await(t, "the log tells", func() bool { return strings.Contains(g.Log(), "the management server is not reached") })
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	g.awaitReady(true, "with the last configuration")
	m.listen(m.address)
	m.set(yearly("shop", 20, "user")) // version 1 again
	await(t, "it has come", func() bool { return m.answer() == "ACK" })
	assert.Equal(t, "OK 18", g.asks(ask("shop", 0, "user=1")))
	assert.EqualValues(t, 1, g.metric("throttle_gateway_xds_connected"))
}

// A gateway that starts while the server is away gets its configuration when there is one.
func TestTheServerMayComeAfterTheGateway(t *testing.T) {
	t.Parallel()
	m := manage(t)
	m.grpc.Stop()
	g := managed(t, server.Start(t).Addr(), m.address)
	await(t, "the log tells", func() bool { return strings.Contains(g.Log(), "the management server is not reached") })
	m.listen(m.address)
	m.set(yearly("shop", 10, "user"))
	g.awaitReady(true, "with the first configuration")
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
}

// A server that hangs is noticed by the pings of gRPC, and left.
func TestAServerThatHangsIsLeft(t *testing.T) {
	t.Parallel()
	m := manage(t)
	link := topology.LinkToAddress(t, m.address)
	g := managed(t, server.Start(t).Addr(), fmt.Sprint("127.0.0.1:", link.Port), "CONFIG_GRPC_XDS_SERVER_KEEPALIVE=10s")
	require.Equal(t, "ACK", m.setAnd(yearly("shop", 10, "user")))
	link.Hold()
	await(t, "the gateway knows", func() bool { return g.metric("throttle_gateway_xds_connected") == 0 })
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	m.set(yearly("shop", 20, "user"))
	link.Release()
	await(t, "it has come", func() bool { return m.answer() == "ACK" })
	assert.Equal(t, "OK 18", g.asks(ask("shop", 0, "user=1")))
}

// Certificates are read again with each connection: the server's, its authority, and those of the gateway.
func TestCertificatesOfTheManagementServerAreReadAgain(t *testing.T) {
	t.Parallel()
	move := func(from, to string) {
		for _, name := range []string{"crt", "key"} {
			require.NoError(t, os.Rename(filepath.Join(from, name), filepath.Join(to, name)))
		}
	}
	mine, theirs := t.TempDir(), t.TempDir() // of the gateway, and of the server, which each knows of the other
	options := func() grpc.ServerOption {
		client, clients := server.Certificate(t)
		own, _ := server.Certificate(t)
		pair, err := tls.LoadX509KeyPair(own+"/crt", own+"/key")
		require.NoError(t, err)
		move(client, mine)
		move(own, theirs)
		return grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients,
			ClientAuth: tls.RequireAndVerifyClientCert}))
	}
	m := manage(t, options())
	redis := server.Start(t).Addr()
	secure := []string{"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=" + mine + "/crt", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY=" + mine + "/key",
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=" + theirs + "/crt"}
	g := managed(t, redis, m.address, secure...)
	require.Equal(t, "ACK", m.setAnd(yearly("shop", 10, "user")))
	m.grpc.Stop()
	next := options()
	m.listen(m.address, next)
	m.set(yearly("shop", 20, "user"))
	await(t, "the new certificates are those of the next connection", func() bool { return m.answer() == "ACK" })
	assert.Equal(t, "OK 19", g.asks(ask("shop", 0, "user=1")))

	named := managed(t, redis, m.address, append(secure, "CONFIG_GRPC_XDS_SERVER_TLS_SAN=127.0.0.1")...)
	named.awaitReady(true, "by the name in the certificate")
	wrong := managed(t, redis, m.address, append(secure, "CONFIG_GRPC_XDS_SERVER_TLS_SAN=envoy-gateway")...)
	await(t, "another name is told", func() bool {
		return strings.Contains(wrong.Log(), "envoy-gateway") && strings.Contains(wrong.Log(), "x509")
	})
	wrong.awaitReady(false, "with a server that is another")
}

// Large configurations come by default, and one that is larger than a setting allows is told with the setting, and
// changes nothing.
func TestLargeConfigurations(t *testing.T) {
	t.Parallel()
	m := manage(t)
	redis := server.Start(t).Addr()
	g := managed(t, redis, m.address)
	require.Equal(t, "ACK", m.setAnd(many("shop", 10_000, 6<<20)))
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, fmt.Sprintf("user=%0*d", (6<<20)/10_000, 9_999))))

	small := manage(t)
	g = managed(t, redis, small.address, "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=100000")
	require.Equal(t, "ACK", small.setAnd(yearly("web", 10, "user")))
	small.set(many("web", 100, 200_000))
	await(t, "the log names the setting", func() bool {
		return strings.Contains(g.Log(), "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES") && strings.Contains(g.Log(), "100000")
	})
	assert.Equal(t, "OK 9", g.asks(ask("web", 0, "user=1")))
	small.set(yearly("web", 20, "user"))
	await(t, "a smaller one comes", func() bool { return small.answer() == "ACK" })
	assert.Equal(t, "OK 18", g.asks(ask("web", 0, "user=1")))
}

// What Envoy Gateway starts as its rate limit service starts wherever the program is, and answers by TLS.
func TestEnvoyGatewayStartsTheGateway(t *testing.T) {
	t.Parallel()
	dir, pool := server.Certificate(t)
	m := envoyGateway(t, dir, pool)
	g := start(t, server.Start(t).Addr(), "", byEnvoyGateway(m.address, dir+"/crt", dir+"/key", dir+"/crt")...)
	response, _ := g.get("/healthcheck", nil)
	assert.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "ACK", m.setAnd(yearly("shop", 10, "user")))
	got, err := g.asksByTLS(&tls.Config{RootCAs: pool})
	require.NoError(t, err)
	assert.Equal(t, "OK 9", got)
}

// What cannot be is refused at the start.
func TestSettingsOfXDSThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	const xds = "CONFIG_TYPE=GRPC_XDS_SOTW"
	for variable, want := range map[string]string{
		"CONFIG_TYPE=XDS": "CONFIG_TYPE=XDS: expected FILE or GRPC_XDS_SOTW",
		"CONFIG_GRPC_XDS_SERVER_URL=https://envoy-gateway:18001": "expected host:port; CONFIG_GRPC_XDS_SERVER_USE_TLS is for TLS",
		"CONFIG_GRPC_XDS_NODE_METADATA=zone":                     "CONFIG_GRPC_XDS_NODE_METADATA=zone: expected key=value,key=value",
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/x.pem":               "set CONFIG_GRPC_XDS_SERVER_USE_TLS",
		"CONFIG_GRPC_XDS_SERVER_KEEPALIVE=1s":                    "CONFIG_GRPC_XDS_SERVER_KEEPALIVE=1s: expected at least 10s",
		"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=-1s":      "must be positive",
		"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=soon":     "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=soon: expected a duration",
		"XDS_CLIENT_BACKOFF_MAX_INTERVAL=1s":                     "XDS_CLIENT_BACKOFF_MAX_INTERVAL must not be less",
		"XDS_CLIENT_BACKOFF_RANDOM_FACTOR=2":                     "XDS_CLIENT_BACKOFF_RANDOM_FACTOR=2: expected 0 to 1",
		"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=0":                     "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=0: expected 1 to",
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=a":            "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=a: expected name:value,name:value",
	} {
		env := []string{variable}
		if !strings.HasPrefix(variable, "CONFIG_TYPE") {
			env = append(env, xds)
		}
		assert.Contains(t, fails(t, env...), want, variable)
	}
}
