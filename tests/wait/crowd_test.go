package wait_test

import (
	"fmt"
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

// crowd has up to ten thousand callers wait, and fails if they cost the server more than ten thousand idle connections:
// no thread of theirs, no polling, one timer for all. It is not for tests in parallel, which would need as many files.
func crowd(t *testing.T, s *server.Server, field string, call func(i int) string) (callers []*resp.Conn) {
	t.Helper()
	watched := size.Of(time.Second, 3*time.Second)
	var files syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	callers = make([]*resp.Conn, min(uint64(size.Of(3000, 10_000)), files.Max-1000))
	for i := range callers {
		callers[i] = s.Raw()
		kit.Do(t, callers[i], "PING")
	}
	connected, rss := kit.CPUOver(t, s, watched), kit.ResidentBytes(t, s)
	for i, c := range callers {
		kit.Send(t, c, call(i))
	}
	kit.AwaitField(t, s.Raw(), field, len(callers))
	perCaller := (kit.ResidentBytes(t, s) - rss) / int64(len(callers))
	waiting := kit.CPUOver(t, s, watched)
	t.Logf("%d connections, CPU over %v: idle %v, waiting %v; %d bytes for each who waits", len(callers), watched, connected, waiting, perCaller)
	assert.LessOrEqual(t, waiting, 2*connected+watched/20, "CPU while they wait")
	assert.Less(t, perCaller, int64(16<<10))
	return callers
}

// leave has all of a crowd go at once.
func leave(t *testing.T, s *server.Server, field string, callers []*resp.Conn) {
	t.Helper()
	for _, c := range callers {
		require.NoError(t, c.Reset())
	}
	kit.AwaitField(t, s.Raw(), field, 0)
}

func TestCrowdCostsNothingWhileItWaits(t *testing.T) {
	s := server.Start(t, server.Config("maxclients 10100", "save 3600 1"))
	admin := s.Raw()
	kit.Ask(t, admin, "CL.LIMIT key RATE 1/h BURST 1")
	callers := crowd(t, s, "waiting", func(int) string { return "CL.WAIT key RATE 1/h BURST 1 TIMEOUT 0" })
	leave(t, s, "waiting", callers)
	require.Eventually(t, func() bool { return kit.Ask(t, admin, "CL.PEEK key RATE 1/h BURST 1").ResetAfterMs <= 3_600_000 },
		60*time.Second, kit.Tick, "their slots are given back")
}

// Nor does one of many groups and priorities. Each release lets one in and leaves the others alone.
func TestACrowdOfManyGroupsCostsNothingWhileItWaits(t *testing.T) {
	s := server.Start(t, server.Config("maxclients 10100"))
	admin := s.Raw()
	kit.AskLease(t, admin, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
	var order naive.Turns
	callers := crowd(t, s, "leases_waiting", func(i int) string {
		x := naive.Turn{Caller: uint64(i), Group: fmt.Sprint("tenant-", i%3000), Priority: int64(i%7 - 3)}
		order.Join(x)
		return fmt.Sprintf("CL.LEASE k SLOTS 1 TTL 1h ID w%d TIMEOUT 1h", i) + kit.PlaceOf(x)
	})
	before, holder := s.CPUTime(), "holder"
	for range 500 {
		next := order.LetIn().Caller
		assert.EqualValues(t, 1, kit.Do(t, admin, "CL.RELEASE k ID %s", holder).Int)
		assert.EqualValues(t, 0, kit.ReceiveLease(t, callers[next]).Limited)
		holder = fmt.Sprintf("w%d", next)
	}
	handovers := s.CPUTime() - before
	t.Logf("500 leases handed on: %v", handovers)
	assert.Less(t, handovers, 500*time.Millisecond)
	leave(t, s, "leases_waiting", callers)
}
