package ratelimit_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/pipelimit"
	"redis-throttle/ratelimit/rueidislimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// balancer is an address that leads to a server, and later to another one: connections stay where they are.
type balancer struct {
	net.Listener
	to    atomic.Pointer[string]
	loses string // a word: what clients send with it gets nowhere
}

func balance(t *testing.T, s *server.Server) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return carryAll(t, listener, s)
}

// carryAll has what comes to a listener carried to a server.
func carryAll(t *testing.T, listener net.Listener, s *server.Server) *balancer {
	t.Helper()
	b := &balancer{Listener: listener}
	b.leadTo(s)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go b.carry(client)
		}
	}()
	return b
}

func (b *balancer) leadTo(s *server.Server) {
	addr := s.Addr()
	b.to.Store(&addr)
}

func (b *balancer) carry(client net.Conn) {
	defer client.Close()
	behind, err := net.Dial("tcp", *b.to.Load())
	if err != nil {
		return
	}
	defer behind.Close()
	ended := make(chan error, 2)
	copies := func(to, from net.Conn) { _, err := to.(*net.TCPConn).ReadFrom(from); ended <- err }
	go copies(client, behind)
	if b.loses == "" {
		go copies(behind, client)
	} else {
		go func() { ended <- b.copyTheRest(behind, client) }()
	}
	<-ended
}

func (b *balancer) copyTheRest(to, from net.Conn) error {
	sent := make([]byte, 64<<10)
	for {
		n, err := from.Read(sent)
		if err != nil {
			return err
		}
		if !bytes.Contains(sent[:n], []byte(b.loses)) {
			if _, err := to.Write(sent[:n]); err != nil {
				return err
			}
		}
	}
}

// clientsOf are the clients of an address by either library.
func clientsOf(t *testing.T, addr string) map[string]client {
	t.Helper()
	single := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: time.Second})
	t.Cleanup(func() { _ = single.Close() })
	return map[string]client{
		"go-redis": single,
		"rueidis":  rueidislimit.Client(connect(t, rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})),
	}
}

// behindOneAddress are the limiters of either library on an address.
func behindOneAddress(t *testing.T, addr string) map[string]*ratelimit.Limiter {
	t.Helper()
	limiters := map[string]*ratelimit.Limiter{}
	for name, client := range clientsOf(t, addr) {
		limiters[name] = ratelimit.New(client, ratelimit.Options{})
	}
	return limiters
}

// A server that is no master any more is left with its first answer: the next connection goes to where the address
// leads now.
func TestADemotedMasterBehindAnAddressIsLeft(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"READONLY", "MASTERDOWN", "LOADING"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			old, next := server.Start(t), server.Start(t)
			b := balance(t, old)
			limiters := behindOneAddress(t, b.Addr().String())
			for name, l := range limiters {
				calls.Ask(t, l, calls.On(name, ofMany))
			}
			if code == "MASTERDOWN" {
				old.MustDo("CONFIG", "SET", "replica-serve-stale-data", "no")
				old.MustDo("CONFIG", "SET", "replica-read-only", "no") // otherwise it answers READONLY
			}
			if code == "LOADING" {
				t.Cleanup(old.LoadForMinutes(t))
			} else {
				old.MustDo("REPLICAOF", "127.0.0.1", "1")
			}
			b.leadTo(next)
			for name, l := range limiters {
				failed := 0
				for began := time.Now(); ; {
					_, err := l.Limit(t.Context(), name, ofMany, 1)
					if err == nil {
						break
					}
					require.True(t, ratelimit.IsOutage(err), "%s: %v", name, err)
					failed++
					require.Less(t, time.Since(began), 10*time.Second, "%s stays: %v", name, err)
				}
				t.Logf("%s: %d calls failed", name, failed)
				assert.Positive(t, charged(t, next.Client(), name), name)
			}
		})
	}
}

