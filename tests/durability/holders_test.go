package durability

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

const (
	holderSlots = 5
	holderTTL   = 250 * time.Millisecond
	holderKey   = "jobs"
)

// belief is the time for which a holder believes in its lease: from the answer until it releases, dies, or
// the lease is over by its own clock, counted from before it asked.
type belief struct{ from, to time.Time }

// holders are callers that take leases under load, renew them, wait for them, die with them and give them back.
// Each has an id of its own for each lease.
type holders struct {
	t       *testing.T
	call    func(id string) caller
	confirm bool // believe only what a replica has confirmed: WAIT 1

	stopped atomic.Bool
	running sync.WaitGroup
	granted atomic.Int64
	lost    atomic.Int64
	lastID  atomic.Int64
	mu      sync.Mutex
	beliefs []belief
}

// caller sends a command; ok is false when there is no answer, or none that counts.
type caller func(command ...string) (v resp.Value, ok bool)

// startHolders starts fifty of them.
func startHolders(t *testing.T, confirm bool, call func(string) caller) *holders {
	h := &holders{t: t, call: call, confirm: confirm}
	for range 50 {
		h.running.Go(func() {
			for !h.stopped.Load() {
				h.hold()
			}
		})
	}
	return h
}

// hold is one lease, from the first call to the end of belief in it.
func (h *holders) hold() {
	id := fmt.Sprint("holder:", h.lastID.Add(1))
	call := h.call(id)
	command := strings.Fields(fmt.Sprintf("CL.LEASE %s SLOTS %d TTL %dms ID %s", holderKey, holderSlots, holderTTL.Milliseconds(), id))
	if rand.IntN(2) == 0 {
		command = append(command, "TIMEOUT", "200ms")
	}
	command = append(command, "COMPACT")
	var now belief
	for renewals := rand.IntN(4); ; renewals-- {
		asked := time.Now()
		v, ok := call(command...)
		answered := time.Now()
		if ok && h.confirm {
			replicas, heard := call("WAIT", "1", "100")
			ok = heard && replicas.Int >= 1
			answered = time.Now()
		}
		integers, err := v.Ints()
		if !ok || err != nil || len(integers) != 6 {
			time.Sleep(2 * time.Millisecond)
			break // it may hold one, and does not know
		}
		if integers[0] != 0 {
			h.lost.Add(1)
			break
		}
		// What a waiter is told counts from when it was let in, which is wait_ms after it asked.
		ends := asked.Add(time.Duration(integers[5]-1)*time.Millisecond + time.Duration(integers[4])*time.Millisecond)
		if integers[5] == 0 {
			ends = asked.Add(time.Duration(integers[4]) * time.Millisecond)
		}
		if now.from.IsZero() {
			h.granted.Add(1)
			now.from = answered
		}
		now.to = ends
		works := time.Duration(rand.Int64N(int64(holderTTL)))
		time.Sleep(works)
		if renewals <= 0 {
			break
		}
		command = strings.Fields(fmt.Sprintf("CL.RENEW %s ID %s TTL %dms COMPACT", holderKey, id, holderTTL.Milliseconds()))
	}
	if now.from.IsZero() {
		return
	}
	if rand.IntN(3) > 0 { // or it dies
		if released := time.Now(); released.Before(now.to) {
			now.to = released
		}
		call("CL.RELEASE", holderKey, "ID", id)
	}
	h.mu.Lock()
	h.beliefs = append(h.beliefs, now)
	h.mu.Unlock()
}

func (h *holders) await(more int64) {
	h.t.Helper()
	enough := h.granted.Load() + more
	require.Eventually(h.t, func() bool { return h.granted.Load() >= enough }, time.Minute, 2*time.Millisecond)
}

