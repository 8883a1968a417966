package line_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// turmoil is callers that come, wait and leave on new connections until the deadline, and somebody beside them who does
// something again and again.
type turmoil struct {
	t        *testing.T
	s        *server.Server
	workers  int
	deadline time.Time
	call     func(random *rand.Rand, worker int) string
	answered func(call string, v resp.Value)
	beside   func(random *rand.Rand, c *resp.Conn)

	lastID, answers, left, killed atomic.Int64
}

func (u *turmoil) run() {
	var callers, beside sync.WaitGroup
	for worker := range u.workers {
		callers.Go(func() {
			for random := rand.New(rand.NewPCG(uint64(worker), 20)); time.Now().Before(u.deadline); {
				u.comes(random, worker)
			}
		})
	}
	stop := make(chan struct{})
	beside.Go(func() {
		for random, c := rand.New(rand.NewPCG(1, 21)), u.s.Raw(); ; {
			select {
			case <-stop:
				return
			default:
				u.beside(random, c)
			}
		}
	})
	callers.Wait()
	close(stop)
	beside.Wait()
	u.t.Logf("%d answers, %d left, %d killed", u.answers.Load(), u.left.Load(), u.killed.Load())
	assert.Positive(u.t, u.answers.Load())
}

// comes makes some calls on a connection, which may leave before the answer, or be killed.
func (u *turmoil) comes(random *rand.Rand, worker int) {
	c := u.s.Raw()
	defer func() { _ = c.Close() }()
	id, err := c.Do("CLIENT", "ID")
	if err != nil { // killed already
		assert.True(u.t, isCutOff(err), "%v", err)
		u.killed.Add(1)
		return
	}
	u.lastID.Store(id.Int)
	for range 4 {
		call := u.call(random, worker)
		if !assert.NoError(u.t, c.Send(strings.Fields(call)...)) || !assert.NoError(u.t, c.Flush()) {
			return
		}
		if random.IntN(5) == 0 {
			time.Sleep(time.Duration(random.IntN(int(20 * time.Millisecond))))
			_ = c.Reset() // its answer may be on its way
			u.left.Add(1)
			return
		}
		v, err := c.ReceiveWithin(kit.Patience)
		if err != nil {
			assert.True(u.t, isCutOff(err), "%q has no answer: %v", call, err)
			u.killed.Add(1)
			return
		}
		u.answers.Add(1)
		u.answered(call, v)
	}
}

// isCutOff reports whether a connection was closed by the server, and not merely silent.
func isCutOff(err error) bool { return !errors.Is(err, os.ErrDeadlineExceeded) }

// requireNobodyLeft fails if anything of a line stays, with which the module could not be unloaded.
func requireNobodyLeft(t *testing.T, s *server.Server) {
	t.Helper()
	admin := s.Raw()
	kit.AwaitField(t, admin, "leases_waiting", 0)
	kit.AwaitField(t, admin, "waiting", 0)
	assert.Zero(t, s.InfoInt("clients", "blocked_clients"))
	assert.Zero(t, s.InfoInt("throttle", "throttle_errors_internal"))
	require.Eventually(t, func() bool { return !kit.Do(t, admin, "MODULE UNLOAD throttle").IsError() }, 2*kit.Patience, kit.Tick)
}

// Callers come and go in every way at once: answered, cut off, unblocked, sent away. No
// key lets more through than its rate, and in the end nobody is left behind.
func TestCallersComeAndGo(t *testing.T) {
	t.Parallel()
	const keys, ratePerSecond, burst, duration = 3, 200, 5, 2 * time.Second
	s := kit.StartCheckBuild(t, server.Config("maxclients 1000"))
	admin := s.Raw()
	from := kit.NowIn(t, admin)
	var granted [keys]atomic.Int64
	u := &turmoil{t: t, s: s, workers: 40, deadline: time.Now().Add(duration)}
	u.call = func(random *rand.Rand, _ int) string {
		return fmt.Sprintf("CL.WAIT key%d RATE %d/s BURST %d COST %d TIMEOUT %dms", random.IntN(keys), ratePerSecond, burst, 1+random.IntN(3), 50+random.IntN(500))
	}
	u.answered = func(call string, v resp.Value) {
		if strings.HasPrefix(v.Text, "UNBLOCKED") {
			return
		}
		if a, err := kit.StandingIn(v); assert.NoError(t, err) {
			granted[call[len("CL.WAIT key")]-'0'].Add(a.Granted)
		}
	}
	u.beside = func(random *rand.Rand, c *resp.Conn) {
		how := []string{"ERROR", "TIMEOUT"}[random.IntN(2)]
		_, err := c.Do("CLIENT", "UNBLOCK", fmt.Sprint(u.lastID.Load()-int64(random.IntN(30))), how)
		assert.NoError(t, err)
		if random.IntN(20) == 0 {
			_, err = c.Do("CL.LIMIT", fmt.Sprint("key", random.IntN(keys)), "RATE", "200/s", "BURST", "5", "MAXWAIT", "1s", "COST", "0")
			assert.NoError(t, err)
		}
		time.Sleep(time.Millisecond)
	}
	u.run()
	assert.Zero(t, u.killed.Load())
	elapsed := time.Duration(kit.NowIn(t, admin)-from) + time.Millisecond
	var all int64
	for key := range granted {
		n := granted[key].Load()
		all += n
		assert.LessOrEqual(t, n, int64(burst+elapsed.Seconds()*ratePerSecond)+1, "key%d in %v", key, elapsed)
	}
	assert.Greater(t, all, int64(burst+duration.Seconds()*ratePerSecond)*keys/4, "slots that were given back are used")
	assert.Positive(t, s.InfoInt("throttle", "throttle_wait_left"))
	requireNobodyLeft(t, s)
}

