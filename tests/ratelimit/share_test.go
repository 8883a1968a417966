package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/pipelimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// many is a limit that no test exhausts.
const many = 1_000_000

var ofMany = ratelimit.Limits{ratelimit.Window(many, day)}

// unhurried waits for the pipeline ahead as long as it takes.
var unhurried = pipelimit.Options{Stall: time.Hour}

func shared(client redis.UniversalClient, o pipelimit.Options) *ratelimit.Limiter {
	return ratelimit.New(pipelimit.Share(client, o), ratelimit.Options{})
}

// charged is how many units of ofMany a key has been charged.
func charged(t *testing.T, client redis.UniversalClient, key string) int64 {
	t.Helper()
	r, err := ratelimit.New(client, ratelimit.Options{}).Peek(t.Context(), key, ofMany, 1)
	require.NoError(t, err)
	return many - r.Remaining
}

// Calls of many goroutines take few reads of the server, and each is decided by itself. One goroutine alone waits for
// nobody.
func TestCallsThatShareAreReadTogether(t *testing.T) {
	server.NeedsServer(t, "a count of reads")
	t.Parallel()
	s := server.Start(t)
	for _, tt := range []struct {
		callers int
		reads   func(reads, calls int64) bool
	}{
		{1, func(reads, calls int64) bool { return reads >= calls }},
		{64, func(reads, calls int64) bool { return reads < calls/2 }},
	} {
		key := fmt.Sprint("key", tt.callers)
		l := shared(s.Client(), unhurried)
		before := s.InfoInt("stats", "total_reads_processed")
		const each = 100
		var seen sync.Map
		var asking sync.WaitGroup
		for range tt.callers {
			asking.Go(func() {
				for range each {
					r, err := l.Limit(t.Context(), key, ofMany, 1)
					if !assert.NoError(t, err) {
						return
					}
					_, again := seen.LoadOrStore(r.Remaining, true)
					assert.False(t, again, "two calls got the same unit")
				}
			})
		}
		asking.Wait()
		reads, made := s.InfoInt("stats", "total_reads_processed")-before, int64(tt.callers*each)
		assert.True(t, tt.reads(reads, made), "%d reads for %d calls of %d goroutines", reads, made, tt.callers)
		assert.Equal(t, made, charged(t, s.Client(), key))
	}
}

// Each call of a pipeline has its own result or error.
func TestCallsThatShareHaveTheirOwnErrors(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("SET", "text", "x")
	sharing := pipelimit.Share(s.Client(), pipelimit.Options{})
	pipe := sharing.Pipeline()
	good := pipelimit.Queue(t.Context(), pipe, calls.On("k", ofMany))
	other := pipelimit.Queue(t.Context(), pipe, calls.On("text", ofMany))
	wrong := pipelimit.Queue(t.Context(), pipe, calls.On("k", ratelimit.Limits{ratelimit.Rate(1_000_000_000_000, time.Second)}))
	unsaid := pipelimit.Queue(t.Context(), pipe, calls.On("k", nil))
	last := pipelimit.Queue(t.Context(), pipe, calls.On("k", ofMany))
	require.ErrorContains(t, pipe.Exec(t.Context()), "WRONGTYPE", "the first one")
	r, err := good.Result()
	require.NoError(t, err)
	assert.EqualValues(t, many-1, r.Remaining)
	_, err = other.Result()
	require.ErrorContains(t, err, "WRONGTYPE")
	assert.NotErrorAs(t, err, new(*pipelimit.Failure), "the pipeline did not fail")
	_, err = wrong.Result()
	require.ErrorContains(t, err, "at most 10^9 units per second")
	_, err = unsaid.Result()
	require.Error(t, err)
	r, err = last.Result()
	require.NoError(t, err)
	assert.EqualValues(t, many-2, r.Remaining)
	require.NoError(t, pipe.Exec(t.Context()), "it is empty again")

	_, err = byModule(pipelimit.Share(server.Start(t, server.WithoutModule()).Client(), pipelimit.Options{})).Limit(t.Context(), "k", ofMany, 1)
	assert.ErrorIs(t, err, ratelimit.ErrNoModule)
}

