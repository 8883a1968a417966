package process_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// What a call allocates it gives back: allowed, limited, wrong, in a transaction and
// in a script, replicated into an append-only file.
func TestCallsLeaveNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.AppendOnly("no"), server.Config("auto-aof-rewrite-percentage 0"))
	c := s.Raw()
	for i := range 20 { // more than a call removes
		kit.Do(t, c, "ZADD leases %d lapsed%d", 1_000_000_000_000+i, i)
	}
	kit.Do(t, c, "ZADD leases %d held", kit.NowIn(t, c)/int64(time.Millisecond)+3_600_000)
	grown := kit.Growth(t, c, func() {
		for range 10 {
			var commands [][]string
			for i := range 200 {
				key := fmt.Sprint("key", i%100)
				commands = append(commands,
					kit.RawCallOf(key, "1000 1 1d 1"), kit.RawCallOf(key, "1 1 1d 2"), kit.RawCallOf(key, "x 1 1d"), kit.RawCallOf(key, "1 1"),
					[]string{"MULTI"}, kit.RawCallOf(key, "1000000 10 1s 1"), []string{"EXEC"},
					[]string{"EVAL", "return redis.call('CL.THROTTLE', KEYS[1], 1000, 1, 60, 1)", "1", key},
					strings.Fields("CL.LEASES leases"), strings.Fields("CL.INSPECT leases"), []string{"CL.INSPECT", key}, strings.Fields("CL.LEASE leases SLOTS 1 TTL 1h ID other"), strings.Fields("CL.RENEW leases ID other TTL 1h"),
					strings.Fields("CL.LEASE others SLOTS 1 TTL 1h ID a"), strings.Fields("CL.LEASE others SLOTS 2 TTL 1h ID b"), strings.Fields("CL.RELEASE others ID b"))
			}
			_, err := c.Pipeline(commands...)
			require.NoError(t, err)
		}
	})
	assert.Less(t, grown, int64(24<<10), "2,000 of each kind: 16 bytes left behind by one of them would be 32 KB")
}

// So does a caller in line that another module cuts off while its line looks at its key, and counts what has lapsed.
func TestCallersThatAreCutOffLeaveNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	c, w := s.Raw(), s.Raw()
	for i := range 20 { // more than a call looks at
		kit.Do(t, c, "ZADD k %d lapsed%d", 1_700_000_000_000+i, i)
	}
	kit.Do(t, c, "ZADD k 2100000000000 held")
	kit.Do(t, c, "NEIGHBOUR.BEFORE ZCOUNT CLIENT UNBLOCK %d", kit.Do(t, w, "CLIENT ID").Int)
	changes := 0
	grown := kit.Growth(t, c, func() {
		for range 100 {
			kit.Send(t, w, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 0")
			kit.AwaitField(t, c, "leases_waiting", 1)
			changes++
			kit.Do(t, c, "ZADD k %d held", 2_100_000_000_000+changes)
			require.EqualValues(t, 1, kit.ReceiveLease(t, w).Limited)
		}
	})
	assert.Less(t, grown, int64(6<<10), "an open key takes some 100 bytes")
}

// So do keys that come and go, by the calls that make and delete them.
func TestKeysThatComeAndGoLeaveNoMemoryBehind(t *testing.T) {
	server.NeedsServer(t, "a count of its memory")
	t.Parallel()
	s := server.Start(t)
	c := s.Raw()
	const stack = "RATE 1/1h RATE 2/1d WINDOW 3/1d" // longer than the values for which memory is used again
	grown := kit.Growth(t, c, func() {
		for range 20 {
			var commands [][]string
			for i := range 100 {
				for _, command := range []string{
					"CL.LIMIT rate%d RATE 1/1h", "CL.REFUND rate%d RATE 1/1h",
					"CL.LIMIT stack%d " + stack, "CL.REFUND stack%d " + stack,
					"CL.BAN banned%d 1h", "CL.BAN banned%d 0",
					"CL.LEASE lease%d SLOTS 1 TTL 1h ID a", "CL.RELEASE lease%d ID a",
					"ZADD lapsed%d 1700000000000 a 1700000000001 b", "CL.LEASES lapsed%[1]d", "CL.LEASE lapsed%[1]d SLOTS 1 TTL 1h ID a", "CL.RELEASE lapsed%[1]d ID a",
				} {
					commands = append(commands, strings.Fields(fmt.Sprintf(command, i)))
				}
			}
			replies, err := c.Pipeline(commands...)
			require.NoError(t, err)
			for i, v := range replies {
				require.False(t, v.IsError(), "%q answers %v", commands[i], v)
			}
		}
		require.EqualValues(t, 0, s.MustDo("DBSIZE").Int)
	})
	assert.Less(t, grown, int64(24<<10), "2,000 of each kind: 16 bytes left behind by one of them would be 32 KB")
}

