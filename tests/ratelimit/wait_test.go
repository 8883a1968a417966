package ratelimit_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/rueidislimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// The deadline of a context ends a wait with the answer limited. It is no outage, also with a
// client that heeds deadlines itself. Nothing was charged, so the next caller has the units.
func TestWaitForAWindowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	const patience = 400 * time.Millisecond
	s := server.Start(t)
	limits := ratelimit.Limits{ratelimit.Window(1, day)}
	for _, heeds := range []bool{false, true} {
		l, key := ratelimit.New(s.Client(func(o *redis.Options) { o.ContextTimeoutEnabled = heeds }), ratelimit.Options{}), fmt.Sprint(heeds)
		calls.Ask(t, l, calls.On(key, limits))
		for begun, limited := time.Now(), 0; limited < 3; {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			began := time.Now()
			r, err := l.Decide(ctx, calls.InLine(key, limits, 0))
			took := time.Since(began)
			cancel()
			if err != nil { // a busy machine had no answer in time
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.GreaterOrEqual(t, took, patience)
				require.Less(t, time.Since(begun), time.Minute)
				continue
			}
			limited++
			require.True(t, r.Limited)
			require.Positive(t, r.RetryAfter)
			require.GreaterOrEqual(t, took, patience/2, "it stood in line")
			require.Zero(t, r.Granted)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := calls.Ends(ctx, l, calls.InLine(key, limits, time.Hour))
		require.Eventually(t, func() bool { return s.Info("throttle")["throttle_waiting"] == "1" }, 10*time.Second, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Eventually(t, func() bool { return s.Info("throttle")["throttle_waiting"] == "0" }, 10*time.Second, time.Millisecond, "the caller has left the line")
		_, err := l.Decide(ctx, calls.InLine(key, limits, patience))
		require.ErrorIs(t, err, context.Canceled)

		_, err = l.Refund(t.Context(), key, limits, 1)
		require.NoError(t, err)
		r := calls.Ask(t, l, calls.InLine(key, limits, time.Minute))
		assert.False(t, r.Limited)
		assert.Zero(t, r.Wait, "nobody was charged while waiting")
	}
}

// A ReadTimeout is for calls that are answered at once.
func TestWaitOutlastsTheReadTimeoutOfEveryClient(t *testing.T) {
	t.Parallel()
	const (
		interval    = 300 * time.Millisecond
		readTimeout = interval / 6
	)
	s := server.Start(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.Addr()}, ReadTimeout: readTimeout})
	t.Cleanup(func() { _ = ring.Close() })
	cluster := clusterWith(t, readTimeout)
	other := on(s)
	other.ConnWriteTimeout, other.Dialer.KeepAlive = readTimeout, readTimeout // which bounds the reply to a PING
	for _, c := range []client{
		s.Client(func(o *redis.Options) { o.ReadTimeout = readTimeout }), ring, cluster, rueidislimit.Client(connect(t, other)),
	} {
		for kind, waits := range map[string]func(key string, n int) ratelimit.Call{
			"rate": func(key string, _ int) ratelimit.Call {
				return calls.InLine(key, ratelimit.Limits{ratelimit.Rate(1, interval)}, time.Minute)
			},
			"window": func(key string, _ int) ratelimit.Call {
				return calls.InLine(key, ratelimit.Limits{ratelimit.Window(1, interval)}, 0)
			},
			"lease": func(key string, n int) ratelimit.Call {
				return calls.Lease(key, 1, interval, fmt.Sprint(n), calls.MaxWait(time.Minute))
			},
		} {
			l, key := ratelimit.New(c, ratelimit.Options{}), fmt.Sprintf("%T %s", c, kind)
			began := time.Now()
			for n := range 2 {
				r := calls.Ask(t, l, waits(key, n))
				assert.False(t, r.Limited, key)
				assert.LessOrEqual(t, r.Wait, time.Since(began)+time.Millisecond)
			}
			assert.GreaterOrEqual(t, time.Since(began), interval, key)
		}
	}
}

