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

// What is given back in a pause is there for others soon after it, not only when the next slot comes.
func TestASlotThatIsGivenUpInAPauseIsGivenBackAfterIt(t *testing.T) {
	server.NeedsServer(t, "CLIENT PAUSE")
	t.Parallel()
	s := server.Start(t)
	l := kit.StandInLine(t, s, 2, time.Hour, 1)
	kit.Do(t, l.Admin, "CLIENT PAUSE 60000 WRITE")
	require.NoError(t, l.Conns[1].Close())
	l.AwaitWaiting(1)
	resetAfter := func() int64 { return kit.Ask(t, l.Admin, "CL.PEEK key %s", l.Limit()).ResetAfterMs }
	const hourMs = 3_600_000
	assert.Greater(t, resetAfter(), int64(2*hourMs), "its slot is still taken")
	kit.Do(t, l.Admin, "CLIENT UNPAUSE")
	require.Eventually(t, func() bool { return resetAfter() <= 2*hourMs }, 60*time.Second, 5*time.Millisecond)
}

// While writes are paused, a caller that leaves holds up no answer; what is given
// back is written when the pause is over.
func TestOneWhoLeavesInAPauseKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	// Each prepares what takes its time, before anybody waits.
	pauses := map[string]func(*testing.T, *server.Server) (begin func()){
		"CLIENT PAUSE": func(_ *testing.T, s *server.Server) func() {
			return func() { s.MustDo("CLIENT", "PAUSE", "60000", "WRITE") }
		},
		"FAILOVER": func(t *testing.T, s *server.Server) func() {
			replica := server.Start(t, server.ReplicaOf(s))
			require.Eventually(t, func() bool { return replica.Info("replication")["master_link_status"] == "up" }, 60*time.Second, 5*time.Millisecond)
			replica.Pause() // so that it never catches up
			t.Cleanup(replica.Resume)
			return func() {
				s.MustDo("SET", "more", "to replicate")
				s.MustDo("FAILOVER", "TIMEOUT", "60000")
			}
		},
	}
	for how, prepare := range pauses {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			if !s.Program.AtLeast(6, 2) {
				t.Skip("CLIENT PAUSE has modes since Redis 6.2")
			}
			begin := prepare(t, s)
			l := kit.StandInLine(t, s, 4, 300*time.Millisecond, 4)
			begin()
			require.NoError(t, l.Conns[1].Close())
			l.AwaitWaiting(3)
			for _, i := range []int{0, 2, 3} {
				l.RequireServed(i, i)
			}
			if how == "CLIENT PAUSE" {
				kit.Do(t, l.Admin, "CLIENT UNPAUSE")
			} else {
				kit.Do(t, l.Admin, "FAILOVER ABORT")
			}
			l.AwaitWaiting(0)
		})
	}
}