// So do callers that wait: for a lease, for a window or for a rate, until they are let in, give up, or are cut off.
// The names of their keys are long: a short one is looked up without allocating anything.
func TestCallersInLineLeaveNoMemoryBehind(t *testing.T) {
	server.NeedsServer(t, "a count of its memory")
	t.Parallel()
	s := server.Start(t)
	admin := s.Raw()
	key := strings.Repeat("k", 1000)
	var conns []*resp.Conn
	var ids []int64
	for range 8 {
		conns = append(conns, s.Raw())
		ids = append(ids, kit.Do(t, conns[len(conns)-1], "CLIENT ID").Int)
	}
	wait := func(field, call string) {
		t.Helper()
		for i, c := range conns {
			kit.Send(t, c, strings.NewReplacer("KEY", key, "ID", fmt.Sprint("ID ", i)).Replace(call))
			kit.AwaitField(t, admin, field, i+1)
		}
	}
	receive := func(c *resp.Conn) {
		t.Helper()
		v, err := c.Receive()
		require.NoError(t, err)
		require.False(t, v.IsError(), "%s", v.Text)
	}
	giveUp := func() {
		t.Helper()
		for i, c := range conns {
			require.EqualValues(t, 1, kit.Do(t, admin, "CLIENT UNBLOCK %d", ids[i]).Int)
			receive(c)
		}
	}
	grown := kit.Growth(t, admin, func() {
		for range 10 {
			kit.Do(t, admin, "CL.LEASE %s SLOTS 1 TTL 1h ID holder", key)
			wait("leases_waiting", "CL.LEASE KEY SLOTS 1 TTL 1h ID TIMEOUT 0")
			for range 10 { // others look at the line
				kit.Do(t, admin, "CL.LEASES %s", key)
			}
			holder := "holder"
			for i, c := range conns {
				kit.Do(t, admin, "CL.RELEASE %s ID %s", key, holder)
				receive(c)
				holder = fmt.Sprint(i)
			}
			kit.Do(t, admin, "DEL %s", key)
			kit.Do(t, admin, "CL.LEASE %s SLOTS 1 TTL 1h ID holder", key)
			wait("leases_waiting", "CL.LEASE KEY SLOTS 1 TTL 1h ID TIMEOUT 1h")
			kit.Do(t, admin, "SWAPDB 0 0") // all lines are looked at
			giveUp()
			for range 10 { // each has a line of its own
				kit.Do(t, conns[0], "CL.LEASE %s SLOTS 1 TTL 1h ID other TIMEOUT 1ms", key)
			}
			kit.Do(t, admin, "DEL %s", key)
			kit.Do(t, admin, "CL.LEASE %s SLOTS 2 TTL 1h ID holder", key)
			for i := range 6 { // all but the first find a lease that has lapsed
				kit.Do(t, conns[0], "CL.LEASE %s SLOTS 2 TTL 10ms ID %0300d TIMEOUT 1h", key, i)
			}
			kit.Do(t, admin, "DEL %s", key)

			kit.Do(t, admin, "CL.WAIT %s WINDOW 1/1h TIMEOUT 1h", key)
			wait("waiting", "CL.WAIT KEY WINDOW 1/1h TIMEOUT 1d")
			giveUp()
			for range 20 { // what is kept of each has 40 bytes
				kit.Do(t, conns[0], "CL.WAIT %s WINDOW 1/1h TIMEOUT 1ms EACH", key)
			}
			kit.Do(t, admin, "DEL %s", key)

			kit.Do(t, admin, "CL.WAIT %s RATE 1/1h TIMEOUT 1h", key)
			wait("waiting", "CL.WAIT KEY RATE 1/1h TIMEOUT 1d")
			giveUp()
			kit.Do(t, admin, "DEL %s", key)
		}
		for range 30 { // each in a line of its own
			for i, c := range conns {
				kit.Do(t, admin, "CL.LIMIT own%d RATE 1/1h", i)
				kit.Send(t, c, fmt.Sprintf("CL.WAIT own%d RATE 1/1h TIMEOUT 1d", i))
			}
			kit.AwaitField(t, admin, "waiting", len(conns))
			giveUp()
			kit.AwaitField(t, admin, "waiting", 0)
			for i := range conns {
				kit.Do(t, admin, "DEL own%d", i)
			}
		}
		kit.AwaitField(t, admin, "leases_waiting", 0)
		kit.AwaitField(t, admin, "waiting", 0)
	})
	// Hundreds of callers in hundreds of lines: one argument of each caller left behind would be 5 KB or more, what is
	// kept of each line 6 KB or more.
	assert.Less(t, grown, int64(4<<10), "used_memory")
}