// Callers of all kinds come, wait and leave, while somebody changes the server and the keys and another module runs
// commands in between. Nobody is forgotten.
func TestNobodyIsForgottenInTurmoil(t *testing.T) {
	t.Parallel()
	const workers, slots = 24, 2
	s, stepBy := kit.StartWithSteps(t, neighbour.Beside(t), server.Config("maxclients 1000"))
	if !s.Program.AtLeast(7, 2) {
		t.Skip("up to Redis 7.0 a client that another module unblocks while the server answers it may get no answer")
	}
	neighbour.Do(t, s, "CL.LEASES {k}0")
	u := &turmoil{t: t, s: s, workers: workers, deadline: time.Now().Add(3 * time.Second), answered: func(string, resp.Value) {}}
	u.call = func(random *rand.Rand, worker int) string {
		key := fmt.Sprint("{k}", random.IntN(3))
		timeout := fmt.Sprint(1+random.IntN(400), "ms")
		switch random.IntN(4) {
		case 0:
			return fmt.Sprintf("CL.WAIT rate%s RATE 50/s BURST 1 TIMEOUT %s", key, timeout)
		case 1:
			return fmt.Sprintf("CL.WAIT window%s WINDOW 5/100ms TIMEOUT %s", key, timeout)
		}
		return fmt.Sprintf("CL.LEASE %s SLOTS %d TTL 200ms ID w%d TIMEOUT %s", key, slots, worker, timeout)
	}
	u.beside = func(random *rand.Rand, c *resp.Conn) {
		id := u.lastID.Load() - int64(random.IntN(workers))
		commands := []string{
			"FLUSHALL", "SWAPDB 0 1", "DEL {k}0", "RENAME {k}1 {k}2", "MOVE {k}2 3", "SET {k}0 text", "SUNIONSTORE {k}1 none", "CONFIG SET maxmemory 1",
			"CONFIG SET maxmemory 0", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0",
			fmt.Sprintf("CLIENT KILL ID %d", id), fmt.Sprintf("CLIENT UNBLOCK %d", id), fmt.Sprintf("CLIENT UNBLOCK %d ERROR", id),
			fmt.Sprintf("NEIGHBOUR.DO CLIENT UNBLOCK %d", id), "NEIGHBOUR.DO CL.LEASES {k}1",
			"NEIGHBOUR.DO CL.RELEASE {k}0 ID w1", "NEIGHBOUR.DO CL.REFUND window{k}0 WINDOW 5/100ms", "NEIGHBOUR.DO", "DEBUG SLEEP 0.01",
			"ACL SETUSER default resetkeys", "ACL SETUSER default allkeys", "STEP",
		}
		command := commands[random.IntN(len(commands))]
		if command == "STEP" {
			stepBy(time.Duration(random.IntN(int(20*time.Second))) - 10*time.Second) // a timer that was set ahead fires within patience
			return
		}
		for _, command := range []string{command, "ACL SETUSER default allkeys"} {
			_, err := c.Do(strings.Fields(command)...) // may be refused
			assert.NoError(t, err, command)
		}
	}
	u.run()
	stepBy(0)
	kit.MustDoAll(t, s.Raw(), "CLIENT UNPAUSE", "CONFIG SET maxmemory 0", "CONFIG SET min-replicas-to-write 0", "CLIENT PAUSE 20 WRITE", "CLIENT UNPAUSE", "NEIGHBOUR.DO")
	requireNobodyLeft(t, s)
}
