package wait_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/naive"
	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// A lease that lapses wakes the first in line at its instant, without anybody calling.
func TestALapseWakesAtItsInstant(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	// A lease of slots on a connection that then waits for another. The server runs both calls at once, so the lease has hardly lapsed before
	// somebody waits for it.
	leaseAndWait := func(slots int, ttl time.Duration) (waiting *resp.Conn, from int64) {
		from = kit.NowIn(t, c) - int64(kit.ClockSkew)
		waiting = s.Raw()
		lease := fmt.Sprintf("CL.LEASE k SLOTS %d TTL %dms ID short", slots, ttl.Milliseconds())
		wait := fmt.Sprintf("CL.LEASE k SLOTS %d TTL 1h ID w TIMEOUT 1m", slots)
		require.NoError(t, waiting.Send(strings.Fields(lease)...))
		require.NoError(t, waiting.Send(strings.Fields(wait)...))
		require.NoError(t, waiting.Flush())
		require.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
		return waiting, from
	}
	// The connection waits for a minute. The line is looked at once in five minutes anyway.
	letIn := func(waiting *resp.Conn) (at int64) {
		require.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
		return time.Now().UnixNano() + int64(kit.ClockSkew)
	}
	for _, others := range []int{0, 1} { // the key may go with the lease, or stay
		kit.Do(t, c, "DEL k")
		for i := range others {
			kit.AskLease(t, c, "CL.LEASE k SLOTS %d TTL 1h ID other%d", others+1, i)
		}
		waiting, from := leaseAndWait(others+1, 300*time.Millisecond)
		assert.GreaterOrEqual(t, letIn(waiting), from+int64(300*time.Millisecond), "not before")
	}
	// A renewal of the one that would lapse first puts the turn off. On a busy machine it may come too late.
	for ttl := 200 * time.Millisecond; ; ttl *= 2 {
		require.Less(t, ttl, time.Minute)
		kit.Do(t, c, "DEL k")
		waiting, from := leaseAndWait(1, ttl)
		renewal := kit.AskLease(t, c, "CL.RENEW k ID short TTL %dms", 3*ttl.Milliseconds())
		at := letIn(waiting)
		if renewal.Limited == 0 {
			assert.GreaterOrEqual(t, at, from+int64(3*ttl))
			break
		}
	}
}

// More leases lapse at once than a call looks at. The first in line is told how many slots that leaves it, or waits for the next lapse.
func TestManyLeasesLapseAtOnceBeforeALine(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	const soon, later = 200, 400
	for _, lapse := range []int64{15, 16, 17, 40} {
		for _, test := range []struct {
			slots, waitsMs int64
		}{{lapse + 1, soon}, {2, later}} {
			kit.Do(t, c, "DEL k")
			nowMs := kit.NowIn(t, c) / int64(time.Millisecond)
			zadd := fmt.Sprintf("ZADD k %d last", nowMs+1_800_000)
			if test.waitsMs == later {
				zadd += fmt.Sprintf(" %d later", nowMs+later)
			}
			for i := range lapse {
				zadd += fmt.Sprintf(" %d lapses%d", nowMs+soon, i)
			}
			kit.Do(t, c, "%s", zadd)
			reply := kit.AskLease(t, c, "CL.LEASE k SLOTS %d TTL 1h ID new TIMEOUT 0", test.slots) // on a busy machine it may come too late to wait
			assert.GreaterOrEqual(t, kit.NowIn(t, c)/int64(time.Millisecond), nowMs+test.waitsMs)
			reply.WaitMs = 0
			assert.Equal(t, kit.NewLeased(0, test.slots, test.slots-2, -1, 3_600_000, 0), reply, "%d lapse", lapse)
		}
	}
}

// Callers that wait see every change of the key.
func TestChangesByOthersWake(t *testing.T) {
	t.Parallel()
	for change, others := range map[string]string{
		"CL.RELEASE k ID a":              "",
		"DEL k":                          "",
		"UNLINK k":                       "",
		"ZREM k a":                       "",
		"ZREM k a b":                     "CL.LEASE k SLOTS 2 TTL 1h ID b",
		"ZADD k %now a":                  "",
		"ZPOPMIN k":                      "",
		"RENAME k elsewhere":             "",
		"MOVE k 5":                       "",
		"PEXPIRE k 1":                    "",
		"FLUSHALL":                       "",
		"FLUSHDB ASYNC":                  "",
		"SWAPDB 0 3":                     "",
		"CL.RENEW k ID a TTL 1ms":        "",
		"CL.LEASE k SLOTS 2 TTL 1h ID a": "",
		"CL.LEASE k SLOTS 3 TTL 1h ID b": "",
		"CL.LEASE k SLOTS 2 TTL 1h ID b": "",
		"CL.LEASE k SLOTS 2 TTL 1h ID b TIMEOUT 10ms": "",
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t)
			c := s.Raw()
			kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID a")
			slots := 1
			if others != "" {
				kit.AskLease(t, c, "%s", others)
				slots = 2
			}
			waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS %d TTL 1h ID w TIMEOUT 0", slots)
			kit.StillWaits(t, waiting)
			now := kit.NowIn(t, c) / int64(time.Millisecond)
			kit.Do(t, c, "%s", strings.ReplaceAll(change, "%now", fmt.Sprint(now)))
			// The connection waits for a minute. The line is looked at once in five minutes anyway.
			assert.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
		})
	}
}