// One connection is not enough for a caller that waits and for everything else.
func TestNobodyWaitsOnASingleConnection(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Client()
	conn := c.Conn()
	defer conn.Close()
	limits := ratelimit.Limits{ratelimit.Rate(1, day)}
	_, err := ratelimit.New(conn, ratelimit.Options{}).Wait(t.Context(), "k", limits, 1)
	require.ErrorContains(t, err, "*redis.Conn is a single connection")
	require.NoError(t, c.Watch(t.Context(), func(tx *redis.Tx) error {
		_, err := ratelimit.New(tx, ratelimit.Options{}).Wait(t.Context(), "k", limits, 1)
		require.ErrorContains(t, err, "*redis.Tx is a single connection")
		return nil
	}, "k"))
	assert.Panics(t, func() { ratelimit.New(c.Pipeline(), ratelimit.Options{}) })
}

// clusterWith is a client of a cluster with a ReadTimeout.
func clusterWith(t *testing.T, readTimeout time.Duration) *redis.ClusterClient {
	t.Helper()
	o := *topology.StartCluster(t).Client().Options()
	o.ReadTimeout = readTimeout
	c := redis.NewClusterClient(&o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// In a cluster a caller waits at the node that has its key, also while that is on its way to another one, and leaves
// there.
func TestWaitsFollowAKeyThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	from, to := c.Masters()[0], c.Masters()[1]
	key := c.KeyOn(from, "k")
	hourly := ratelimit.Limits{ratelimit.Window(1, time.Hour)}
	for _, owner := range []*server.Server{from, to} { // the second time the key is on its way there
		if owner == to {
			c.BeginMove(c.Slot(key), from, to)
		}
		for library, client := range onCluster(t, c) {
			l, name := ratelimit.New(client, ratelimit.Options{}), fmt.Sprintf("{%s}%s on %d", key, library, owner.Port)
			for waiting, c := range map[string]struct{ first, waits ratelimit.Call }{
				"throttle_waiting":        {calls.InLine(name, hourly, time.Minute), calls.InLine(name, hourly, time.Hour)},
				"throttle_leases_waiting": {calls.Lease(name+":jobs", 1, time.Hour, "a"), calls.Lease(name+":jobs", 1, time.Hour, "b", calls.MaxWait(time.Minute))},
			} {
				require.False(t, calls.Ask(t, l, c.first).Limited)
				ctx, cancel := context.WithCancel(t.Context())
				ended := calls.Ends(ctx, l, c.waits)
				await := func(n int64) {
					require.Eventually(t, func() bool { return owner.InfoInt("throttle", waiting) == n }, time.Minute, time.Millisecond, name)
				}
				await(1)
				if c.waits.Verb == ratelimit.VerbLease {
					calls.Ask(t, l, calls.Release(name+":jobs", "a"))
					require.NoError(t, <-ended)
				}
				cancel()
				if c.waits.Verb == ratelimit.VerbWait {
					require.ErrorIs(t, <-ended, context.Canceled)
				}
				await(0)
			}
		}
	}
}

// delayed has replies only while the gate is open.
type delayed struct {
	*net.TCPConn
	gate *sync.RWMutex
}

func (s delayed) Read(p []byte) (int, error) {
	n, err := s.TCPConn.Read(p)
	s.gate.RLock()
	defer s.gate.RUnlock()
	return n, err
}

// What comes when the caller has just left is given back, units and slots alike.
func TestWhatIsGrantedToACallerThatHasLeftIsGivenBack(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	var gate sync.RWMutex // closed while replies are on their way
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return delayed{conn.(*net.TCPConn), &gate}, nil
	}
	other := on(s)
	other.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dial(ctx, "tcp", addr)
	}
	other.ConnWriteTimeout = time.Minute
	direct := ratelimit.New(s.Client(), ratelimit.Options{})
	for _, client := range []client{s.Client(func(o *redis.Options) { o.Dialer = dial }), rueidislimit.Client(connect(t, other))} {
		s.MustDo("FLUSHALL")
		requireGrantsAreGivenBack(t, s, &gate, ratelimit.New(client, ratelimit.Options{Patience: time.Minute}), direct)
	}
}

