package ratelimit_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/commands"
	"redis-throttle/ratelimit/rueidislimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// connect gives up on a server after a second unless options say otherwise.
func connect(t *testing.T, options rueidis.ClientOption) rueidis.Client {
	t.Helper()
	options.DisableCache = true
	if options.ConnWriteTimeout == 0 {
		options.ConnWriteTimeout = time.Second
	}
	client, err := rueidis.NewClient(options)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func on(servers ...*server.Server) (options rueidis.ClientOption) {
	for _, s := range servers {
		options.InitAddress = append(options.InitAddress, s.Addr())
	}
	return options
}

// onServer are the clients of a server by either library.
func onServer(t *testing.T, s *server.Server, opts ...func(*redis.Options)) map[string]client {
	t.Helper()
	return map[string]client{"go-redis": s.Client(opts...), "rueidis": rueidislimit.Client(connect(t, on(s)))}
}

// onCluster are the clients of a cluster by either library.
func onCluster(t *testing.T, c *topology.Cluster) map[string]client {
	t.Helper()
	options := on(c.Nodes...)
	options.ShuffleInit = true
	return map[string]client{"go-redis": c.Client(), "rueidis": rueidislimit.Client(connect(t, options))}
}

func TestErrorsAreToldApart(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(5, day)}
	s := server.Start(t)
	l := rueidislimit.New(connect(t, on(s)))
	s.MustDo("RPUSH", "list", "1")
	for library, client := range onServer(t, s) {
		require.EqualError(t, client.Process(t.Context(), redis.NewCmd(t.Context(), "CL.LIMIT", "k", "RATE")), "ERR syntax error near 'RATE': RATE takes count/period, such as 5/s, 100/30m or 10/1.5h; units are ms, s, m, h and d", library)
	}
	_, err := l.Limit(t.Context(), "list", limits, 1)
	require.ErrorAs(t, err, new(*rueidis.RedisError))
	assert.ErrorContains(t, err, "ratelimit: CL.LIMIT: WRONGTYPE")
	assert.False(t, ratelimit.IsOutage(err))

	plain := rueidislimit.Client(connect(t, on(server.Start(t, server.WithoutModule()))))
	_, err = ratelimit.New(commands.On(plain, commands.Options{Send: commands.Module}), ratelimit.Options{}).Limit(t.Context(), "k", limits, 1)
	require.ErrorIs(t, err, ratelimit.ErrNoModule)

	s.MustDo("REPLICAOF", "127.0.0.1", "1")
	_, err = l.Limit(t.Context(), "k", limits, 1)
	require.ErrorContains(t, err, "READONLY")
	assert.True(t, ratelimit.IsOutage(err))
	s.MustDo("REPLICAOF", "NO", "ONE")

	s.Pause()
	_, err = l.Limit(t.Context(), "k", limits, 1)
	s.Resume()
	assert.True(t, ratelimit.IsOutage(err), "%v", err)

	s.Kill()
	_, err = l.Limit(t.Context(), "k", limits, 1)
	assert.True(t, ratelimit.IsOutage(err), "%v", err)
	// rueidis sends what only reads again until its context ends, which may be never.
	select {
	case err := <-calls.Ends(context.WithoutCancel(t.Context()), l, ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: calls.On("k", limits).Keys}):
		assert.True(t, ratelimit.IsOutage(err), "%v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("the peek goes on")
	}
}

// What only reads is sent again over a new connection when the old one ends before the reply; what charges is not.
func TestOnlyReadsAreSentAgain(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	limits := ratelimit.Limits{ratelimit.Rate(5, day)}
	for send, options := range map[commands.Choice][]server.Option{commands.Module: nil, commands.Functions: {server.WithoutModule()}} {
		s := server.Start(t, options...)
		config := on(s)
		var cut atomic.Bool
		config.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, "tcp", addr)
			return cutOff{conn, &cut}, err
		}
		l := ratelimit.New(commands.On(rueidislimit.Client(connect(t, config)), commands.Options{Send: send}), ratelimit.Options{})
		require.EqualValues(t, 4, calls.Ask(t, l, calls.On("k", limits)).Remaining)
		cut.Store(true)
		_, err := l.Peek(t.Context(), "k", limits, 1)
		require.NoError(t, err, send)
		require.False(t, cut.Swap(true))
		_, err = l.Limit(t.Context(), "k", limits, 1)
		assert.True(t, ratelimit.IsOutage(err), "%s: %v", send, err)
		assert.EqualValues(t, 4, calls.Ask(t, l, ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: calls.On("k", limits).Keys}).Remaining, send)
	}
}

// cutOff is a connection that ends in place of its next command where cut is set, once.
type cutOff struct {
	net.Conn
	cut *atomic.Bool
}

func (c cutOff) Write(bytes []byte) (int, error) {
	if c.cut.CompareAndSwap(true, false) {
		return len(bytes), c.Close()
	}
	return c.Conn.Write(bytes)
}

// A call on several keys goes by the first one to its node, and is not sent on from another.
func TestSeveralKeysLeadToTheirNode(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	limits := ratelimit.Limits{ratelimit.Rate(5, day)}
	l := rueidislimit.New(connect(t, on(c.Nodes...)))
	for i, master := range c.Masters() {
		a := c.KeyOn(master, fmt.Sprint("key", i, "-"))
		_, err := l.LimitAll(t.Context(), []ratelimit.Key{{Name: a, Limits: limits}, {Name: "{" + a + "}b", Limits: limits}}, 1)
		require.NoError(t, err)
	}
	for _, node := range c.Nodes {
		assert.NotContains(t, node.Info("errorstats"), "errorstat_MOVED")
	}
}

// The master that a wait was sent to is remembered. When a replica has taken its place, waits go there.
func TestWaitsGoToTheNewMaster(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	l := rueidislimit.New(connect(t, on(c.Nodes[:3]...)))
	limits := ratelimit.Limits{ratelimit.Rate(1_000_000, time.Hour)}
	old := c.Masters()[2]
	var keys []string
	for i := range 10 {
		keys = append(keys, c.KeyOn(old, fmt.Sprint("key", i, "-")))
	}
	wait := func(key string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := l.Wait(ctx, key, limits, 1)
		return err
	}
	for _, key := range keys {
		require.NoError(t, wait(key))
	}
	replica := c.ReplicaOf(old)
	old.Kill()
	replica.MustDo("CLUSTER", "FAILOVER", "TAKEOVER")
	topology.AwaitRole(t, replica, "master")
	for _, key := range keys {
		var err error
		require.Eventually(t, func() bool { err = wait(key); return err == nil }, 20*time.Second, 10*time.Millisecond)
		require.NoError(t, err, "%s: %v", key, err)
	}
}

// rueidis has a typed GCRA, of a command that no release of Redis has.
func TestTheTypedGCRAOfRueidis(t *testing.T) {
	t.Parallel()
	client := connect(t, on(server.Start(t, server.ModuleArgs("aliases", "GCRA"))))
	b := client.B().Gcra().Key("k").MaxBurst(15).TokensPerPeriod(30)
	got, err := client.Do(t.Context(), b.Period(86400).Build()).AsIntSlice()
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 16, 15, -1, 2880}, got)
	got, err = client.Do(t.Context(), client.B().Gcra().Key("k").MaxBurst(15).TokensPerPeriod(30).Period(86400.5).Count(16).Build()).AsIntSlice()
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 16}, got[:2], "one unit too many")
	assert.Positive(t, got[3])
}
