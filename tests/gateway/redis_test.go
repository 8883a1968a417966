package gateway_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// A user that has only what the page names is enough for every kind of request, also in a cluster.
func TestAUserNeedsTheCommandsThatThePageNames(t *testing.T) {
	t.Parallel()
	named := func(after string) []string {
		_, commands, found := strings.Cut(shipped(t, "docs", "gateway-settings.md"), after+" `")
		require.True(t, found)
		commands, _, _ = strings.Cut(commands, "`")
		return strings.Fields(commands)
	}
	rules := append([]string{"ACL", "SETUSER", "gateway", "on", ">secret", "resetkeys", "~{shop|*"}, named("The user of Redis needs")...)
	for kind, options := range map[string][]server.Option{"SINGLE": nil, "CLUSTER": {server.Cluster()}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, allowed := server.Start(t, options...), rules
			if kind == "CLUSTER" {
				allowed = append(slices.Clone(rules), named("and in a cluster")...)
				s.MustDo("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
				await(t, "the cluster is up", func() bool { return strings.Contains(s.MustDo("CLUSTER", "INFO").Text, "cluster_state:ok") })
			}
			s.MustDo(allowed...)
			g := start(t, s.Addr(), basic, "REDIS_TYPE="+kind, "REDIS_AUTH=gateway:secret")
			assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
			assert.Equal(t, "OK 8 19", g.asks(ask("shop", 0, "user=1", "path=/")))
			assert.Equal(t, "OK 1", g.asks(ask("shop", 3, "several=x")))
			var many []string
			for i := range 9 {
				many = append(many, fmt.Sprintf("path=/%d", i))
			}
			assert.Contains(t, g.asks(ask("shop", 0, append(many, "user=banned")...)), "OVER")
			assert.Contains(t, g.asks(ask("shop", 11, append(many[:8:8], "user=2")...)), "OVER")
			assert.Equal(t, "OK 19", g.asks(ask("shop", 0, "path=/0")), "it was given back")
			assert.NotContains(t, g.Log(), "level=ERROR")
			assert.Empty(t, s.MustDo("ACL", "LOG").Elems, "nothing was refused")
		})
	}
}

