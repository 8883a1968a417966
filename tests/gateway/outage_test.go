package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// ready is what a proxy hears that asks whether it should come here, by HTTP and by gRPC.
func (g *gateway) ready() (bool, bool) {
	g.t.Helper()
	response, body := g.get("/healthcheck", nil)
	return response.StatusCode == http.StatusOK && body == "OK", g.serves("ratelimit")
}

func (g *gateway) serves(service string) bool {
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	r, err := healthpb.NewHealthClient(g.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	return err == nil && r.Status == healthpb.HealthCheckResponse_SERVING
}

func (g *gateway) awaitReady(want bool, when string) {
	g.t.Helper()
	await(g.t, "ready is "+strconv.FormatBool(want)+" "+when, func() bool {
		byHTTP, byGRPC := g.ready()
		return byHTTP == want && byGRPC == want
	})
}

// Health follows Redis without traffic, since traffic follows health: after an outage at the start, while nobody asks,
// and with requests. The process lives all the while. A gateway whose health does not depend on Redis learns of its
// return, too, for the metric that tells of it.
func TestHealthFollowsRedisWithoutTraffic(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := start(t, s.Addr(), basic, "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true", "REDIS_TIMEOUT=1s")
	local := start(t, s.Addr(), "redis_down: local"+basic, "REDIS_TIMEOUT=1s")
	g.awaitReady(true, "at the start")
	s.Kill()
	g.awaitReady(false, "after an outage that no request has met")
	assert.True(t, g.serves("live"))
	response, _ := g.get("/livez", nil)
	assert.Equal(t, http.StatusOK, response.StatusCode)
	for range 6 {
		_ = g.asks(ask("shop", 0, "user=1"))
	}
	require.EqualValues(t, 1, g.metric("throttle_gateway_redis_out"))
	late := start(t, s.Addr(), basic, "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true", "REDIS_TIMEOUT=1s")
	late.awaitReady(false, "as Redis was out at the start")
	await(t, "the breaker is open", func() bool {
		_ = local.asks(ask("shop", 0, "user=1"))
		return local.metric("throttle_gateway_redis_out") == 1
	})
	local.awaitReady(true, "as redis_down decides")
	s.Restart()
	g.awaitReady(true, "as Redis is back")
	late.awaitReady(true, "as Redis is there")
	for _, g := range []*gateway{g, local} {
		await(t, "the breaker is closed", func() bool { return g.metric("throttle_gateway_redis_out") == 0 })
	}
	assert.Zero(t, g.metric("throttle_gateway_decisions_total", `by="server"`), "nobody asked")
}

// While Redis is down, hangs, is full or loads its data, the policy of the domain decides, by gRPC and by /check, and
// Redis does when it is back.
func TestRedisIsDown(t *testing.T) {
	t.Parallel()
	var loaded func()
	for how, fault := range map[string]struct{ begin, end func(*server.Server) }{
		"killed": {(*server.Server).Kill, (*server.Server).Restart}, "stands still": {(*server.Server).Pause, (*server.Server).Resume},
		"is full": {
			func(s *server.Server) { s.MustDo("CONFIG", "SET", "maxmemory", "1") },
			func(s *server.Server) { s.MustDo("CONFIG", "SET", "maxmemory", "0") },
		},
		"loads": {func(s *server.Server) { loaded = s.LoadForMinutes(t) }, func(*server.Server) { loaded() }},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			check := func(g *gateway, user string) int {
				response, _ := g.get("/check/", http.Header{"X-User": {user}})
				return response.StatusCode
			}
			// Both ask again where the machine is too busy, for a while.
			checks := func(g *gateway, want int) (status int) {
				for range 20 {
					if status = check(g, "2"); status == want || status != http.StatusServiceUnavailable || !g.saysTooBusy() {
						break
					}
				}
				return status
			}
			asks := func(g *gateway) (answer string) {
				for range 20 {
					if answer = g.asks(ask("shop", 0, "user=2")); !isTooBusy(answer) {
						break
					}
				}
				return answer
			}
			byServer := func(g *gateway) float64 { return g.metric("throttle_gateway_decisions_total", `by="server"`) }
			policies := map[string]struct {
				says   string
				status int
			}{"fail": {"code = Unavailable", 503}, "open": {"OK -", 200}, "closed": {"OVER -!", 429}, "local": {"OK ", 200}}
			gateways := map[string]*gateway{}
			for policy := range policies {
				g := start(t, s.Addr(), "redis_down: "+policy+basic+routesOfHostile, "REDIS_TIMEOUT=200ms", "CACHE_KEY_PREFIX="+policy)
				await(t, "Redis decides", func() bool { check(g, "1"); return byServer(g) > 0 })
				gateways[policy] = g
			}
			fault.begin(s)
			for policy, want := range policies {
				g := gateways[policy]
				for i := range 5 { // some ask Redis, the others find the breaker open
					require.Contains(t, asks(g), want.says, "%s, request %d", policy, i)
					require.Equal(t, want.status, checks(g, want.status), "%s, request %d", policy, i)
				}
				assert.EqualValues(t, 1, g.metric("throttle_gateway_redis_out"), policy)
				assert.NotContains(t, g.Log(), "user=", "no key is in a log")
			}
			assert.Equal(t, "OVER 0!", asks(gateways["local"]), "ten are the limit")
			assert.Equal(t, 429, checks(gateways["local"], 429))
			fault.end(s)
			for policy, g := range gateways {
				before := byServer(g)
				await(t, policy+" asks Redis again", func() bool { check(g, "3"); return byServer(g) > before })
			}
		})
	}
}