// end stops all and returns how many believed in a lease at once, at most.
func (h *holders) end() (most int) {
	h.t.Helper()
	h.stopped.Store(true)
	h.running.Wait()
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, b := range h.beliefs {
		if b.to.After(b.from) {
			changes = append(changes, change{b.from, 1}, change{b.to, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by // over at that instant
	})
	at := 0
	for _, c := range changes {
		at += c.by
		most = max(most, at)
	}
	h.t.Logf("%d leases, %d limited or lost; at most %d of %d believed in one at once", h.granted.Load(), h.lost.Load(), most, holderSlots)
	require.Positive(h.t, h.granted.Load())
	return most
}

// on calls one server, on a connection for each lease. For a while the server may be gone.
func on(current func() *server.Server) func(string) caller {
	return func(string) caller {
		var c *resp.Conn
		return func(command ...string) (v resp.Value, ok bool) {
			if c == nil {
				var err error
				if c, err = resp.Dial(current().Addr()); err != nil {
					return v, false
				}
			}
			v, err := c.Do(command...)
			if command[0] == "CL.RELEASE" || err != nil {
				_ = c.Close()
			}
			return v, err == nil && !v.IsError()
		}
	}
}

// Fifty callers take, die, wait and release while the server is killed again and again. With every write
// synced before it is answered, no more than n ever believe in a lease.
func TestNeverMoreThanNBelieveInALeaseWhenServersAreKilled(t *testing.T) {
	begin(t)
	s := server.Start(t, server.AppendOnly("always"))
	h := startHolders(t, false, on(func() *server.Server { return s }))
	for cycle := range size.Of(4, 12) {
		h.await(rand.Int64N(40) + 1)
		if cycle%4 == 3 {
			_ = s.Do("BGREWRITEAOF")
		}
		s.Kill()
		s.Restart()
	}
	h.await(40)
	assert.LessOrEqual(t, h.end(), holderSlots)
}

// The exception: the master dies, and the replica that takes over has not heard of its last leases. Their
// slots are taken twice, by at most n more, until they lapse. A holder that believes only what WAIT has
// confirmed is never one of too many.
func TestALeaseThatNoReplicaHeardOfIsForgotten(t *testing.T) {
	begin(t)
	for _, confirm := range []bool{false, true} {
		t.Run(map[bool]string{false: "on trust", true: "after WAIT"}[confirm], func(t *testing.T) {
			t.Parallel()
			most := 0
			for range 3 {
				master := server.Start(t, topology.QuietLinks())
				network := topology.LinkTo(t, master)
				replica := server.Start(t, topology.QuietLinks(), server.Config(fmt.Sprintf("replicaof 127.0.0.1 %d", network.Port)))
				topology.AwaitReplicas(t, master, replica)
				var current atomic.Pointer[server.Server]
				current.Store(master)
				h := startHolders(t, confirm, on(current.Load))
				h.await(40)
				network.Hold()
				if !confirm {
					h.await(20)
				}
				master.Kill()
				replica.MustDo("REPLICAOF", "NO", "ONE")
				current.Store(replica)
				h.confirm = false // nobody is left to confirm, and nothing can be lost any more
				h.await(20)
				most = max(most, h.end())
				network.Release()
			}
			if confirm {
				assert.LessOrEqual(t, most, holderSlots)
			} else {
				assert.LessOrEqual(t, most, 2*holderSlots)
				assert.Greater(t, most, holderSlots, "the network stood still for nothing")
			}
		})
	}
}

// What ends a lease may be forgotten, too: the new master holds it for the rest of its TTL. So it is sent again, which
// changes nothing if it was not forgotten.
func TestASettlementThatNoReplicaHeardOfIsSentAgain(t *testing.T) {
	begin(t)
	master := server.Start(t, topology.QuietLinks())
	network := topology.LinkTo(t, master)
	replica := server.Start(t, topology.QuietLinks(), server.Config(fmt.Sprintf("replicaof 127.0.0.1 %d", network.Port)))
	admit := func(s *server.Server, id string) (limited int64) {
		return s.MustDo(strings.Fields("CL.MLIMIT 2 tokens running RATE 1/1d BURST 1000 TAKE 100 NEXT SLOTS 3 TTL 1h COMPACT ID " + id)...).Elems[0].Int
	}
	settle := func(s *server.Server, id string) (settled int64) {
		return s.MustDo(strings.Fields("CL.SETTLE 2 tokens running RATE 1/1d BURST 1000 TAKE 100 USED 10 NEXT SLOTS COMPACT ID " + id)...).Elems[0].Int
	}
	release := func(s *server.Server, id string) int64 { return s.MustDo("CL.RELEASE", "running", "ID", id).Int }
	remaining := func(s *server.Server) int64 {
		return s.MustDo("CL.PEEK", "tokens", "RATE", "1/1d", "BURST", "1000", "COMPACT").Elems[3].Int
	}

	for _, id := range []string{"a", "b", "c"} {
		require.Zero(t, admit(master, id))
	}
	topology.AwaitReplicas(t, master, replica)
	network.Hold()
	require.EqualValues(t, []int64{1, 1, 1}, []int64{settle(master, "a"), settle(master, "b"), release(master, "c")})
	master.Kill()
	replica.MustDo("REPLICAOF", "NO", "ONE")
	assert.EqualValues(t, []int64{1, 700}, []int64{admit(replica, "d"), remaining(replica)}, "the slots are held, and the estimates charged")
	for i := range int64(2) { // the second time nothing changes
		assert.EqualValues(t, []int64{1 - i, 1 - i, 1 - i}, []int64{settle(replica, "a"), settle(replica, "b"), release(replica, "c")})
		assert.EqualValues(t, 880, remaining(replica))
	}
	assert.Zero(t, admit(replica, "d"))
	network.Release()
}