// A gateway reaches Redis by TLS if it knows who has signed the certificate, and not otherwise.
func TestRedisIsReachedByTLS(t *testing.T) {
	t.Parallel()
	dir, _ := server.Certificate(t)
	cert, key := dir+"/crt", dir+"/key"
	_, address := tlsServer(t, dir, server.Config("tls-auth-clients yes"))
	own := []string{"REDIS_TLS_CLIENT_CERT=" + cert, "REDIS_TLS_CLIENT_KEY=" + key}
	g := start(t, address, basic, append(own, "REDIS_TLS=true", "REDIS_TLS_CACERT="+cert)...)
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	g = start(t, "rediss://"+address, basic, append(own, "REDIS_TLS_CACERT="+cert, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true")...)
	assert.Equal(t, "OK 8", g.asks(ask("shop", 0, "user=1")))
	for what, env := range map[string][]string{
		"an authority that is not known":           append(own, "REDIS_TLS=true"),
		"no name to verify, nor a known authority": append(own, "REDIS_TLS=true", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true"),
		"no certificate of its own":                {"REDIS_TLS=true", "REDIS_TLS_CACERT=" + cert},
	} {
		g = start(t, address, basic, env...)
		assert.Contains(t, g.asks(ask("shop", 0, "user=1")), "code = ", what)
	}
	other, _ := server.Certificate(t)
	g = start(t, address, basic, append(own, "REDIS_TLS=true", "REDIS_TLS_CACERT="+other+"/crt", "SSL_CERT_FILE="+cert)...)
	assert.Contains(t, g.asks(ask("shop", 0, "user=1")), "code = ", "an authority of the system where another is named")
}

// tlsServer starts a server that others and clients reach by TLS, at the address that it returns, and tests without.
func tlsServer(t *testing.T, dir string, o ...server.Option) (*server.Server, string) {
	t.Helper()
	port := server.FreePort(t)
	s, err := server.TryStart(t, append([]server.Option{server.Config(fmt.Sprint("tls-port ", port), "tls-auth-clients no", "tls-replication yes",
		"tls-cert-file "+dir+"/crt", "tls-key-file "+dir+"/key", "tls-ca-cert-file "+dir+"/crt")}, o...)...)
	if err != nil && strings.Contains(err.Error(), ">>> 'tls-") {
		t.Skip("this server was built without TLS")
	}
	require.NoError(t, err)
	return s, fmt.Sprintf("%s:%d", s.Host, port)
}

// All masters of a cluster are reached by TLS, those that the first one names, too.
func TestAClusterIsReachedByTLS(t *testing.T) {
	t.Parallel()
	dir, _ := server.Certificate(t)
	var masters []*server.Server
	var seed string
	const n, slots = 3, 16384
	for i := range n {
		s, at := tlsServer(t, dir, server.Cluster(), server.Config("tls-cluster yes"))
		s.MustDo("ACL", "SETUSER", "gateway", "on", ">secret", "~*", "+@all")
		own := []string{"CLUSTER", "ADDSLOTS"}
		for slot := slots * i / n; slot < slots*(i+1)/n; slot++ {
			own = append(own, strconv.Itoa(slot))
		}
		s.MustDo(own...)
		if seed == "" {
			seed = at
		} else {
			host, port, _ := net.SplitHostPort(seed)
			s.MustDo("CLUSTER", "MEET", host, port)
		}
		masters = append(masters, s)
	}
	await(t, "the nodes agree", func() bool {
		for _, s := range masters {
			state := server.ParseInfo(s.MustDo("CLUSTER", "INFO").Text)
			if state["cluster_state"] != "ok" || state["cluster_slots_ok"] != strconv.Itoa(slots) || state["cluster_size"] != strconv.Itoa(n) {
				return false
			}
		}
		return true
	})
	env := []string{"REDIS_TYPE=CLUSTER", "REDIS_TLS=true", "REDIS_TLS_CACERT=" + dir + "/crt"}
	g := start(t, seed, basic, append(env, "REDIS_AUTH=gateway:secret")...)
	for i := range 30 {
		require.Equal(t, "OK 9", g.asks(ask("shop", 0, fmt.Sprint("user=", i))))
	}
	for i, s := range masters {
		assert.Positive(t, calls(s), "master %d is asked", i)
	}
	for what, env := range map[string][]string{
		"a wrong password":                append(env, "REDIS_AUTH=gateway:wrong"),
		"an authority that is not known":  {"REDIS_TYPE=CLUSTER", "REDIS_TLS=true"},
		"no TLS, to a port that wants it": {"REDIS_TYPE=CLUSTER"},
	} {
		assert.Contains(t, start(t, seed, basic, append(env, "REDIS_TIMEOUT=1s")...).asks(ask("shop", 0, "user=1")), "code = ", what)
	}
}

// Sentinels, the master that they name and the replica that they promote are all reached by TLS.
func TestSentinelsAreReachedByTLS(t *testing.T) {
	t.Parallel()
	dir, _ := server.Certificate(t)
	master, at := tlsServer(t, dir)
	host, port, _ := net.SplitHostPort(at)
	replica, _ := tlsServer(t, dir, server.Config("replicaof "+host+" "+port))
	topology.AwaitReplicas(t, master, replica)
	name := topology.MasterName
	sentinel, sentinelAt := tlsServer(t, dir, server.Run(master.Program), server.Sentinel(), server.Config(
		fmt.Sprintf("sentinel monitor %s %s %s 1", name, host, port), "sentinel down-after-milliseconds "+name+" 1500"))
	await(t, "the Sentinel finds the replica", func() bool {
		return strings.Contains(sentinel.Info("sentinel")["master0"], "status=ok") && strings.Contains(sentinel.Info("sentinel")["master0"], "slaves=1")
	})
	env := []string{"REDIS_TYPE=SENTINEL", "REDIS_TLS=true", "REDIS_TIMEOUT=1s", "DENIALS=-1"}
	g := start(t, name+","+sentinelAt, basic, env...)
	assert.Contains(t, g.asks(ask("shop", 0, "user=1")), "code = ", "an authority that is not known")
	g = start(t, name+","+sentinelAt, basic, append(env, "REDIS_TLS_CACERT="+dir+"/crt")...)
	require.Equal(t, "OK 0", g.asks(ask("shop", 10, "user=1")))
	topology.AwaitReplicas(t, master, replica)
	master.Kill()
	await(t, "the replica is asked", func() bool { return g.asks(ask("shop", 0, "user=1")) == "OVER 0!" })
	assert.Positive(t, calls(replica))
}

// CL.TOP counts every denied request, though the gateway remembers denials and the server sees one.
func TestCLTopCountsEveryDeniedRequest(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("top", "100"))
	g := start(t, s.Addr(), basic)
	for range 302 {
		g.asks(ask("shop", 0, "path=/slow"))
	}
	key := s.MustDo("CL.TOP").Elems[0].Elems[1].Text
	require.Eventually(t, func() bool { return kit.LimitedOf(s, key) == 300 }, patience, 10*time.Millisecond, "%v", s.MustDo("CL.TOP"))
	calls, err := strconv.Atoi(s.Info("throttle")["throttle_calls"])
	require.NoError(t, err)
	assert.Less(t, calls, 100)
}

// The connections to Redis are counted, and calls that get none in time.
func TestThePoolOfConnectionsIsCounted(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := start(t, s.Addr(), basic, "REDIS_POOL_SIZE=3")
	require.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	const of = "throttle_gateway_redis_pool_"
	await(t, "no call has a connection", func() bool { return g.metric(of+"connections", `state="used"`) == 0 })
	connections := g.metric(of+"connections", `state="idle"`)
	assert.Positive(t, connections)
	assert.LessOrEqual(t, connections, 3.0)
	assert.GreaterOrEqual(t, g.metric(of+"misses_total"), connections)
	s.MustDo("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	await(t, "those that have ended are counted", func() bool {
		_ = g.asks(ask("shop", 0, "user=1"))
		return g.metric(of+"stale_total") > 0
	})
	_, text := g.getFrom("metrics", "/metrics", nil)
	for _, name := range []string{"waiting", "waits_total", "wait_seconds_total", "timeouts_total"} {
		assert.Contains(t, text, "\n"+of+name+" ")
	}
}