func TestAPasswordThatChangesIsAnOutage(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("ACL", "SETUSER", "gateway", "on", ">secret", "~*", "+cl.limit", "+cl.mlimit", "+cl.refund")
	g := start(t, s.Addr(), "redis_down: closed"+basic, "REDIS_AUTH=gateway:secret")
	require.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	s.MustDo("ACL", "SETUSER", "gateway", "resetpass", ">other")
	s.MustDo("CLIENT", "KILL", "USER", "gateway")
	require.Equal(t, "OVER -!", g.asks(ask("shop", 0, "user=1")))
	s.MustDo("ACL", "SETUSER", "gateway", "resetpass", ">secret")
	await(t, "Redis decides again", func() bool { return strings.HasPrefix(g.asks(ask("shop", 0, "path=/")), "OK") })
}

// Whatever keeps Redis from deciding is an outage, for which the domain has a policy, and the log says at the start
// what is wrong.
func TestWhateverKeepsRedisFromDecidingIsAnOutage(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("ACL", "SETUSER", "gateway", "on", ">secret", "~*", "+cl.limit", "+cl.mlimit", "+cl.refund")
	s.MustDo("ACL", "SETUSER", "other", "on", ">secret", "~elsewhere:*", "+cl.limit")
	plain, bare := server.Start(t, server.WithoutModule()), server.Start(t, server.WithoutModule())
	bare.MustDo("ACL", "SETUSER", "default", "-@scripting")
	dir, _ := server.Certificate(t)
	_, byTLS := tlsServer(t, dir)
	for name, c := range map[string]struct {
		at, says string
		env      []string
	}{
		"no module":          {plain.Addr(), "loadmodule", []string{"REDIS_COMMANDS=module"}},
		"no functions":       {bare.Addr(), "+fcall", nil},
		"a wrong password":   {s.Addr(), "check REDIS_AUTH", []string{"REDIS_AUTH=gateway:wrong"}},
		"no permission":      {s.Addr(), "+cl.limit +cl.mlimit +cl.refund", []string{"REDIS_AUTH=other:secret"}},
		"an unknown issuer":  {byTLS, "REDIS_TLS_CACERT", []string{"REDIS_TLS=true"}},
		"no TLS there":       {s.Addr(), "deadline exceeded", []string{"REDIS_TLS=true", "REDIS_TIMEOUT=500ms"}}, // it waits for a line
		"no address":         {"localhost", "expected host:port", nil},
		"nobody at the port": {"127.0.0.1:1", "refused", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for policy, want := range map[string]string{"fail": "code = Unavailable", "open": "OK -", "closed": "OVER -!", "local": "OK 9"} {
				g := start(t, c.at, "redis_down: "+policy+basic+routesOfHostile, append(c.env, "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true")...)
				await(t, policy+": the log says what is wrong", func() bool {
					return strings.Contains(g.Log(), "Redis does not decide") && strings.Contains(g.Log(), c.says)
				})
				assert.NotContains(t, g.Log(), "secret")
				status := map[string]int{"fail": 503, "open": 200, "closed": 429, "local": 200}[policy]
				user := 1 // another one for each try: a gateway that is too busy to tell an outage decides nothing
				await(t, policy+": a request is decided by it", func() bool {
					user++
					return strings.Contains(g.asks(ask("shop", 0, "user="+strconv.Itoa(user))), want)
				})
				await(t, policy+": so is one by HTTP", func() bool {
					user++
					response, _ := g.get("/check/", http.Header{"X-User": {strconv.Itoa(user)}})
					return response.StatusCode == status
				})
				byHTTP, byGRPC := g.ready()
				assert.False(t, byHTTP || byGRPC, policy)
			}
		})
	}
}

// Keys of several slots are no call for a server of a cluster. What the log advises then helps, each by itself.
func TestTheLogSaysWhatHelpsAgainstSlotsThatDiffer(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Cluster())
	s.MustDo("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	await(t, "the cluster is up", func() bool { return strings.Contains(s.MustDo("CLUSTER", "INFO").Text, "cluster_state:ok") })
	both := ask("shop", 0, "user=1", "path=/")
	g := start(t, s.Addr(), basic)
	require.NotEqual(t, "OK 9 19", g.asks(both))
	await(t, "the log says what helps", func() bool { return strings.Contains(g.Log(), "CROSSSLOT") })
	assert.Contains(t, g.Log(), "set REDIS_TYPE=CLUSTER, or hash_tag: domain in the files")
	assert.Equal(t, "OK 9 19", start(t, s.Addr(), basic, "REDIS_TYPE=CLUSTER").asks(both))
	assert.Equal(t, "OK 9 19", start(t, s.Addr(), "hash_tag: domain"+basic).asks(both))
}