// The same when both happen at once: the caller has what it was granted, or it is given back.
func TestNoUnitOfAWaitThatIsCancelledIsLost(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	direct := ratelimit.New(s.Client(), ratelimit.Options{})
	for _, client := range onServer(t, s) {
		l := ratelimit.New(client, ratelimit.Options{})
		for range size.Of(25, 250) {
			s.MustDo("FLUSHALL")
			requireGrantsAreGivenBack(t, s, nil, l, direct)
		}
	}
}

// requireGrantsAreGivenBack keeps replies back behind the gate while a caller leaves. Without one, what is granted
// races with the caller.
func requireGrantsAreGivenBack(t *testing.T, s *server.Server, gate *sync.RWMutex, l, direct *ratelimit.Limiter) {
	t.Helper()
	hourly := ratelimit.Limits{ratelimit.Window(1, time.Hour)}
	calls.Ask(t, direct, calls.On("units", hourly))
	calls.Ask(t, direct, calls.Lease("jobs", 1, time.Hour, "a"))
	for name, tt := range map[string]struct {
		waits  ratelimit.Call
		grants func() error
		isFree func() bool
	}{
		"throttle_waiting": {calls.InLine("units", hourly, time.Hour), func() error {
			_, err := direct.Refund(t.Context(), "units", hourly, 1)
			return err
		}, func() bool {
			r, err := direct.Peek(t.Context(), "units", hourly, 1)
			return err == nil && r.Remaining == 1
		}},
		"throttle_leases_waiting": {calls.Lease("jobs", 1, time.Hour, "b", calls.MaxWait(time.Hour)), func() error {
			_, err := direct.Decide(t.Context(), calls.Release("jobs", "a"))
			return err
		}, func() bool { return s.MustDo("EXISTS", "jobs").Int == 0 }},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := calls.Ends(ctx, l, tt.waits)
		require.Eventually(t, func() bool { return s.Info("throttle")[name] == "1" }, time.Minute, time.Millisecond, name)
		if gate == nil {
			go cancel()
			require.NoError(t, tt.grants())
			if err := <-ended; err != nil {
				require.ErrorIs(t, err, context.Canceled)
				require.Eventually(t, tt.isFree, time.Minute, time.Millisecond, name)
			}
			continue
		}
		gate.Lock()
		require.NoError(t, tt.grants())
		require.Eventually(t, func() bool { return s.Info("throttle")[name] == "0" }, time.Minute, time.Millisecond, name)
		require.False(t, tt.isFree(), "%s: it is granted", name)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		gate.Unlock()
		require.Eventually(t, tt.isFree, time.Minute, time.Millisecond, name)
	}
}

// What go-redis does for the connections of a pool is not done for that of a caller that waits: it could be done once
// only.
func TestACallWaitsWhateverItsClientIsToldOfMaintenance(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, mode := range []maintnotifications.Mode{maintnotifications.ModeAuto, maintnotifications.ModeEnabled} {
		client := redis.NewClient(&redis.Options{
			Addr: s.Addr(), Protocol: 3, MaintNotificationsConfig: &maintnotifications.Config{Mode: mode},
			ClientSideCacheConfig: &redis.ClientSideCacheConfig{},
		})
		t.Cleanup(func() { _ = client.Close() })
		require.NotPanics(t, func() {
			_, err := ratelimit.New(client, ratelimit.Options{}).Wait(t.Context(), "k", ratelimit.Limits{ratelimit.Rate(1000, day)}, 1)
			require.NoError(t, err)
		}, mode)
	}
}

// Calls that occupy all connections of the client are no reason to believe that the server is away.
func TestACallThatWaitsOutlastsABusyPool(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	client := s.Client(func(o *redis.Options) { o.PoolSize, o.ReadTimeout, o.PoolTimeout = 1, time.Minute, time.Minute })
	l := ratelimit.New(client, ratelimit.Options{Patience: 500 * time.Millisecond})
	limits := ratelimit.Limits{ratelimit.Window(1, 3*time.Second)}
	calls.Ask(t, l, calls.InLine("k", limits, time.Minute))
	busy := make(chan error, 1)
	go func() { busy <- client.BLPop(t.Context(), 0, "list").Err() }()
	require.Eventually(t, func() bool { return s.Info("clients")["blocked_clients"] == "1" }, time.Minute, time.Millisecond)
	result := calls.Ask(t, l, calls.InLine("k", limits, time.Minute))
	assert.False(t, result.Limited)
	s.MustDo("RPUSH", "list", "x")
	require.NoError(t, <-busy)
}