// So it is by whatever door calls go: pipelines of one's own, those of Share, and a client that embeds one of go-redis.
func TestAServerThatLoadsIsLeftByEveryDoor(t *testing.T) {
	t.Parallel()
	open := func(addr string) *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	type execs interface {
		pipelimit.Pipe
		Exec(ctx context.Context) error
	}
	pipelines := func(pipe func() execs) func(key string) error {
		return func(key string) error {
			p := pipe()
			reply := pipelimit.Queue(t.Context(), p, calls.On(key, ofMany))
			_ = p.Exec(t.Context())
			_, err := reply.Result()
			return err
		}
	}
	doors := map[string]func(*redis.Client) func(key string) error{
		"pipelines of one's own": func(client *redis.Client) func(string) error {
			pipelimit.Follow(client)
			return pipelines(func() execs { return own{client.Pipeline()} })
		},
		"pipelines of Share": func(client *redis.Client) func(string) error {
			s := pipelimit.Share(client, pipelimit.Options{})
			return pipelines(func() execs { return s.Pipeline() })
		},
		"a client that embeds one": func(client *redis.Client) func(string) error {
			l := ratelimit.New(struct{ *redis.Client }{client}, ratelimit.Options{})
			return func(key string) error {
				_, err := l.Limit(t.Context(), key, ofMany, 1)
				return err
			}
		},
	}
	for _, code := range []string{"MASTERDOWN", "LOADING"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			old, next := server.Start(t), server.Start(t)
			b := balance(t, old)
			asks := map[string]func(string) error{}
			for name, door := range doors {
				asks[name] = door(open(b.Addr().String()))
				require.NoError(t, asks[name](name))
			}
			if code == "MASTERDOWN" {
				old.MustDo("CONFIG", "SET", "replica-serve-stale-data", "no")
				old.MustDo("CONFIG", "SET", "replica-read-only", "no") // otherwise it answers READONLY
				old.MustDo("REPLICAOF", "127.0.0.1", "1")
			} else {
				t.Cleanup(old.LoadForMinutes(t))
			}
			b.leadTo(next)
			for name, ask := range asks {
				require.Eventually(t, func() bool {
					err := ask(name)
					require.True(t, err == nil || ratelimit.IsOutage(err), "%s: %v", name, err)
					return err == nil
				}, time.Minute, time.Millisecond, "%s stays", name)
				assert.Positive(t, charged(t, next.Client(), name), name)
			}
		})
	}
}

// own is a pipeline of go-redis.
type own struct{ redis.Pipeliner }

func (o own) Exec(ctx context.Context) error {
	_, err := o.Pipeliner.Exec(ctx)
	return err
}

// A server that hangs costs a caller no more than its deadline, and the guard then decides. Leases that were held end
// by their TTL.
func TestAServerThatHangsIsLeftToTheGuard(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for name, l := range behindOneAddress(t, s.Addr()) {
		g := guard.New(l, guard.Options{Policy: guard.Local, Pause: 100 * time.Millisecond, OnChange: func(string, error) {}})
		lease := calls.Lease("jobs "+name, 1, time.Hour, "holder")
		require.False(t, calls.Ask(t, g, lease).Limited)
		s.Pause()
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			began := time.Now()
			result, err := g.Decide(ctx, calls.On(name, ofMany))
			cancel()
			require.Less(t, time.Since(began), 30*time.Second, name)
			require.True(t, err == nil && result.By == "local" || ratelimit.IsOverload(err), "%s: %v", name, err)
		}
		require.Eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, _ = g.Decide(ctx, calls.On(name, ofMany))
			return g.Out()
		}, time.Minute, time.Millisecond, name)
		s.Resume()
		require.Eventually(t, func() bool {
			result, err := g.Decide(t.Context(), calls.On(name, ofMany))
			return err == nil && result.By == "server"
		}, time.Minute, time.Millisecond, name)
		other := calls.Lease("jobs "+name, 1, time.Hour, "other")
		assert.True(t, calls.Ask(t, g, other).Limited, "%s: the lease is still held", name)
		require.EqualValues(t, -1, calls.Ask(t, g, calls.Release("jobs "+name, "holder")).Granted, name)
	}
}

// The slots of a cluster's master that hangs are out until its replica has taken over: the client asks the others
// meanwhile.
func TestAMasterOfAClusterThatHangsIsReplaced(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	hangs := c.Masters()[0]
	successor := c.ReplicaOf(hangs)
	limiters := map[string]*ratelimit.Limiter{}
	for name, client := range onCluster(t, c) {
		limiters[name] = ratelimit.New(client, ratelimit.Options{})
	}
	key := func(name string) string { return c.KeyOn(hangs, fmt.Sprint(name, "-")) }
	for name, l := range limiters {
		calls.Ask(t, l, calls.On(key(name), ofMany))
	}
	topology.AwaitReplicas(t, hangs, successor)
	keys := map[string]string{}
	for name := range limiters {
		keys[name] = key(name)
	}
	hangs.Pause()
	t.Cleanup(hangs.Resume)
	successor.MustDo("CLUSTER", "FAILOVER", "TAKEOVER")
	topology.AwaitRole(t, successor, "master")
	for name, l := range limiters {
		began := time.Now()
		require.Eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := l.Limit(ctx, keys[name], ofMany, 1)
			require.False(t, errors.Is(err, context.Canceled), "%v", err)
			return err == nil
		}, time.Minute, 10*time.Millisecond, "%s: its slots stay out", name)
		t.Logf("%s: out for %v", name, time.Since(began).Round(time.Millisecond))
	}
}