// A caller that leaves does so at once, and takes nobody along. What had not been sent is not charged.
func TestCallersThatShareLeaveByThemselves(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	link := topology.LinkTo(t, s)
	client := s.Client(func(o *redis.Options) { o.Addr, o.ReadTimeout = fmt.Sprint("127.0.0.1:", link.Port), time.Hour })
	var left departures
	client.AddHook(&left)
	l := shared(client, unhurried)
	calls.Ask(t, l, calls.On("k", ofMany))
	link.Hold()
	ask := func(ctx context.Context, units int64) chan error {
		got := make(chan error, 1)
		go func() {
			_, err := l.Limit(ctx, "k", ofMany, units)
			got <- err
		}()
		return got
	}
	first, leaves := context.WithCancel(t.Context())
	sent := ask(first, 10)
	require.Eventually(t, func() bool { return left.Load() == 2 }, time.Minute, time.Millisecond)
	leaves()
	assert.ErrorIs(t, <-sent, context.Canceled)
	hurried, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, <-ask(hurried, 100), context.DeadlineExceeded, "it waits behind the first")
	ended, end := context.WithCancel(t.Context())
	end()
	assert.ErrorIs(t, <-ask(ended, 1000), context.Canceled)
	patient := ask(t.Context(), 10_000)
	link.Release()
	require.NoError(t, <-patient)
	assert.EqualValues(t, 10_011, charged(t, s.Client(), "k"), "the one that was sent, and the patient one")
}

// Behind a server that hangs, callers that have left take no room from others, and what was to carry them is no answer:
// a call whose time is over meets an outage.
func TestCallersThatLeftAreNoAnswerAndTakeNoRoom(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	link := topology.LinkTo(t, s)
	client := s.Client(func(o *redis.Options) { o.Addr, o.ReadTimeout = fmt.Sprint("127.0.0.1:", link.Port), time.Second })
	var left departures
	client.AddHook(&left)
	l := shared(client, pipelimit.Options{Stall: time.Hour, Calls: 1, Pipelines: 1, Waiting: 2})
	calls.Ask(t, l, calls.On("k", ofMany))
	link.Hold()
	defer link.Release()
	hangs := calls.Ends(t.Context(), l, calls.On("k", ofMany))
	require.Eventually(t, func() bool { return left.Load() == 2 }, time.Minute, time.Millisecond)
	for _, patience := range []time.Duration{10 * time.Millisecond, 10 * time.Millisecond, 1500 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := l.Limit(ctx, "k", ofMany, 1)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotContains(t, err.Error(), "others have had their replies")
	}
	err := <-hangs
	assert.True(t, ratelimit.IsOutage(err) || strings.Contains(err.Error(), "this process was too busy"), "%v", err)
}

// departures is a hook that counts pipelines when they leave.
type departures struct {
	hook
	atomic.Int64
}

func (d *departures) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		d.Add(1)
		return next(ctx, cmds)
	}
}

