package wait_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// However long callers may have to wait, the server sleeps meanwhile, and other callers are
// served at their times.
func TestALongWaitKeepsNobodyBusy(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string][]string{
		"an hour":       {"CL.WAIT far RATE 1/1h TIMEOUT 2h", "CL.WAIT far RATE 1/1h TIMEOUT 3h"},
		"fifty days":    {"CL.WAIT far RATE 1/4294080s TIMEOUT 0", "CL.WAIT far RATE 1/4294080s TIMEOUT 0"},
		"ninety years":  {"CL.WAIT far RATE 1/32850d TIMEOUT 0"},
		"many each day": {"CL.WAIT far RATE 1/1d TIMEOUT 0", "CL.WAIT far2 RATE 1/1d TIMEOUT 0", "CL.WAIT far3 RATE 1/1d TIMEOUT 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			admin := s.Raw()
			var last *resp.Conn
			for _, call := range waits {
				kit.Do(t, admin, "%s", strings.Replace(call, "CL.WAIT", "CL.LIMIT", 1)[:strings.Index(call, "TIMEOUT")+1])
				last = kit.StartWaiting(t, s, call)
			}
			kit.AwaitWaiting(t, admin, len(waits))
			main := map[int]string{s.Pid(): ""}
			woken, from := kit.WakeUps(t, s.Pid(), main), time.Now()
			assert.Less(t, kit.CPUOver(t, s, time.Second), 100*time.Millisecond, "while all wait")
			perSecond := float64(kit.WakeUps(t, s.Pid(), main)-woken) / time.Since(from).Seconds()
			assert.Less(t, perSecond, 100.0, "its own timers wake the server ten times a second")

			_, reserved, _ := kit.Timed(t, admin, "CL.LIMIT near RATE 1/300ms BURST 1")
			assert.EqualValues(t, 0, kit.Ask(t, admin, "CL.WAIT near RATE 1/300ms BURST 1 TIMEOUT 1m").Limited)
			assert.GreaterOrEqual(t, kit.NowIn(t, admin)+int64(kit.ClockSkew), reserved+int64(300*time.Millisecond))

			require.NoError(t, last.Close())
			kit.AwaitWaiting(t, admin, len(waits)-1)
			assert.Less(t, kit.CPUOver(t, s, time.Second), 100*time.Millisecond, "after one left")
		})
	}
}