// A call that changes nothing wakes no caller.
func TestCallsThatChangeNothingWakeNobody(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("an older server cannot be asked")
	}
	c := s.Raw()
	kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID a")
	waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 0")
	before := kit.Looks(t, s)
	for range 10 {
		for _, call := range []string{
			"CL.LEASES k", "CL.RENEW k ID nobody TTL 1h", "CL.RELEASE k ID nobody", "CL.LEASE k SLOTS 1 TTL 1h ID late", "CL.RENEW k ID a",
			"CL.LEASES other", "CL.LIMIT other RATE 1/1d", "CL.TOP",
		} {
			kit.Do(t, c, "%s", call)
		}
		assert.Equal(t, before, kit.Looks(t, s))
	}
	kit.Do(t, c, "CL.RENEW k ID a TTL 2h")
	require.Eventually(t, func() bool { return kit.Looks(t, s) != before }, 60*time.Second, time.Millisecond)
	kit.StillWaits(t, waiting)
	kit.Do(t, c, "CL.RELEASE k ID a")
	assert.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
}

// While callers wait for a key, every command on it and on others answers as it does otherwise, and they are
// let in as ever.
func TestCommandsOnAKeyForWhichCallersWait(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	kit.Do(t, c, "CL.LEASE k SLOTS 2 TTL 1h ID a")
	kit.Do(t, c, "CL.LEASE k SLOTS 2 TTL 1h ID b")
	waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 2 TTL 1h ID w TIMEOUT 0")
	for call, says := range map[string]string{
		"CL.THROTTLE k 9 1 1h": "WRONGTYPE", "CL.LIMIT k RATE 5/s": "WRONGTYPE", "CL.PEEK k RATE 5/s": "WRONGTYPE", "CL.REFUND k RATE 5/s": "WRONGTYPE",
		"CL.BAN k 1h": "WRONGTYPE", "CL.WAIT k RATE 5/s TIMEOUT 0": "WRONGTYPE", "CL.WAIT k WINDOW 5/s TIMEOUT 0": "WRONGTYPE",
		"CL.MLIMIT 2 other k RATE 5/s": "WRONGTYPE", "CL.MLIMIT 2 k other RATE 5/s": "WRONGTYPE",
		"CL.TOP": "CL.TOP is off", "CL.LEASE k SLOTS 0 TTL 1h ID x TIMEOUT x": "ERR ",
		"CL.THROTTLE other1 9 1 1h": "", "CL.LIMIT other2 RATE 5/s": "", "CL.WAIT other3 WINDOW 5/s TIMEOUT 0": "", "CL.LEASES k": "",
		"CL.LEASE other5 SLOTS 1 TTL 1h ID a TIMEOUT 0": "", "CL.RENEW k ID a TTL 1h": "", "CL.RELEASE k ID nobody": "",
	} {
		if strings.Contains(call, "MLIMIT") && !s.Program.AtLeast(7, 0) {
			continue
		}
		v := kit.Do(t, c, "%s", call)
		assert.Equal(t, says != "", v.IsError(), "%s answers %v", call, v)
		assert.Contains(t, v.Text, says, call)
	}
	kit.StillWaits(t, waiting)
	assert.EqualValues(t, 1, kit.Do(t, c, "CL.LEASES k").Elems[3].Int)
	kit.Do(t, c, "CL.RELEASE k ID a")
	assert.Equal(t, []int64{0, 2, 0}, func() []int64 { l := kit.ReceiveLease(t, waiting); return []int64{l.Limited, l.Limit, l.Remaining} }())
}