// A connection that hangs holds up its own calls and no others.
func TestAConnectionThatHangsHoldsUpItsCallsOnly(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	link := topology.LinkTo(t, s)
	var dialled atomic.Int64
	client := s.Client(func(o *redis.Options) {
		o.ReadTimeout = time.Hour
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dialled.Add(1) == 1 {
				addr = fmt.Sprint("127.0.0.1:", link.Port)
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	})
	l := shared(client, pipelimit.Options{})
	calls.Ask(t, l, calls.On("k", ofMany))
	idle := func(n uint32) func() bool {
		return func() bool { return client.PoolStats().PipelineStats.IdleConns == n }
	}
	require.Eventually(t, idle(1), time.Minute, time.Millisecond, "a call is answered before its connection is back in the pool")
	require.EqualValues(t, 1, dialled.Load())
	link.Hold()
	hangs := calls.Ends(t.Context(), l, calls.On("k", ofMany))
	require.Eventually(t, idle(0), time.Minute, time.Millisecond)
	for i := 0; i < 100; i++ { // the first of these may share the connection that hangs
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if i == 0 {
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		}
		_, err := l.Limit(ctx, "k", ofMany, 1)
		cancel()
		if i > 0 {
			require.NoError(t, err)
		}
	}
	assert.Empty(t, hangs)
	link.Release()
	assert.NoError(t, <-hangs)
}

// While a server hangs, every call ends by the timeouts of the client; when it is back, so are the calls.
func TestCallsThatShareEndWhenTheServerHangs(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := shared(s.Client(quick, func(o *redis.Options) { o.PoolTimeout = o.ReadTimeout }), pipelimit.Options{})
	calls.Ask(t, l, calls.On("k", ofMany))
	s.Pause()
	var asking sync.WaitGroup
	for range 200 {
		asking.Go(func() {
			_, err := l.Limit(t.Context(), "k", ofMany, 1)
			assert.True(t, ratelimit.IsOutage(err) || ratelimit.IsOverload(err), "%v", err)
		})
	}
	asking.Wait()
	s.Resume()
	require.Eventually(t, func() bool { _, err := l.Limit(t.Context(), "k", ofMany, 1); return err == nil }, time.Minute, time.Millisecond)
}

// Whatever ends connections and contexts, at whatever moment: a call that was answered is charged, and none is charged
// twice.
func TestCallsThatShareAreChargedOnceAtMost(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	client := s.Client(func(o *redis.Options) { o.MaxRetries = 5 })
	l := shared(client, pipelimit.Options{Stall: time.Millisecond, Calls: 7})
	var made, answered atomic.Int64
	var asking sync.WaitGroup
	stop := make(chan struct{})
	for i := range 16 {
		asking.Go(func() {
			random := rand.New(rand.NewPCG(chance.Seed(t), uint64(i)))
			for range size.Of(100, 1000) {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if i%2 == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(2000))*time.Microsecond)
				}
				made.Add(1)
				_, err := l.Limit(ctx, "k", ofMany, 1)
				if err == nil {
					answered.Add(1)
				}
				cancel()
			}
		})
	}
	var killing sync.WaitGroup
	killing.Go(func() {
		control := s.Client()
		for {
			select {
			case <-stop:
				return
			default:
				control.Do(context.Background(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			}
		}
	})
	asking.Wait()
	close(stop)
	killing.Wait()
	used := charged(t, s.Client(), "k")
	t.Logf("%d calls, %d answered, %d charged", made.Load(), answered.Load(), used)
	assert.Positive(t, answered.Load())
	assert.Less(t, answered.Load(), made.Load(), "some were cut off")
	assert.LessOrEqual(t, answered.Load(), used)
	assert.LessOrEqual(t, used, made.Load())
}

// A call that waits has a connection of its own, and others do not wait for it.
func TestACallThatWaitsSharesNothing(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := shared(s.Client(), unhurried)
	one := ratelimit.Limits{ratelimit.Rate(1, time.Hour)}
	calls.Ask(t, l, calls.On("k", one))
	ctx, cancel := context.WithCancel(t.Context())
	waits := calls.Ends(ctx, l, calls.InLine("k", one, 0))
	require.Eventually(t, func() bool { return s.InfoInt("clients", "blocked_clients") == 1 }, time.Minute, time.Millisecond)
	calls.Ask(t, l, calls.On("other", ofMany))
	cancel()
	require.ErrorIs(t, <-waits, context.Canceled)
}

// Nodes of a cluster have pipelines of their own: one that hangs holds up no call on the others. Calls follow keys that
// move.
func TestCallsThatShareFindTheirNode(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	client := c.Client()
	l := shared(client, unhurried)
	keys := map[*server.Server]string{}
	for i := 0; len(keys) < 3; i++ {
		key := fmt.Sprint("key", i)
		keys[c.Owner(c.Slot(key))] = key
	}
	for _, key := range keys {
		calls.Ask(t, l, calls.On(key, ofMany))
	}
	from, to := c.Masters()[0], c.Masters()[1]
	from.Pause()
	hangs := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := l.Limit(ctx, keys[from], ofMany, 1)
		hangs <- err
	}()
	for range 100 {
		calls.Ask(t, l, calls.On(keys[to], ofMany))
	}
	cancel()
	<-hangs
	from.Resume()

	key := c.KeyOn(from, "moves")
	stop := make(chan struct{})
	var granted, unsure atomic.Int64
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := l.Limit(t.Context(), key, ofMany, 1); err == nil {
					granted.Add(1)
				} else {
					assert.True(t, ratelimit.IsOutage(err), "%v", err)
					unsure.Add(1)
				}
			}
		})
	}
	after := func(n int64) {
		require.Eventually(t, func() bool { return granted.Load() > n }, time.Minute, time.Millisecond)
	}
	after(100)
	c.BeginMove(c.Slot(key), from, to)
	after(granted.Load() + 100)
	from.MustDo("MIGRATE", to.Host, strconv.Itoa(to.Port), key, "0", "5000")
	after(granted.Load() + 100)
	c.EndMove(c.Slot(key), from, to)
	after(granted.Load() + 100)
	close(stop)
	asking.Wait()
	used := charged(t, client, key)
	assert.LessOrEqual(t, granted.Load(), used)
	assert.LessOrEqual(t, used, granted.Load()+unsure.Load())
	t.Logf("%d granted, %d without an answer, %d charged", granted.Load(), unsure.Load(), used)
}

