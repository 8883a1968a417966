package wait_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Ten thousand callers that wait are ten thousand idle connections to the server: no
// thread of theirs, no polling, one timer for all.
func TestCrowdCostsNothingWhileItWaits(t *testing.T) {
	t.Parallel()
	watched := size.Of(time.Second, 3*time.Second)
	var files syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	crowd := int(min(uint64(size.Of(3000, 10_000)), files.Max-1000))
	s := server.Start(t, server.Config("maxclients 10100", "save 3600 1"))
	admin := s.Raw()
	conns := make([]*resp.Conn, crowd)
	for i := range conns {
		conns[i] = s.Raw()
		kit.Do(t, conns[i], "PING")
	}
	connected := kit.CPUOver(t, s, watched)
	rss := kit.ResidentBytes(t, s)

	for _, c := range conns {
		require.NoError(t, c.Send("CL.WAIT", "key", "RATE", "1/h", "BURST", "1", "TIMEOUT", "0"))
		require.NoError(t, c.Flush())
	}
	kit.AwaitWaiting(t, admin, crowd-1) // the first one had a unit
	perCaller := (kit.ResidentBytes(t, s) - rss) / int64(crowd)
	waiting := kit.CPUOver(t, s, watched)
	t.Logf("%d connections, CPU over %v: idle %v, waiting %v; %d bytes for each who waits", crowd, watched, connected, waiting, perCaller)
	assert.LessOrEqual(t, waiting, 2*connected+watched/20, "CPU while %d wait", crowd)
	assert.Less(t, perCaller, int64(16<<10))

	// All of them leave at once.
	begun := time.Now()
	for _, c := range conns {
		require.NoError(t, c.Reset())
	}
	kit.AwaitWaiting(t, admin, 0)
	require.Eventually(t, func() bool { return kit.Ask(t, admin, "CL.PEEK key RATE 1/h BURST 1").ResetAfterMs <= 3_600_000 },
		60*time.Second, 5*time.Millisecond, "their slots are given back")
	t.Logf("all left within %v", time.Since(begun))
}
