package line_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
)

// When the time of many callers is over at once, the server goes on with its clients in between, however many there
// are. What one of them has sent behind its call runs before the last of them has its answer.
func TestManyCallersWhoseTimeIsOverDoNotHoldUpTheServer(t *testing.T) {
	t.Parallel()
	const crowd = 150
	s := neighbour.Start(t)
	admin := s.Raw()
	kit.AskLease(t, admin, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
	kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID first TIMEOUT 0") // those behind it are not looked at until their time is over
	neighbour.On(t, s, "limited", "k", "RPUSH log decided")
	conns := make([]*resp.Conn, crowd)
	for i := range conns {
		conns[i] = s.Raw()
	}
	for timeout := 300 * time.Millisecond; ; timeout *= 2 {
		kit.Do(t, admin, "DEL log")
		for i, c := range conns {
			require.NoError(t, c.Send(strings.Fields(fmt.Sprintf("CL.LEASE k SLOTS 1 TTL 1h ID w%d TIMEOUT %dms", i, timeout.Milliseconds()))...))
			require.NoError(t, c.Send("RPUSH", "log", "served"))
			require.NoError(t, c.Flush())
		}
		allWait := sleepWhileAllWait(t, admin, 1+crowd, timeout)
		for _, c := range conns {
			assert.EqualValues(t, 1, kit.ReceiveLease(t, c).Limited)
			_, err := c.Receive()
			require.NoError(t, err)
		}
		if allWait {
			break
		}
		require.Less(t, timeout, time.Minute, "on this machine the first ones give up before the last ones have come")
	}
	log := kit.TextsOf(kit.Do(t, admin, "LRANGE log 0 -1"))
	require.Len(t, log, 2*crowd)
	first := strings.Index(strings.Join(log, " "), "served")
	last := strings.LastIndex(strings.Join(log, " "), "decided")
	assert.Less(t, first, last, "nobody was served before all were decided: %q", log)
}

// sleepWhileAllWait makes the server sleep for timeout, the most that its callers wait, once all of them wait. It says
// whether all still waited then, so that their time is over at once.
func sleepWhileAllWait(t *testing.T, c *resp.Conn, callers int, timeout time.Duration) bool {
	t.Helper()
	waiting := func(v resp.Value) bool {
		return strings.Contains(v.Text, fmt.Sprintf("throttle_leases_waiting:%d\r\n", callers))
	}
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		if !waiting(kit.Do(t, c, "INFO throttle")) {
			continue
		}
		replies, err := c.Pipeline([]string{"INFO", "throttle"}, []string{"DEBUG", "SLEEP", fmt.Sprint(timeout.Seconds())})
		require.NoError(t, err)
		return waiting(replies[0])
	}
	return false
}