// A caller in line hangs with its master: that another server answers by now, where the address leads, is no sign of
// life of its own.
func TestNobodyWaitsForAMasterThatHangsOnceAnotherOneAnswers(t *testing.T) {
	t.Parallel()
	t.Run("behind an address", func(t *testing.T) {
		t.Parallel()
		old, next := server.Start(t), server.Start(t)
		b := balance(t, old)
		endsWhereItHangs(t, old, clientsOf(t, b.Addr().String()), func() { b.leadTo(next) })
	})
	t.Run("behind Sentinels", func(t *testing.T) {
		t.Parallel()
		master := server.Start(t)
		replica := server.Start(t, server.ReplicaOf(master))
		topology.AwaitReplicas(t, master, replica)
		sentinels := topology.Watch(t, 1, master, 1)
		clients := map[string]client{}
		for _, user := range []string{"all", "some"} { // the second may not ask which server it is
			for _, s := range []*server.Server{master, replica} {
				s.MustDo("ACL", "SETUSER", user, "on", ">secret", "~*", "+@all")
				s.MustDo("ACL", "SETUSER", "some", "-info")
			}
			clients["go-redis, "+user] = sentinels.Client(t, func(o *redis.FailoverOptions) { o.Username, o.Password = user, "secret" })
			clients["rueidis, "+user] = rueidislimit.Client(connect(t, rueidis.ClientOption{
				Username: user, Password: "secret", InitAddress: sentinels.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: topology.MasterName},
			}))
		}
		endsWhereItHangs(t, master, clients, func() { sentinels.AwaitPromotion(t, master, replica) })
	})
}

// A caller whose user may do nothing but wait is not asked which server it is at. Its connection tells: while its end
// lives, the caller waits.
func TestACallerWaitsWhereItsMasterLives(t *testing.T) {
	t.Parallel()
	dir, pool := server.Certificate(t)
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprint("by TLS: ", encrypted), func(t *testing.T) {
			t.Parallel()
			next, port := server.Start(t), server.FreePort(t)
			old, err := server.TryStart(t, server.Config(fmt.Sprint("tls-port ", port), "tls-auth-clients no",
				"tls-cert-file "+dir+"/crt", "tls-key-file "+dir+"/key", "tls-ca-cert-file "+dir+"/crt"))
			if err != nil && strings.Contains(err.Error(), ">>> 'tls-") {
				t.Skip("this server was built without TLS")
			}
			require.NoError(t, err)
			for _, s := range []*server.Server{old, next} {
				s.MustDo("ACL", "SETUSER", "limits", "on", ">secret", "~*", "-@all", "+cl.limit", "+cl.wait")
			}
			var moved atomic.Bool
			client := redis.NewClient(&redis.Options{
				Username: "limits", Password: "secret", MaxRetries: -1, ReadTimeout: time.Second, DialerRetries: 1,
				Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
					switch {
					case moved.Load():
						return new(net.Dialer).DialContext(ctx, network, next.Addr())
					case encrypted:
						return (&tls.Dialer{Config: &tls.Config{RootCAs: pool}}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
					}
					return new(net.Dialer).DialContext(ctx, network, old.Addr())
				},
			})
			t.Cleanup(func() { _ = client.Close() })
			soon, late := ratelimit.Limits{ratelimit.Window(1, 8*time.Second)}, ratelimit.Limits{ratelimit.Window(1, day)}
			l := ratelimit.New(client, ratelimit.Options{Patience: time.Second})
			calls.Ask(t, l, calls.On("soon", soon))
			calls.Ask(t, l, calls.On("late", late))
			gets := calls.Ends(t.Context(), l, calls.InLine("soon", soon, 0))
			hangs := calls.Ends(context.WithoutCancel(t.Context()), l, calls.InLine("late", late, 0))
			require.Eventually(t, func() bool { return old.InfoInt("throttle", "throttle_waiting") == 2 }, time.Minute, time.Millisecond)
			moved.Store(true)
			require.NoError(t, <-gets)
			old.Pause()
			t.Cleanup(old.Resume)
			select {
			case err := <-hangs:
				require.True(t, ratelimit.IsOutage(err), "%v", err)
			case <-time.After(time.Minute):
				t.Error("the caller waits for ever")
			}
		})
	}
}

// endsWhereItHangs has callers wait at a server that hangs, and then others asked at the next one.
func endsWhereItHangs(t *testing.T, hangs *server.Server, clients map[string]client, moves func()) {
	t.Helper()
	limits := ratelimit.Limits{ratelimit.Window(1, day)}
	ended := map[string]<-chan error{}
	for name, client := range clients {
		l := ratelimit.New(client, ratelimit.Options{Patience: 5 * time.Second})
		calls.Ask(t, l, calls.On(name, limits))
		ended[name] = calls.Ends(context.WithoutCancel(t.Context()), l, calls.InLine(name, limits, 0))
	}
	require.Eventually(t, func() bool { return hangs.InfoInt("throttle", "throttle_waiting") == int64(len(clients)) }, time.Minute, time.Millisecond)
	hangs.Pause()
	t.Cleanup(hangs.Resume)
	moves()
	for name, client := range clients {
		l := ratelimit.New(client, ratelimit.Options{})
		require.Eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := l.Limit(ctx, name, ofMany, 1)
			return err == nil
		}, time.Minute, 10*time.Millisecond, "%s stays", name)
		select {
		case err := <-ended[name]:
			require.True(t, ratelimit.IsOutage(err), "%s: %v", name, err)
		case <-time.After(time.Minute):
			t.Errorf("%s: the caller waits for ever", name)
		}
	}
}