// So do calls beside another module, which calls or writes in the middle of them.
func TestCallsBesideANeighbourLeaveNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s, c := kit.StartKeepingExpired(t)
	for name, tt := range map[string]struct{ begin, again string }{ // again runs many times
		"another module calls in the middle":   {"NEIGHBOUR.ON expired b CL.PEEK other RATE 1/1d", "NEIGHBOUR.EXPIRED b 1; CL.REFUND b RATE 1/1d"},
		"its key expires twice":                {"NEIGHBOUR.DO", "NEIGHBOUR.EXPIRED b 2; CL.REFUND b RATE 1/1d"},
		"its key expires too often":            {"NEIGHBOUR.DO", "NEIGHBOUR.EXPIRED b 100; CL.REFUND b RATE 1/1d; NEIGHBOUR.EXPIRED b 0"},
		"one of its keys expires":              {"NEIGHBOUR.DO", "NEIGHBOUR.EXPIRED b 1; CL.REFUND a RATE 1/1d; CL.MLIMIT 3 a b c RATE 1/1d; DEL a b c"},
		"one of its keys expires too often":    {"NEIGHBOUR.DO", "NEIGHBOUR.EXPIRED b 100; CL.MLIMIT 3 a b c RATE 1/1d; NEIGHBOUR.EXPIRED b 0"},
		"it adds keys":                         {"NEIGHBOUR.ON new a PING", "CL.MLIMIT 3 a b c RATE 1/1d; DEL a b c"},
		"it adds leases":                       {"NEIGHBOUR.ON new a PING", "CL.MLIMIT 3 a b c SLOTS 1 TTL 1h ID x; DEL a b c"},
		"a key that it adds expires too often": {"NEIGHBOUR.ON new a NEIGHBOUR.EXPIRED b 100", "CL.MLIMIT 3 a b c RATE 1/1d; NEIGHBOUR.EXPIRED b 0; DEL a b c"},
		"it reads what a script has written":   {"NEIGHBOUR.DO", "EVAL redis.call('SET','b','5')redis.call('CL.PEEK','b','RATE','1/1d') 0"},
		"it reads what is none of ours":        {"NEIGHBOUR.DO", "EVAL redis.call('SET','b','no')redis.pcall('CL.PEEK','b','RATE','1/1d') 0"},
	} {
		kit.Forget(t, c)
		kit.Do(t, c, "%s", tt.begin)
		var commands [][]string
		for range 500 {
			for command := range strings.SplitSeq(tt.again, ";") {
				commands = append(commands, strings.Fields(command))
			}
		}
		grown := kit.Growth(t, c, func() {
			_, err := c.Pipeline(commands...)
			require.NoError(t, err)
		})
		if tt.begin != "NEIGHBOUR.DO" {
			assert.GreaterOrEqual(t, neighbour.Seen(t, s), int64(1500), name)
		}
		assert.Less(t, grown, int64(12<<10), "%s: one handle of a key left behind by each call would be 50 KB", name)
	}
}

// Of the first call of each client the bridge asks whose it is.
func TestClientsBesideANeighbourLeaveNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	c := s.Raw()
	kit.MustDoAll(t, c, "CL.LIMIT key RATE 1/1d BURST 9")
	grown := kit.Growth(t, c, func() {
		for range 500 {
			one := s.Raw()
			kit.Do(t, one, "CL.PEEK key RATE 1/1d BURST 9")
			require.NoError(t, one.Close())
		}
		require.Eventually(t, func() bool { return s.InfoInt("clients", "connected_clients") <= 2 }, kit.Patience, time.Millisecond)
	})
	assert.Less(t, grown, int64(12<<10), "the name of a user left behind by each client would be 20 KB")
}

// The module lets Go's threads sleep by raising a thread's timer slack. The server's
// own threads must keep theirs, or its timers come late.
func TestServerThreadsKeepTheirTimers(t *testing.T) {
	t.Parallel()
	with, without := server.Start(t), server.Start(t, server.WithoutModule())
	own := timerSlacks(t, without)[without.Pid()]
	slacks := timerSlacks(t, with)
	assert.Equal(t, own, slacks[with.Pid()], "main thread")
	sleepy := 0
	for tid, slack := range slacks {
		if slack > own {
			sleepy++
			assert.NotContains(t, threadName(t, tid), "bio_", "a thread of the server's")
		}
	}
	assert.Positive(t, sleepy, "Go's threads sleep")
}

// timerSlacks is the timer slack of each of the server's threads, in ns.
func timerSlacks(t *testing.T, s *server.Server) map[int]int64 {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.Pid()))
	require.NoError(t, err)
	slacks := map[int]int64{}
	for _, task := range tasks {
		b, err := os.ReadFile("/proc/" + task.Name() + "/timerslack_ns")
		if os.IsPermission(err) {
			t.Skip("the kernel tells timer slacks only to root")
		}
		require.NoError(t, err)
		tid, err := strconv.Atoi(task.Name())
		require.NoError(t, err)
		slacks[tid], err = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		require.NoError(t, err)
	}
	return slacks
}

func threadName(t *testing.T, tid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", tid))
	require.NoError(t, err)
	return string(b)
}
