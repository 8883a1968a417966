package topology

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// MasterName is what Sentinels call the master they watch.
const MasterName = "limits"

// Sentinels watch one master and its replicas.
type Sentinels []*server.Server

// Watch starts n Sentinels, of which a majority has to agree that the master is gone
// before they promote a replica. It returns when they all know each other and the
// replicas. Lines are for their configuration.
func Watch(t testing.TB, n int, master *server.Server, replicas int, lines ...string) Sentinels {
	t.Helper()
	sentinels := make(Sentinels, n)
	for i := range sentinels {
		sentinels[i] = server.Start(t, server.Run(master.Program), server.Sentinel(), server.Config(append([]string{
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", MasterName, master.Port, n/2+1),
			fmt.Sprintf("sentinel down-after-milliseconds %s 1500", MasterName),
			fmt.Sprintf("sentinel failover-timeout %s 20000", MasterName),
		}, lines...)...))
	}
	for _, s := range sentinels {
		require.Eventually(t, func() bool {
			known := s.MustDo("SENTINEL", "MASTER", MasterName)
			others, slaves := field(known.Elems, "num-other-sentinels"), field(known.Elems, "num-slaves")
			return others == fmt.Sprint(n-1) && slaves == fmt.Sprint(replicas)
		}, patience, 20*time.Millisecond, "the Sentinel on port %d does not find the others", s.Port)
	}
	return sentinels
}

// Addrs are the Sentinels' addresses, for a client.
func (s Sentinels) Addrs() []string {
	addrs := make([]string, len(s))
	for i, one := range s {
		addrs[i] = one.Addr()
	}
	return addrs
}

// Client is one of the master that the sentinels name. It gives up on a master that is down within a second.
func (s Sentinels) Client(t testing.TB, opts ...func(*redis.FailoverOptions)) *redis.Client {
	t.Helper()
	o := &redis.FailoverOptions{
		MasterName: MasterName, SentinelAddrs: s.Addrs(), DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: time.Second, MaxRetries: -1,
	}
	for _, opt := range opts {
		opt(o)
	}
	client := redis.NewFailoverClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// AwaitPromotion returns the server that the Sentinels made master instead of old.
func (s Sentinels) AwaitPromotion(t testing.TB, old *server.Server, replicas ...*server.Server) *server.Server {
	t.Helper()
	var promoted *server.Server
	require.Eventually(t, func() bool {
		addr := s[0].MustDo("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
		if len(addr.Elems) != 2 {
			return false
		}
		master := net.JoinHostPort(addr.Elems[0].Text, addr.Elems[1].Text)
		for _, r := range replicas {
			if r != old && r.Addr() == master && r.Info("replication")["role"] == "master" {
				promoted = r
			}
		}
		return promoted != nil
	}, patience, 10*time.Millisecond, "no replica is promoted")
	return promoted
}
