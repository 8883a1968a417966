package wait_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
)

// CL.WAIT with windows: in order of arrival, woken when the limit says so.
func TestCallersWaitForAWindowInOrderOfArrival(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]string{
		"WINDOW":     "WINDOW 2/%dms",
		"FIXED":      "FIXED 2/%dms",
		"FIRST":      "FIXED 2/%dms FIRST",
		"with RATE":  "RATE 1000/s WINDOW 2/%dms",
		"and SPARE":  "WINDOW 3/%dms SPARE 1",
		"TAKE twice": "WINDOW 4/%dms TAKE 2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Callers are seen to wait if they arrive within one window. A busy machine needs a longer one.
			window := 300 * time.Millisecond
			for !callersWaitForAWindow(t, fmt.Sprintf(limit, window.Milliseconds()), window, name == "FIXED") {
				window *= 2
			}
		})
	}
}

// callersWaitForAWindow has seven callers wait for a limit of two units for each window, and returns whether all arrived within one.
func callersWaitForAWindow(t *testing.T, limit string, window time.Duration, isCalendar bool) (all bool) {
	t.Helper()
	const callers = 7
	s := kit.StartCheckBuild(t)
	admin := s.Raw()
	var conns []*resp.Conn
	for range callers {
		conns = append(conns, s.Raw())
	}
	from := kit.NowIn(t, admin)
	for i, c := range conns {
		require.NoError(t, c.Send(strings.Fields("CL.WAIT k "+limit+" TIMEOUT 1h")...))
		require.NoError(t, c.Send("RPUSH", "order", fmt.Sprint(i)))
		require.NoError(t, c.Flush())
		kit.AwaitField(t, admin, "calls_wait", i+1)
	}
	all = kit.NowIn(t, admin) < from+int64(window)
	for i, c := range conns {
		v, err := c.Receive()
		require.NoError(t, err)
		a, err := kit.StandingIn(v)
		require.NoError(t, err, "%v", v)
		assert.EqualValues(t, 0, a.Limited, i)
		// Of a calendar's windows, the first may end right after the first call.
		windows := i / 2
		if isCalendar {
			windows = max(windows-1, 0)
		}
		at := time.Now().UnixNano() + int64(kit.ClockSkew)
		assert.GreaterOrEqual(t, at, from+int64(windows)*int64(window), "caller %d", i)
		if all && i >= 4 {
			assert.Positive(t, a.WaitMs, i)
		}
	}
	require.Eventually(t, func() bool { return kit.Do(t, admin, "LLEN order").Int == callers }, 60*time.Second, 5*time.Millisecond)
	kit.AwaitWaiting(t, admin, 0)
	return all
}

// Units that are given back, and a key that is gone, wake the first in line.
func TestAWindowThatIsRefundedWakes(t *testing.T) {
	t.Parallel()
	for _, change := range []string{"CL.REFUND k WINDOW 1/h", "DEL k", "FLUSHALL", "RENAME k other", "PEXPIRE k 1"} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t)
			c := s.Raw()
			kit.Ask(t, c, "CL.LIMIT k WINDOW 1/h")
			waiting := kit.StartWaiting(t, s, "CL.WAIT k WINDOW 1/h TIMEOUT 0")
			kit.AwaitWaiting(t, c, 1)
			behind := kit.StartWaiting(t, s, "CL.WAIT k WINDOW 1/h TIMEOUT 0")
			kit.AwaitWaiting(t, c, 2)
			kit.StillWaits(t, waiting)
			kit.Do(t, c, "%s", change)
			v, err := waiting.Receive()
			require.NoError(t, err)
			a, err := kit.StandingIn(v)
			require.NoError(t, err, "%v", v)
			assert.Equal(t, []int64{0, 1}, []int64{a.Limited, a.Granted})
			assert.Positive(t, a.WaitMs)
			kit.StillWaits(t, behind)
			info := s.Info("throttle")
			assert.Equal(t, []string{"1", "1"}, []string{info["throttle_waiting"], info["throttle_waited"]})
		})
	}
}

// One unit is enough for the first, also where the key stays and expires when it did before: the server does not tell the
// module of that.
func TestAUnitThatIsRefundedWakes(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	kit.Ask(t, c, "CL.LIMIT k FIXED 3/365d COST 3")
	expiry := kit.Do(t, c, "PTTL k").Int
	waiting := kit.StartWaiting(t, s, "CL.WAIT k FIXED 3/365d TIMEOUT 0")
	kit.AwaitWaiting(t, c, 1)
	kit.StillWaits(t, waiting)
	kit.Ask(t, c, "CL.REFUND k FIXED 3/365d")
	v, err := waiting.ReceiveWithin(10 * time.Second) // the line is looked at every five minutes anyway
	require.NoError(t, err)
	a, err := kit.StandingIn(v)
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 1, 0}, []int64{a.Limited, a.Granted, a.Remaining})
	assert.InDelta(t, expiry, kit.Do(t, c, "PTTL k").Int, 60_000)
}
