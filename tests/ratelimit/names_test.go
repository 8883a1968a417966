package ratelimit_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/rueidislimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

// names is a name server that has one address for all names. It changes when the name moves.
type names struct {
	at    atomic.Pointer[net.IP]
	asked atomic.Int64
}

// startNames returns a name server, and a resolver that asks it.
func startNames(t *testing.T) (*names, *net.Resolver) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	n := new(names)
	go func() {
		question := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(question)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(n.answer(question[:size]), from)
		}
	}()
	return n, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (n *names) leadTo(ip net.IP) { n.at.Store(&ip) }

// answer is the answer to a message with one question. See RFC 1035, section 4.1.
func (n *names) answer(message []byte) []byte {
	const header = 12
	end := header
	for message[end] != 0 {
		end += 1 + int(message[end])
	}
	end += 5 // the last label, the type and the class
	isA := message[end-3] == 1
	answer := append([]byte{}, message[:end]...)
	answer[2], answer[3] = 0x84, 0 // of whoever knows, and without an error
	copy(answer[4:header], []byte{0, 1, 0, 0, 0, 0, 0, 0})
	if isA { // no other kind of address
		n.asked.Add(1)
		answer[7] = 1
		answer = append(answer, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the same name, for 0 s
		answer = append(answer, n.at.Load().To4()...)
	}
	return answer
}

// twoHosts are two addresses of this machine with the same port, which lead to a server each.
func twoHosts(t *testing.T, first, second *server.Server) (port string, hosts [2]net.IP) {
	t.Helper()
	hosts = [2]net.IP{net.IPv4(127, 0, 0, 2), net.IPv4(127, 0, 0, 3)}
	require.Eventually(t, func() bool { // the port may be taken at one of them
		one, err := net.Listen("tcp", net.JoinHostPort(hosts[0].String(), "0"))
		if err != nil {
			return false
		}
		_, port, _ = net.SplitHostPort(one.Addr().String())
		other, err := net.Listen("tcp", net.JoinHostPort(hosts[1].String(), port))
		if err != nil {
			_ = one.Close()
			return false
		}
		carryAll(t, one, first)
		carryAll(t, other, second)
		return true
	}, time.Minute, time.Millisecond)
	return port, hosts
}

// byName are the clients of a name by either library.
func byName(t *testing.T, resolver *net.Resolver, port string) map[string]client {
	t.Helper()
	dialer := net.Dialer{Timeout: time.Second, Resolver: resolver}
	addr := net.JoinHostPort("redis.example.", port)
	single := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: time.Second, Dialer: dialer.DialContext})
	t.Cleanup(func() { _ = single.Close() })
	return map[string]client{
		"go-redis": single,
		"rueidis":  rueidislimit.Client(connect(t, rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, Dialer: dialer})),
	}
}

// A name is resolved anew for each connection, so the clients find the server to which it leads by now.
func TestANameThatMovesIsFollowed(t *testing.T) {
	t.Parallel()
	t.Run("from a master that is none any more", func(t *testing.T) {
		t.Parallel()
		old, next := server.Start(t), server.Start(t)
		port, hosts := twoHosts(t, old, next)
		names, resolver := startNames(t)
		names.leadTo(hosts[0])
		clients := byName(t, resolver, port)
		limiters := map[string]*ratelimit.Limiter{}
		for name, client := range clients {
			limiters[name] = ratelimit.New(client, ratelimit.Options{})
			calls.Ask(t, limiters[name], calls.On(name, ofMany))
		}
		old.MustDo("REPLICAOF", "127.0.0.1", "1")
		names.leadTo(hosts[1])
		asked := names.asked.Load()
		for name, l := range limiters {
			var last error
			require.Eventually(t, func() bool {
				_, last = l.Limit(t.Context(), name, ofMany, 1)
				return last == nil || !ratelimit.IsOutage(last)
			}, time.Minute, time.Millisecond, "%s stays", name)
			require.NoError(t, last, name)
			assert.Positive(t, charged(t, next.Client(), name), name)
		}
		assert.Greater(t, names.asked.Load(), asked)
	})
	t.Run("from a master that hangs, with callers in line", func(t *testing.T) {
		t.Parallel()
		old, next := server.Start(t), server.Start(t)
		port, hosts := twoHosts(t, old, next)
		names, resolver := startNames(t)
		names.leadTo(hosts[0])
		endsWhereItHangs(t, old, byName(t, resolver, port), func() { names.leadTo(hosts[1]) })
	})
}
