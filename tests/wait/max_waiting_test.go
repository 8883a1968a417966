package wait_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// startBounded starts a server on which so many callers may wait.
func startBounded(t *testing.T, callers int) *server.Server {
	t.Helper()
	p, err := server.DefaultProgram()
	require.NoError(t, err)
	if !p.IsDev() {
		return server.Start(t, server.ModuleArgs("max-waiting", fmt.Sprint(callers)))
	}
	s := server.Start(t)
	s.MustDo("CONFIG", "SET", "throttle.max-waiting", fmt.Sprint(callers))
	return s
}

// Who comes when throttle.max-waiting is reached is answered at once, and nothing is written for it. A caller that
// leaves makes room for another.
func TestBeyondMaxWaitingCallersAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsOfAllKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startBounded(t, 1)
			admin := s.Raw()
			kind.Begin(t, s)
			stored := kit.Do(t, admin, "DUMP k").Text
			late := kit.NewClient(t, s)
			kit.Send(t, late.Conn, strings.Replace(kind.Wait, "ID w", "ID late", 1))
			answer := kit.ReceiveSoon(t, late.Conn)
			fields := kit.Pairs(answer)
			assert.EqualValues(t, 1, fields["limited"].Int, "%v", answer)
			assert.Positive(t, fields["retry_after_ms"].Int, "%v", answer)
			assert.Zero(t, fields["wait_ms"].Int, "%v", answer)
			assert.Equal(t, stored, kit.Do(t, admin, "DUMP k").Text, "nothing is reserved")
			assert.EqualValues(t, 1, s.InfoInt("throttle", "throttle_"+kind.Field))
			assert.EqualValues(t, 1, s.InfoInt("throttle", "throttle_turned_away"))
			assert.EqualValues(t, 1, s.InfoInt("throttle", "throttle_max_waiting"))
			other := kit.WaitsOfAllKinds()["lease"]
			if name == "lease" {
				other = kit.WaitsOfAllKinds()["window"]
			}
			kit.MustDoAll(t, admin, strings.Replace(other.Take, " k ", " other ", 1))
			kit.Send(t, late.Conn, strings.Replace(other.Wait, " k ", " other ", 1))
			kit.RequireLimited(t, late.Conn)
		})
	}
}

// A caller that leaves, or is let in, makes room for another.
func TestWhoLeavesMakesRoomForAnotherToWait(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsOfAllKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startBounded(t, 1)
			for range 3 {
				c := kit.NewClient(t, s)
				kit.Do(t, s.Raw(), "%s", kind.Take)
				kind.WaitAs(t, s, c.Conn, 1)
				kit.WaysToLeave["reset"](t, nil, c)
				kit.AwaitField(t, s.Raw(), kind.Field, 0)
			}
			assert.Zero(t, s.InfoInt("throttle", "throttle_turned_away"))
		})
	}
}

// Only those are counted as turned away that would have waited.
func TestWhoWouldNotHaveWaitedIsNotTurnedAway(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsOfAllKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startBounded(t, 1)
			c := s.Raw()
			kind.Begin(t, s)
			for _, call := range []string{
				"CL.LEASE k SLOTS 1 TTL 1h ID x", "CL.LEASE k SLOTS 1 TTL 1h ID holder TIMEOUT 0", "CL.WAIT free RATE 1/1h TIMEOUT 0", "CL.WAIT free WINDOW 1/1h COST 2 TIMEOUT 0",
				"CL.WAIT free RATE 1/1h TIMEOUT 1s", "CL.LIMIT k RATE 1/1h BURST 1 MAXWAIT 1d", "MULTI", kind.Wait, "EXEC",
			} {
				kit.Do(t, c, "%s", call)
			}
			assert.Zero(t, s.InfoInt("throttle", "throttle_turned_away"))
			kit.Do(t, c, "CL.WAIT free RATE 1/1h TIMEOUT 90m")
			kit.Do(t, c, "CL.WAIT window WINDOW 1/1h TIMEOUT 0")
			kit.Do(t, c, "CL.WAIT window WINDOW 1/1h TIMEOUT 0")
			assert.EqualValues(t, 2, s.InfoInt("throttle", "throttle_turned_away"))
		})
	}
}

// The bound can be changed while callers wait. Those that do wait on.
func TestMaxWaitingIsChangedWhileCallersWait(t *testing.T) {
	t.Parallel()
	s := kit.StartConfigurable(t)
	admin, kind := s.Raw(), kit.WaitsInTurn["lease"]
	waits := func(n int) *resp.Conn {
		return kit.WaitForLease(t, s, n, "CL.LEASE k SLOTS 1 TTL 1h ID w%d TIMEOUT 0", n)
	}
	first := kind.Begin(t, s)
	waits(2)
	kit.MustDoAll(t, admin, "CONFIG SET throttle.max-waiting 1")
	assert.EqualValues(t, 1, kit.AskLease(t, admin, "CL.LEASE k SLOTS 1 TTL 1h ID late TIMEOUT 0").Limited)
	kit.AwaitField(t, admin, kind.Field, 2)
	kit.MustDoAll(t, admin, "CONFIG SET throttle.max-waiting 3")
	waits(3)
	assert.EqualValues(t, 1, kit.AskLease(t, admin, "CL.LEASE k SLOTS 1 TTL 1h ID late TIMEOUT 0").Limited)
	kit.MustDoAll(t, admin, "CONFIG SET throttle.max-waiting 0")
	waits(4)
	assert.EqualValues(t, 2, s.InfoInt("throttle", "throttle_turned_away"))
	assert.Zero(t, s.InfoInt("throttle", "throttle_max_waiting"), "no bound")
	kit.Do(t, admin, "%s", kind.GiveBack)
	kit.RequireAdmitted(t, first)
	if !s.Program.IsDev() {
		assert.Len(t, s.LogLines("throttle.max-waiting: "), 1, "at most one line a minute")
	}
}

