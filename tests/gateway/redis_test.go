package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// A user that has only what the page names is enough for every kind of request, and one with less is told in the log.
func TestAUserNeedsTheCommandsThatThePageNames(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	_, commands, found := strings.Cut(page(t), "The user of Redis needs `")
	require.True(t, found)
	commands, _, _ = strings.Cut(commands, "`")
	rules := append([]string{"ACL", "SETUSER", "gateway", "on", ">secret", "resetkeys", "~{shop|*"}, strings.Fields(commands)...)
	s.MustDo(rules...)
	s.MustDo("ACL", "SETUSER", "other", "on", ">secret", "~elsewhere:*", "+cl.limit")

	g := start(t, s.Addr(), basic, "REDIS_AUTH=gateway:secret")
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

	for _, auth := range []string{"other:secret", "gateway:wrong"} {
		g := start(t, s.Addr(), basic, "REDIS_AUTH="+auth)
		assert.Contains(t, g.asks(ask("shop", 0, "user=1")), "code =", auth)
		await(t, "the log names the error: "+auth, func() bool { return strings.Contains(g.Log(), "level=ERROR") })
		assert.NotContains(t, g.Log(), "secret", "no password is in a log")
	}
}

// A gateway reaches Redis by TLS if it knows who has signed the certificate, and not otherwise.
func TestRedisIsReachedByTLS(t *testing.T) {
	t.Parallel()
	dir, _ := server.Certificate(t)
	cert, key := dir+"/crt", dir+"/key"
	port := freePort(t)
	s, err := server.TryStart(t, server.Config("tls-port "+port, "tls-auth-clients yes", "tls-cert-file "+cert, "tls-key-file "+key, "tls-ca-cert-file "+cert))
	if err != nil && strings.Contains(err.Error(), ">>> 'tls-") {
		t.Skip("this server was built without TLS")
	}
	require.NoError(t, err)
	address := s.Host + ":" + port
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
}

// Sentinels promote the replica, and the gateway goes on there with the units that are left.
func TestTheGatewayFollowsSentinels(t *testing.T) {
	t.Parallel()
	master := server.Start(t)
	replica := server.Start(t, server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, replica)
	sentinels := topology.Watch(t, 3, master, 1)
	g := start(t, topology.MasterName+","+strings.Join(sentinels.Addrs(), ","), basic, "REDIS_TYPE=SENTINEL", "REDIS_TIMEOUT=1s", "DENIALS=-1")
	require.Equal(t, "OK 0", g.asks(ask("shop", 10, "user=1")))
	topology.AwaitReplicas(t, master, replica)
	master.Kill()
	await(t, "the replica is asked", func() bool { return g.asks(ask("shop", 0, "user=1")) == "OVER 0!" })
	assert.Positive(t, calls(replica))
}