// A caller that leaves, however it does, costs the others nothing.
func TestWhoLeavesTheLineCostsNobodyAnything(t *testing.T) {
	t.Parallel()
	for how, leave := range map[string]func(*testing.T, *resp.Conn, *resp.Conn, int64){
		"disconnect": func(t *testing.T, _, c *resp.Conn, _ int64) { assert.NoError(t, c.Close()) },
		"reset":      func(t *testing.T, _, c *resp.Conn, _ int64) { assert.NoError(t, c.Reset()) },
		"CLIENT KILL": func(t *testing.T, admin, _ *resp.Conn, id int64) {
			assert.EqualValues(t, 1, kit.Do(t, admin, "CLIENT KILL ID %d", id).Int)
		},
		"CLIENT UNBLOCK": func(t *testing.T, admin, c *resp.Conn, id int64) {
			assert.EqualValues(t, 1, kit.Do(t, admin, "CLIENT UNBLOCK %d", id).Int)
			l := kit.ReceiveLease(t, c)
			assert.Equal(t, []int64{1, 1, 0, 0}, []int64{l.Limited, l.Limit, l.Remaining, l.LeaseMs})
			assert.Positive(t, l.RetryAfterMs)
		},
		"CLIENT UNBLOCK ERROR": func(t *testing.T, admin, c *resp.Conn, id int64) {
			assert.EqualValues(t, 1, kit.Do(t, admin, "CLIENT UNBLOCK %d ERROR", id).Int)
			v, err := c.Receive()
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(v.Text, "UNBLOCKED "), "%v", v)
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := kit.StartWatched(t)
			kit.Do(t, w.Conn, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
			before := w.Traces(t, "k")
			first := w.Raw()
			id := kit.Do(t, first, "CLIENT ID").Int
			require.NoError(t, first.Send(strings.Fields("CL.LEASE k SLOTS 1 TTL 1h ID first TIMEOUT 0")...))
			require.NoError(t, first.Flush())
			kit.AwaitField(t, w.Conn, "leases_waiting", 1)
			second := kit.WaitForLease(t, w.Server, 2, "CL.LEASE k SLOTS 1 TTL 1h ID second TIMEOUT 0")
			leave(t, w.Conn, first, id)
			kit.AwaitField(t, w.Conn, "leases_waiting", 1)
			assert.Equal(t, before, w.Traces(t, "k"), "nothing was written")
			kit.StillWaits(t, second)
			assert.EqualValues(t, 1, kit.Do(t, w.Conn, "CL.RELEASE k ID holder").Int)
			assert.EqualValues(t, 0, kit.ReceiveLease(t, second).Limited)
			assert.Equal(t, []string{"0", "2"}, kit.LeasesOf(w.Server, "waiting", "granted"))
		})
	}
}

func TestALeaseTimesOut(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t, server.Config("notify-keyspace-events Ed"))
	c := s.Raw()
	kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID a")
	e := kit.ListenToEvents(t, s)
	begun := time.Now()
	l := kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID b TIMEOUT 200ms")
	assert.GreaterOrEqual(t, time.Since(begun), 200*time.Millisecond)
	assert.Equal(t, kit.NewLeased(1, 1, 0, l.RetryAfterMs, 0, l.WaitMs), l)
	assert.GreaterOrEqual(t, l.WaitMs, int64(199))
	assert.LessOrEqual(t, l.WaitMs, kit.CeilMs(int64(time.Since(begun)))+1)
	assert.Positive(t, l.RetryAfterMs)
	assert.Equal(t, []string{"limited k"}, e.Drain(t))
	assert.Equal(t, []string{"1", "0"}, kit.LeasesOf(s, "limited", "waiting"))
	info := s.Info("throttle")
	assert.Equal(t, []string{"0", "0"}, []string{info["throttle_waited"], info["throttle_wait_left"]}, "these are of CL.WAIT")
	kit.AskLease(t, c, "CL.LEASE k SLOTS 2 TTL 1h ID b")
}

// The first in line is let in as soon as the key is gone, also when it is a caller behind it whose time is over that
// makes the server see that.
func TestAKeyThatExpiresWhenSomebodyGivesUpWakes(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	kit.Do(t, c, "DEBUG SET-ACTIVE-EXPIRE 0") // the server sees that a key has expired when somebody opens it
	kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
	first := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID first TIMEOUT 0")
	second := kit.WaitForLease(t, s, 2, "CL.LEASE k SLOTS 1 TTL 1h ID second TIMEOUT 500ms")
	kit.Do(t, c, "PEXPIRE k 1")
	assert.EqualValues(t, 1, kit.ReceiveLease(t, second).Limited)
	v, err := first.ReceiveWithin(10 * time.Second) // the line is looked at every five minutes anyway
	require.NoError(t, err)
	l, err := kit.LeasedIn(v)
	require.NoError(t, err)
	assert.EqualValues(t, 0, l.Limited)
}

