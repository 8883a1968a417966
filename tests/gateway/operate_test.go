package gateway_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// After SIGTERM the health fails while requests are still served, for SHUTDOWN_DELAY: proxies go elsewhere before the
// listeners close.
func TestAProcessDrainsBeforeItStops(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic+routesOfHostile, "SHUTDOWN_DELAY=10m")
	g.awaitReady(true, "at the start")
	require.NoError(t, g.Cmd.Process.Signal(syscall.SIGTERM))
	g.awaitReady(false, "it drains")
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	response, _ := g.get("/check/", http.Header{"X-User": {"1"}})
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.True(t, response.Close, "the next request opens another connection")
	response, _ = g.get("/livez", nil)
	assert.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, g.Cmd.Process.Kill())
}

// A second signal ends a process at once that drains, or waits for requests under way.
func TestASecondSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic, "SHUTDOWN_DELAY=10m")
	require.NoError(t, g.Cmd.Process.Signal(syscall.SIGTERM))
	g.awaitReady(false, "it drains")
	require.NoError(t, g.Cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-g.Ended:
	case <-time.After(patience):
		t.Error("the process does not end")
	}
}

// While one gateway takes the place of another under load, no request is lost and none is let through unasked: each
// unit is given out once.
func TestARollingUpdateLosesNoRequest(t *testing.T) {
	t.Parallel()
	const units = 300
	config := fmt.Sprintf("domain: web\nroutes: [{match: /, descriptors: [[{key: http}]]}]\ndescriptors:\n- {key: http, limits: [FIXED %d/y]}\n- {key: grpc, limits: [FIXED %d/y]}\n", units, units)
	redis := server.Start(t).Addr()
	old := start(t, redis, config, "SHUTDOWN_DELAY=2s")
	next := start(t, redis, config, "SHUTDOWN_DELAY=2s")
	var ready atomic.Pointer[[]*gateway] // as an orchestrator's probes see it
	both := []*gateway{old, next}
	ready.Store(&both)
	addresses := manual.NewBuilderWithScheme("gateways")
	addresses.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: old.At["grpc"]}, {Addr: next.At["grpc"]}}})
	conn, err := grpc.NewClient("gateways:///", grpc.WithResolvers(addresses), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`))
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var byHTTP, byGRPC, asked atomic.Int64
	var load sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				all := *ready.Load()
				response, err := http.Get(all[n%len(all)].url("/check/"))
				if !assert.NoError(t, err) {
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if !assert.Contains(t, []int{200, 429}, response.StatusCode) {
					return
				}
				if asked.Add(1); response.StatusCode == 200 {
					byHTTP.Add(1)
				}
				time.Sleep(time.Millisecond) // so that the tests beside it have a processor
			}
		})
		load.Go(func() {
			client := rls.NewRateLimitServiceClient(conn)
			for ctx.Err() == nil {
				response, err := client.ShouldRateLimit(t.Context(), ask("web", 0, "grpc=x"))
				if !assert.NoError(t, err) {
					return
				}
				if asked.Add(1); response.OverallCode == rls.RateLimitResponse_OK {
					byGRPC.Add(1)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	await(t, "there is load", func() bool { return asked.Load() > 100 })
	require.NoError(t, old.Cmd.Process.Signal(syscall.SIGTERM))
	old.awaitReady(false, "it drains")
	one := []*gateway{next}
	ready.Store(&one)
	addresses.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: next.At["grpc"]}}})
	select {
	case <-old.Ended:
	case <-time.After(patience):
		t.Error("the old process does not end")
	}
	after := asked.Load()
	await(t, "the load goes on, and spends what there is", func() bool {
		return t.Failed() || (asked.Load() > after+100 && byHTTP.Load() >= units && byGRPC.Load() >= units)
	})
	cancel()
	load.Wait()
	assert.Equal(t, int64(units), byHTTP.Load())
	assert.Equal(t, int64(units), byGRPC.Load())
}

// In a cluster that has lost a master for good, the others decide: the health does not flap.
func TestHealthDoesNotFlapWithoutAMaster(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t, server.Config("cluster-require-full-coverage no"))
	g := start(t, c.Nodes[0].Addr(), basic, "REDIS_TYPE=CLUSTER", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true", "REDIS_TIMEOUT=1s")
	g.awaitReady(true, "at the start")
	master := c.Masters()[0] // which would be asked about the first key of the domain in one of three cases
	c.ReplicaOf(master).Kill()
	master.Kill()
	for deadline := time.Now().Add(8 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		byHTTP, _ := g.ready()
		require.True(t, byHTTP, "two masters decide")
	}
}

// A rule with a ban bans whom its limits deny as often as AFTER says, by gRPC and by HTTP, whatever other rules a
// request has.
func TestARuleBansWhoIsDeniedTooOften(t *testing.T) {
	t.Parallel()
	const config = `domain: web
routes: [{match: /login, descriptors: [[{key: login, value: "{header:X-User}"}], [{key: all}]]}]
descriptors:
- {key: login, limits: [FIXED 2/y BAN 1h AFTER 3/1h]}
- {key: tried, shadow_mode: true, limits: [FIXED 1/y BAN 1h]}
- {key: all, limits: [FIXED 100/y]}
`
	for name, own := range map[string]string{"all or none": "", "compat": "compat: true\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			g := start(t, s.Addr(), own+config)
			banned := func(user string) bool {
				return s.MustDo("CL.PEEK", "{web|login="+user+"}", "FIXED", "1000000/y").Elems[1].Int == 1
			}
			for i := range 4 {
				require.Equal(t, i >= 2, strings.HasPrefix(g.asks(ask("web", 0, "all=", "login=a")), "OVER"), i)
				assert.False(t, banned("a"), "AFTER counts three")
			}
			require.Contains(t, g.asks(ask("web", 0, "login=a", "all=")), "OVER")
			assert.True(t, banned("a"))
			for i := range 5 {
				response, _ := g.get("/check/login", http.Header{"X-User": {"b"}})
				assert.Equal(t, i >= 2, response.StatusCode == 429, i)
			}
			assert.True(t, banned("b"))
			s.MustDo("CL.BAN", "{web|login=b}", "0")
			s.MustDo("DEL", "{web|login=a}")
			assert.Regexp(t, "^OK", g.asks(ask("web", 0, "login=c", "all=")))
			for range 3 {
				assert.Regexp(t, "^OK", g.asks(ask("web", 0, "tried=x")), "a shadow neither denies nor bans")
			}
		})
	}
}

// A ban by hand holds in every kind of shadow, and a shadow never denies by itself.
func TestABanHoldsInAShadow(t *testing.T) {
	t.Parallel()
	for mode, shadow := range map[string]string{"false": "shadow_mode: true, ", "true": ""} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			g := start(t, s.Addr(), "domain: web\ndescriptors:\n- {key: user, "+shadow+"limits: [FIXED 1/y]}\n- {key: free, limits: [FIXED 9/y]}\n", "SHADOW_MODE="+mode)
			for range 3 {
				assert.Regexp(t, "^OK", g.asks(ask("web", 0, "user=1", "free=1")))
			}
			s.MustDo("CL.BAN", "{web|user=1}", "1h")
			assert.Regexp(t, "^OVER", g.asks(ask("web", 0, "user=1", "free=1")))
			assert.Regexp(t, "^OVER", g.asks(ask("web", 0, "user=1")))
			assert.Regexp(t, "^OK", g.asks(ask("web", 0, "user=2")))
			s.MustDo("CL.BAN", "{web|user=1}", "0")
			await(t, "it is forgotten", func() bool { return strings.HasPrefix(g.asks(ask("web", 0, "user=1")), "OK") })
		})
	}
}

// A ban holds where several quotas or several calls decide, and leaves nothing charged there.
func TestABanDeniesWhateverElseARequestHas(t *testing.T) {
	t.Parallel()
	const config = "domain: web\ndescriptors:\n- {key: a, quota_mode: true, limits: [FIXED 9/y]}\n- {key: b, quota_mode: true, limits: [FIXED 9/y]}\n" +
		"- {key: c, limits: [FIXED 9/y]}\n- {key: d, batch: 5, limits: [FIXED 90/y]}\n"
	many := []string{"c=0", "c=1", "c=2", "c=3", "c=4", "c=5", "c=6", "c=7", "c=8"}
	for _, shadow := range []string{"false", "true"} {
		t.Run(shadow, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			g := start(t, s.Addr(), config, "SHADOW_MODE="+shadow)
			s.MustDo("CL.BAN", "{web|a=1}", "1h")
			s.MustDo("CL.BAN", "{web|c=8}", "1h")
			s.MustDo("CL.BAN", "{web|d=1}", "1h")
			assert.Regexp(t, "^OVER", g.asks(ask("web", 0, "a=1", "b=1")), "one quota of two")
			assert.Regexp(t, "^OVER", g.asks(ask("web", 0, "a=1", "unknown=1")))
			assert.Regexp(t, "^OVER", g.asks(ask("web", 0, many...)), "in the second call")
			assert.Regexp(t, "^OVER", g.asks(ask("web", 0, "d=1")), "a key whose units come in batches")
			assert.Equal(t, "OK 8", g.asks(ask("web", 0, "c=0")), "nothing was charged")
			assert.Equal(t, "OK 8", g.asks(ask("web", 0, "b=1")))
		})
	}
}

// What goes wrong elsewhere is told as such: a domain that no file names by its name, once, and clients that leave as
// that.
func TestUnknownDomainsAndImpatientClientsAreTold(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := start(t, s.Addr(), basic)
	for range 3 {
		assert.Equal(t, "OK -", g.asks(ask("ship", 0, "user=1")))
	}
	for i := range 150 {
		_ = g.asks(ask(fmt.Sprint("many", i), 0, "user=1"))
	}
	assert.Equal(t, 3.0, g.metric("throttle_gateway_domain_not_found_total", `domain="ship"`))
	assert.Equal(t, 51.0, g.metric("throttle_gateway_domain_not_found_total", `domain="other"`))
	assert.Equal(t, 1, strings.Count(g.Log(), "domain=ship"))
	assert.Equal(t, 100, strings.Count(g.Log(), "nothing configures this domain"))
	var gone sync.WaitGroup
	for range 200 {
		gone.Go(func() { _ = g.askWithin(200*time.Microsecond, "1") })
	}
	gone.Wait()
	assert.Zero(t, g.metric("ratelimit_service_should_rate_limit_error", `err_type="redis_error"`))
}

// A second process does not take the socket of one that serves, nor does a prefix with an empty tag start.
func TestASecondProcessLeavesALiveSocketAlone(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "grpc")
	redis := server.Start(t).Addr()
	g := start(t, redis, basic, "GRPC_UDS="+socket)
	busy := filepath.Join(t.TempDir(), "busy") // a process that is too busy to take another connection
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer syscall.Close(fd)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: busy}))
	require.NoError(t, syscall.Listen(fd, 0))
	waits, err := net.Dial("unix", busy)
	require.NoError(t, err)
	defer waits.Close()
	for variable, says := range map[string]string{
		"GRPC_UDS=" + socket: "another process serves there", "GRPC_UDS=" + busy: "another process may serve there",
		"CACHE_KEY_PREFIX={}": "does not keep the keys of a domain together",
	} {
		cmd := kit.GatewayCommand(t, redis)
		cmd.Env = append(cmd.Env, "RUNTIME_ROOT="+filepath.Dir(g.Config), variable)
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }) // one that serves, which it must not
		printed, err := cmd.CombinedOutput()
		kill.Stop()
		var failed *exec.ExitError
		require.ErrorAs(t, err, &failed)
		assert.Contains(t, string(printed), says)
	}
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
}

// The metric that an alert asks is 1 while the newest files have a mistake, from the start on. The last right ones
// decide meanwhile.
func TestAMetricTellsOfFilesWithMistakes(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), "domain: [", "FORCE_START_WITHOUT_INITIAL_CONFIG=true")
	for _, step := range []struct {
		text   string
		failed float64
		answer string
	}{{"", 1, "no configuration has been loaded yet"}, {basic, 0, "OK 9"}, {"domain: shop\ndescriptors: [{}]\n", 1, "OK 8"}, {basic + "\n", 0, "OK 7"}} {
		if step.text != "" {
			g.write("limits.yaml", step.text)
		}
		await(t, "the metric follows", func() bool { return g.metric("throttle_gateway_config_load_failed") == step.failed })
		assert.Contains(t, g.asks(ask("shop", 0, "user=1")), step.answer)
	}
}

// A file that limits nothing is no mistake, but check does not pass it.
func TestCheckRefusesAFileWithoutDescriptors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(path, []byte("domain: web\n"), 0o644))
	printed, err := kit.GatewayCommand(t, "", "check", path).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(printed), `"web" has no descriptors`)
}

// All certificates are read again, and a pair that does not fit leaves the last one in use, with a line in the log.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	move := func(from, to, name string) {
		require.NoError(t, os.Rename(filepath.Join(from, name), filepath.Join(to, name)))
	}
	dir, old := server.Certificate(t)
	later, fresh := server.Certificate(t)
	clients, _ := server.Certificate(t)
	others, _ := server.Certificate(t)
	pair := func(dir string) []tls.Certificate {
		pair, err := tls.LoadX509KeyPair(dir+"/crt", dir+"/key")
		require.NoError(t, err)
		return []tls.Certificate{pair}
	}
	known, other := pair(clients), pair(others)
	g := start(t, server.Start(t).Addr(), basic, "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+dir+"/crt", "GRPC_SERVER_TLS_KEY="+dir+"/key",
		"GRPC_CLIENT_TLS_CACERT="+clients+"/crt")
	move(later, dir, "crt")
	await(t, "the log says so before anybody connects", func() bool { return strings.Contains(g.Log(), "GRPC_SERVER_TLS_CERT") })
	got, err := g.asksByTLS(&tls.Config{RootCAs: old, Certificates: known})
	require.NoError(t, err, "the new certificate has no key yet")
	assert.Equal(t, "OK 9", got)
	move(later, dir, "key")
	await(t, "the log says that it is right", func() bool { return strings.Contains(g.Log(), "right again") })
	assert.Equal(t, 1, strings.Count(g.Log(), "stays as it was"))
	_, err = g.asksByTLS(&tls.Config{RootCAs: fresh, Certificates: known})
	require.NoError(t, err)
	_, err = g.asksByTLS(&tls.Config{RootCAs: fresh, Certificates: other})
	require.Error(t, err)
	move(others, clients, "crt")
	_, err = g.asksByTLS(&tls.Config{RootCAs: fresh, Certificates: other})
	require.NoError(t, err, "the authority of clients is another one now")

	// Redis's: the authority and the own certificate are those of a server that comes back with others.
	dir, _ = server.Certificate(t)
	tried, at := tlsServer(t, dir, server.Config("tls-auth-clients yes"))
	g = start(t, at, basic, "REDIS_TLS=true", "REDIS_TLS_CACERT="+dir+"/crt", "REDIS_TLS_CLIENT_CERT="+dir+"/crt", "REDIS_TLS_CLIENT_KEY="+dir+"/key")
	require.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	require.NoError(t, os.Rename(dir+"/crt", dir+"/gone"))
	await(t, "the log names both that read it", func() bool {
		return strings.Contains(g.Log(), "REDIS_TLS_CACERT") && strings.Contains(g.Log(), "REDIS_TLS_CLIENT_CERT")
	})
	later, _ = server.Certificate(t)
	move(later, dir, "crt")
	move(later, dir, "key")
	tried.Kill()
	await(t, "the connections end", func() bool { return !strings.HasPrefix(g.asks(ask("shop", 0, "user=2")), "OK") })
	tried.Restart()
	await(t, "it is reached again", func() bool { return strings.HasPrefix(g.asks(ask("shop", 0, "user=3")), "OK") })
}