// A call that was redirected waits for as long as the server lives where it waits now, not the one that it was sent to
// at first.
func TestTheServerWhereACallWaitsIsAskedForASignOfLife(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	first, owner := c.Masters()[0], c.Masters()[1]
	key := c.KeyOn(owner, "k")
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ReadTimeout: 100 * time.Millisecond, MaxRetries: -1,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { // what was true before the key moved
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: first.Addr()}}}}, nil
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	l := ratelimit.New(client, ratelimit.Options{Patience: 200 * time.Millisecond})
	soon, late := ratelimit.Limits{ratelimit.Window(1, 2*time.Second)}, ratelimit.Limits{ratelimit.Window(1, time.Hour)}
	waiting := func() bool { return owner.Info("throttle")["throttle_waiting"] == "1" }
	for _, tt := range []struct {
		hangs  *server.Server
		limits ratelimit.Limits
		outage bool
	}{{first, soon, false}, {owner, late, true}} {
		calls.Ask(t, l, calls.InLine(key, tt.limits, time.Minute))
		ended := calls.Ends(t.Context(), l, calls.InLine(key, tt.limits, time.Hour))
		require.Eventually(t, waiting, time.Minute, time.Millisecond)
		tt.hangs.Pause()
		select {
		case err := <-ended:
			assert.Equal(t, tt.outage, ratelimit.IsOutage(err), "%v", err)
		case <-time.After(time.Minute):
			t.Error("it waits for ever")
		}
		tt.hangs.Resume()
		owner.MustDo("DEL", key)
	}
}

// A caller that waits has a connection of its own, with buffers for one command and its reply. Not parallel: it
// measures the process.
func TestACallerThatWaitsTakesLittleMemory(t *testing.T) {
	s := server.Start(t)
	l := ratelimit.New(s.Client(), ratelimit.Options{})
	hourly := ratelimit.Limits{ratelimit.Window(1, time.Hour)}
	calls.Ask(t, l, calls.On("k", hourly))
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const callers = 300
	before := inUse()
	var waiting sync.WaitGroup
	for range callers {
		waiting.Go(func() {
			_, err := l.Wait(ctx, "k", hourly, 1)
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	require.Eventually(t, func() bool { return s.Info("throttle")["throttle_waiting"] == fmt.Sprint(callers) }, time.Minute, 10*time.Millisecond)
	each := (inUse() - before) / callers
	t.Logf("%d KB for each caller that waits", each>>10)
	assert.Less(t, each, int64(48<<10))
	cancel()
	waiting.Wait()
}

// A server on which as many callers wait as may answers a call that would wait at once. It is a denial, not an outage,
// and nobody asks again for it.
func TestACallThatIsTurnedAwayIsDenied(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("max-waiting", "1"))
	l := ratelimit.New(s.Client(), ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Window(1, day)}
	calls.Ask(t, l, calls.On("k", limits))
	calls.Ask(t, l, calls.Lease("jobs", 1, time.Hour, "a"))
	ctx, leave := context.WithCancel(t.Context())
	waits := calls.Ends(ctx, l, calls.InLine("k", limits, time.Hour))
	require.Eventually(t, func() bool { return s.Info("throttle")["throttle_waiting"] == "1" }, 10*time.Second, time.Millisecond)
	asked := s.InfoInt("throttle", "throttle_calls")
	for _, call := range []ratelimit.Call{calls.InLine("k", limits, time.Hour), calls.Lease("jobs", 1, time.Hour, "b", calls.MaxWait(time.Hour))} {
		r, err := l.Decide(t.Context(), call)
		require.NoError(t, err)
		assert.True(t, r.Limited)
		assert.Positive(t, r.RetryAfter)
	}
	assert.EqualValues(t, 2, s.InfoInt("throttle", "throttle_turned_away"))
	assert.LessOrEqual(t, s.InfoInt("throttle", "throttle_calls")-asked, int64(3), "a lease is asked for without a wait first")
	leave()
	require.ErrorIs(t, <-waits, context.Canceled)
}
