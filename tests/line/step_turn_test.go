package line_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// turns is how many turns the server's lines have had.
func turns(t *testing.T, s *server.Server) int {
	t.Helper()
	return kit.Number(t, s.Info("throttle")["throttle_turns"])
}

// startWithoutCron starts a server with a clock whose cron hardly ever comes, and not more often when there are many
// clients.
func startWithoutCron(t *testing.T) (*server.Server, *clock.Clock, *resp.Conn) {
	t.Helper()
	s, c := kit.StartWithClock(t, server.Config("hz 1", "dynamic-hz no"))
	return s, c, s.Raw()
}

// fewTurns has the server's event loop turn a few times.
func fewTurns(t *testing.T, c *resp.Conn) {
	t.Helper()
	for range 3 {
		kit.Do(t, c, "PING")
	}
}

// When the clock is set back right after the server has found that a turn is due, the turn ends before anybody is
// decided by that clock: the cron first tells the lines of the step.
func TestATurnWhoseClockIsSetBackIsLeftToTheCron(t *testing.T) {
	t.Parallel()
	s, c := kit.StartWithClock(t)
	admin, isLeft := s.Raw(), false
	deadline := time.Now().Add(2 * kit.Patience)
	for attempt := 0; !isLeft && time.Now().Before(deadline); attempt++ { // how often the clock is read on the way differs
		c.SetAhead(0, 0)
		kit.Do(t, admin, "CL.LEASE k SLOTS 1 TTL 1d ID holder")
		waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1d ID w TIMEOUT 0")
		turnsBefore, looksBefore := turns(t, s), kit.Looks(t, s)
		c.StepAfter(int64(attempt)%20+1, -step.Nanoseconds())
		kit.Do(t, admin, "CL.RELEASE k ID holder")
		fewTurns(t, admin)
		isLeft = c.HasStepped() && turns(t, s) > turnsBefore && kit.Looks(t, s) == looksBefore
		c.StepAfter(0, 0)
		kit.RequireAdmitted(t, waiting)
		kit.Do(t, admin, "DEL k")
	}
	assert.True(t, isLeft)
}

// A caller that comes after a step back has the turn taken that the clock has put off, without the cron.
func TestACallerThatComesAfterAStepHasALateTurnTaken(t *testing.T) {
	t.Parallel()
	s, c, admin := startWithoutCron(t)
	kit.AskLease(t, admin, "CL.LEASE k SLOTS 1 TTL 1d ID holder")
	kit.AskLease(t, admin, "CL.LEASE l SLOTS 1 TTL 1d ID holder")
	taken := 0
	for attempt := 0; attempt < 15 && taken < 3; attempt++ { // the cron may come first, and tell the lines of the step
		c.SetAhead(0, 0)
		timed := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1d ID w TIMEOUT 30ms")
		c.SetAhead(0, -step.Nanoseconds())
		<-time.After(60 * time.Millisecond)
		before := turns(t, s)
		came := s.Raw()
		kit.Send(t, came, "CL.LEASE l SLOTS 1 TTL 1d ID came TIMEOUT 0")
		kit.AwaitField(t, admin, "leases_waiting", 1)
		if turns(t, s) > before {
			taken++
		}
		kit.RequireLimited(t, timed)
		require.NoError(t, came.Close())
		kit.AwaitField(t, admin, "leases_waiting", 0)
	}
	assert.Equal(t, 3, taken)
}