// What a pipeline fails with is the error of its calls: also what go-redis tells no command, such as that the password
// is wrong.
func TestCallsThatShareHaveTheErrorOfTheirPipeline(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Password("right"))
	client := s.Client(func(o *redis.Options) { o.Password = "wrong" })
	_, err := shared(client, pipelimit.Options{}).Limit(t.Context(), "k", ofMany, 1)
	require.ErrorContains(t, err, "WRONGPASS")
	assert.ErrorAs(t, err, new(*pipelimit.Failure), "a breaker counts it once for all calls of the pipeline")
	assert.False(t, ratelimit.IsOutage(err))

	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": s.Addr()}, Password: "wrong"})
	t.Cleanup(func() { _ = ring.Close() })
	require.Eventually(t, func() bool {
		_, err = shared(ring, pipelimit.Options{}).Limit(t.Context(), "k", ofMany, 1)
		return err != nil && strings.Contains(err.Error(), "WRONGPASS")
	}, time.Minute, time.Millisecond, "%v", err)

	pipe := client.Pipeline()
	queued := pipelimit.Queue(t.Context(), pipe, calls.On("k", ofMany))
	_, err = pipe.Exec(t.Context())
	require.ErrorContains(t, err, "WRONGPASS")
	_, err = queued.Result()
	assert.ErrorContains(t, err, "Exec")
}

// While the cluster is unknown, a call leaves when its context ends, and asks the cluster no more than the pipelines
// do.
func TestCallsThatShareAskForAnUnknownClusterNoLongerThanTheirContext(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			<-asked
			return nil, errors.New("nobody knows")
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	t.Cleanup(func() { close(asked) })
	l := shared(client, pipelimit.Options{})
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		ended := calls.Ends(ctx, l, calls.On("k", ofMany))
		select {
		case err := <-ended:
			require.ErrorIs(t, err, context.DeadlineExceeded)
		case <-time.After(time.Minute):
			t.Fatal("the call waits for the cluster, not for its context")
		}
		cancel()
	}
}