// What a server is started with is in force, also 0, which it takes for what a module begins with.
func TestMaxWaitingIsInForceFromTheStart(t *testing.T) {
	server.NeedsServer(t, "load arguments")
	t.Parallel()
	if p, err := server.DefaultProgram(); err != nil || !p.AtLeast(7, 0) {
		t.Skip("modules have configurations since Redis 7.0")
	}
	for _, bound := range []string{"0", "3", "10000"} {
		for from, option := range map[string]server.Option{
			"file": server.Config("throttle.max-waiting " + bound), "load argument": server.ModuleArgs("max-waiting", bound),
		} {
			t.Run(bound+" by "+from, func(t *testing.T) {
				t.Parallel()
				s := kit.StartConfigurable(t, option)
				assert.Equal(t, bound, fmt.Sprint(s.InfoInt("throttle", "throttle_max_waiting")))
				kit.MustDoAll(t, s.Raw(), "CONFIG SET throttle.max-waiting 7", "CONFIG SET throttle.max-waiting "+bound)
				assert.Equal(t, bound, fmt.Sprint(s.InfoInt("throttle", "throttle_max_waiting")))
			})
		}
	}
}

// Without a setting, callers in line take a quarter of maxmemory at most, by the figure of docs/operating.md.
func TestMaxWaitingGoesByMaxmemory(t *testing.T) {
	server.NeedsServer(t, "maxmemory")
	t.Parallel()
	const caller = 57_000
	bound := func(s *server.Server) int64 { return s.InfoInt("throttle", "throttle_max_waiting") }
	s := kit.StartConfigurable(t, server.Config("maxmemory 1gb"))
	admin := s.Raw()
	assert.EqualValues(t, 1<<30/4/caller, bound(s))
	for maxmemory, want := range map[int64]int64{0: 10_000, 90 << 20: 90 << 20 / 4 / caller, 10 << 20: 100, 64 << 30: 64 << 30 / 4 / caller} {
		kit.MustDoAll(t, admin, fmt.Sprintf("CONFIG SET maxmemory %d", maxmemory))
		assert.Equal(t, want, bound(s), "maxmemory %d", maxmemory)
	}
	kit.MustDoAll(t, admin, "CONFIG SET throttle.max-waiting 7", "CONFIG SET maxmemory 1gb")
	assert.EqualValues(t, 7, bound(s))
	kit.MustDoAll(t, admin, "CONFIG SET throttle.max-waiting -1")
	assert.EqualValues(t, 1<<30/4/caller, bound(s))
}

// More callers than there is memory for evict no lease, and make no call fail. Without a bound they do. It is not for
// tests in parallel, which would need as many files.
func TestCallersInLineLeaveMemoryToTheKeys(t *testing.T) {
	server.NeedsServer(t, "maxmemory")
	for name, bounded := range map[string]bool{"max-waiting by memory": true, "no bound": false} {
		t.Run(name, func(t *testing.T) {
			s := kit.StartConfigurable(t)
			admin, leases := s.Raw(), 500
			for i := range leases {
				kit.AskLease(t, admin, "CL.LEASE held%d SLOTS 1 TTL 1h ID a", i)
			}
			conns := make([]*resp.Conn, size.Of(1000, 3000))
			for i := range conns {
				conns[i] = s.Raw()
				kit.Do(t, conns[i], "PING")
			}
			// Three quarters of maxmemory are enough for the keys and for as many connections that have just sent
			// something.
			kit.MustDoAll(t, admin, fmt.Sprintf("CONFIG SET maxmemory %d", s.InfoInt("memory", "used_memory")/3*4), "CONFIG SET maxmemory-policy volatile-lru")
			if !bounded {
				kit.MustDoAll(t, admin, "CONFIG SET throttle.max-waiting 0")
			}
			for i, c := range conns {
				kit.Send(t, c, fmt.Sprintf("CL.LEASE held%d SLOTS 1 TTL 1h ID b TIMEOUT 0", i%leases))
			}
			evicted := func() int64 { return s.InfoInt("stats", "evicted_keys") }
			if !bounded {
				require.Eventually(t, func() bool { return evicted() > 0 }, kit.Patience, kit.Tick, "or the test shows nothing")
				return
			}
			kit.AwaitField(t, admin, "calls_lease", leases+len(conns)) // which those are not that get OOM
			waiting, turnedAway := s.InfoInt("throttle", "throttle_leases_waiting"), s.InfoInt("throttle", "throttle_turned_away")
			t.Logf("%d callers: %d wait, %d were turned away", len(conns), waiting, turnedAway)
			assert.Zero(t, evicted())
			assert.EqualValues(t, s.InfoInt("throttle", "throttle_max_waiting"), waiting)
			assert.EqualValues(t, len(conns), waiting+turnedAway)
		})
	}
}