// While one master of a cluster is out, requests for the others are decided: proxies should come here. Its outage ends
// when its replica has taken over, which nobody who asks the old one would learn of.
func TestAnOutageEndsWhenAReplicaTakesOver(t *testing.T) {
	t.Parallel()
	for how, fails := range map[string]func(*server.Server){"killed": (*server.Server).Kill, "hangs": (*server.Server).Pause} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := topology.StartCluster(t)
			g := start(t, c.Nodes[0].Addr(), basic, "REDIS_TYPE=CLUSTER", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true", "REDIS_TIMEOUT=1s")
			g.awaitReady(true, "at the start")
			master := c.Masters()[1]
			replica := c.ReplicaOf(master)
			fails(master)
			asked := 0
			await(t, "a breaker is open", func() bool {
				asked++
				began := time.Now()
				_ = g.asks(ask("shop", 0, "user="+strconv.Itoa(asked)))
				t.Logf("request %d took %v", asked, time.Since(began).Round(time.Millisecond))
				return g.metric("throttle_gateway_redis_out") == 1
			})
			for range 20 {
				byHTTP, byGRPC := g.ready()
				require.True(t, byHTTP && byGRPC, "other nodes decide")
			}
			replica.MustDo("CLUSTER", "FAILOVER", "TAKEOVER")
			await(t, "no breaker is open", func() bool { return g.metric("throttle_gateway_redis_out") == 0 })
			for i := range 40 {
				assert.Regexp(t, "^OK", g.asks(ask("shop", 0, "user=new"+strconv.Itoa(i))))
			}
		})
	}
}

// A request that asks several masters of a cluster at the same time does not wait for one that is left alone.
func TestAMasterThatIsLeftAloneHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	const plenty = `
compat: true
redis_down: open
domain: shop
descriptors:
- key: user
  rate_limit: {unit: year, requests_per_unit: 1000000}
`
	g := start(t, c.Nodes[0].Addr(), plenty, "REDIS_TYPE=CLUSTER", "REDIS_TIMEOUT=1s")
	var users []string
	for i := range 12 {
		users = append(users, "user="+strconv.Itoa(i))
	}
	request := ask("shop", 0, users...)
	require.Regexp(t, "^OK", g.asks(request))
	c.Masters()[1].Pause()
	await(t, "a breaker is open", func() bool { _ = g.asks(request); return g.metric("throttle_gateway_redis_out") == 1 })
	began := time.Now()
	for range 30 {
		require.Regexp(t, "^OK", g.asks(request))
	}
	assert.Less(t, time.Since(began), 15*time.Second, "each would wait for a second")
}

// A server that is no master any more is left: the next connection goes to where the address leads now.
func TestADemotedRedisBehindAnAddressIsLeft(t *testing.T) {
	t.Parallel()
	old, next := server.Start(t), server.Start(t)
	link := topology.LinkTo(t, old)
	g := start(t, fmt.Sprint("127.0.0.1:", link.Port), basic, "REDIS_TIMEOUT=1s")
	require.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	link.LeadTo(next)
	old.MustDo("REPLICAOF", "127.0.0.1", "1")
	assert.Contains(t, g.asks(ask("shop", 0, "user=2")), "code = Unavailable")
	await(t, "the next one decides", func() bool { return strings.HasPrefix(g.asks(ask("shop", 0, "user=2")), "OK") })
	assert.Positive(t, calls(next))
}

// While a slot moves to a master that has neither module nor library, no request fails.
func TestASlotMovesToAMasterWithoutTheLibrary(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	c := topology.StartCluster(t, server.WithoutModule())
	g := start(t, c.Nodes[0].Addr(), basic, "REDIS_TYPE=CLUSTER", "REDIS_TIMEOUT=2s")
	require.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	var from *server.Server
	var key string
	for _, master := range c.Masters() {
		if keys := master.MustDo("KEYS", "*").Elems; len(keys) > 0 {
			from, key = master, keys[0].Text
		}
	}
	require.NotNil(t, from)
	to := c.Masters()[0]
	if to == from {
		to = c.Masters()[1]
	}
	from.MustDo("DEL", key) // a key that the old master has not is asked for at the new one
	to.Do("FUNCTION", "FLUSH")
	c.BeginMove(c.Slot(key), from, to)
	for left := 9; left >= 0; left-- {
		require.Equal(t, fmt.Sprint("OK ", left), g.asks(ask("shop", 0, "user=1")))
		if left == 5 {
			c.EndMove(c.Slot(key), from, to)
		}
	}
	assert.EqualValues(t, 1, to.MustDo("EXISTS", key).Int)
}