// Ten thousand callers of many groups and priorities that wait for a lease cost the server nothing, nor do they when all leave.
func TestACrowdOfManyGroupsCostsNothingWhileItWaits(t *testing.T) {
	turn := func(i int) naive.Turn {
		return naive.Turn{Caller: uint64(i), Group: fmt.Sprint("tenant-", i%3000), Priority: int64(i%7 - 3)}
	}
	watched := size.Of(time.Second, 3*time.Second) // not in parallel: other tests need as many files
	var files syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	crowd := int(min(uint64(size.Of(3000, 10_000)), files.Max-1000))
	s := server.Start(t, server.Config("maxclients 10100"))
	admin := s.Raw()
	kit.AskLease(t, admin, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
	conns := make([]*resp.Conn, crowd)
	for i := range conns {
		conns[i] = s.Raw()
		kit.Do(t, conns[i], "PING")
	}
	connected := kit.CPUOver(t, s, watched)
	rss := kit.ResidentBytes(t, s)
	var order naive.Turns
	for i, c := range conns {
		order.Join(turn(i))
		require.NoError(t, c.Send(strings.Fields(fmt.Sprintf("CL.LEASE k SLOTS 1 TTL 1h ID w%d TIMEOUT 1h", i)+kit.PlaceOf(turn(i)))...))
		require.NoError(t, c.Flush())
	}
	kit.AwaitField(t, admin, "leases_waiting", crowd)
	perCaller := (kit.ResidentBytes(t, s) - rss) / int64(crowd)
	waiting := kit.CPUOver(t, s, watched)
	t.Logf("CPU over %v: idle %v, waiting %v; %d bytes for each who waits", watched, connected, waiting, perCaller)
	assert.LessOrEqual(t, waiting, 2*connected+watched/20, "CPU while %d wait", crowd)
	assert.Less(t, perCaller, int64(16<<10))

	// Each release lets one in and leaves the others alone.
	before := s.CPUTime()
	holder := "holder"
	for range 500 {
		next := order.LetIn().Caller
		assert.EqualValues(t, 1, kit.Do(t, admin, "CL.RELEASE k ID %s", holder).Int)
		assert.EqualValues(t, 0, kit.ReceiveLease(t, conns[next]).Limited)
		holder = fmt.Sprintf("w%d", next)
	}
	handovers := s.CPUTime() - before
	t.Logf("500 leases handed on behind 10,000: %v", handovers)
	assert.Less(t, handovers, 500*time.Millisecond)

	for _, c := range conns {
		require.NoError(t, c.Reset())
	}
	kit.AwaitField(t, admin, "leases_waiting", 0)
}

// While the server refuses writes, nobody in line is let in; as soon as it takes them again, they are.
func TestNobodyIsLetInWhileWritesAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ refuse, allow string }{
		"too few replicas": {"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
		"no memory":        {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
		"a pause":          {"CLIENT PAUSE 100000000 WRITE", "CLIENT UNPAUSE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t)
			if !s.Program.AtLeast(7, 0) {
				t.Skip("an older server cannot be asked")
			}
			c := s.Raw()
			kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 400ms ID a")
			waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 0")
			require.False(t, kit.Do(t, c, "%s", test.refuse).IsError())
			require.Eventually(t, func() bool { return kit.Do(t, c, "CL.LEASES k").Elems[1].Int == 0 }, 10*time.Second, 5*time.Millisecond)
			kit.StillWaits(t, waiting)
			assert.EqualValues(t, 1, kit.Do(t, c, "CL.LEASES k").Elems[3].Int)
			main := map[int]string{s.Pid(): "main"}
			before := kit.WakeUps(t, s.Pid(), main)
			<-time.After(time.Second) // 10 times a cron, and the line is looked at up to 50 times
			assert.Less(t, kit.WakeUps(t, s.Pid(), main)-before, 150, "nor is the server kept busy")
			require.False(t, kit.Do(t, c, "%s", test.allow).IsError())
			assert.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
		})
	}
}

// The lease ahead lapses before the time of the caller is over, though by less than a timer's millisecond.
func TestASlotThatIsFreeBeforeTheTimeIsOverIsTaken(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	const pairs = 200
	conns := make([]*resp.Conn, pairs)
	for i := range conns {
		conns[i] = s.Raw()
		key := fmt.Sprint("slots", i)
		require.NoError(t, conns[i].Send("CL.LEASE", key, "SLOTS", "1", "TTL", "100ms", "ID", "a", "COMPACT"))
		require.NoError(t, conns[i].Send("CL.LEASE", key, "SLOTS", "1", "TTL", "1m", "TIMEOUT", "101ms", "ID", "b", "COMPACT"))
		require.NoError(t, conns[i].Flush())
	}
	for i, c := range conns {
		for call := range 2 {
			v, err := c.Receive()
			require.NoError(t, err)
			require.Len(t, v.Elems, 6, "%v", v)
			assert.Zero(t, v.Elems[0].Int, "pair %d, call %d: %v", i, call+1, v)
		}
	}
}
