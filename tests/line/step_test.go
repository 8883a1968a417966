package line_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// step is the length of a step of the wall clock: far longer than anybody here has to wait.
const step = time.Hour

// turnsOfCron is about three turns of a server's cron, which compares the clocks.
const turnsOfCron = 300 * time.Millisecond

// When the clock steps forward, leases lapse, windows end and slots come that are nearer than the step. Callers in line
// have them at once, not when timers that the step has overtaken would fire.
func TestALineGoesOnWhenTheClockStepsForward(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, wait, field string }{
		// The other lease keeps the key from expiring, which would be a change that wakes the line.
		"fair line": {"CL.LEASE k SLOTS 2 TTL 2h ID long\nCL.LEASE k SLOTS 2 TTL 30m ID short", "CL.LEASE k SLOTS 2 TTL 1h ID w TIMEOUT 0 GROUP g PRIORITY -1", "leases_waiting"},
		"admissions": {
			"CL.MLIMIT 2 u k RATE 9/s NEXT SLOTS 2 TTL 2h ID long\nCL.MLIMIT 2 u k RATE 9/s NEXT SLOTS 2 TTL 30m ID short",
			"CL.LEASE k SLOTS 2 TTL 1h ID w TIMEOUT 0", "leases_waiting",
		},
		"lease":  {"CL.LEASE k SLOTS 2 TTL 2h ID long\nCL.LEASE k SLOTS 2 TTL 30m ID short", "CL.LEASE k SLOTS 2 TTL 1h ID w TIMEOUT 0", "leases_waiting"},
		"window": {"CL.LIMIT k WINDOW 1/30m WINDOW 9/2h", "CL.WAIT k WINDOW 1/30m WINDOW 9/2h TIMEOUT 0", "waiting"},
		"fixed":  {"CL.LIMIT k FIXED 1/30m FIRST WINDOW 9/2h", "CL.WAIT k FIXED 1/30m FIRST WINDOW 9/2h TIMEOUT 0", "waiting"},
		"rate":   {"CL.LIMIT k RATE 1/30m BURST 1", "CL.WAIT k RATE 1/30m BURST 1 TIMEOUT 0", "waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, stepBy := kit.StartWithSteps(t)
			admin := s.Raw()
			for call := range strings.Lines(test.before) {
				require.EqualValues(t, 0, kit.Do(t, admin, "%s", call).Elems[1].Int)
			}
			waiting := kit.StartWaiting(t, s, test.wait)
			kit.AwaitField(t, admin, test.field, 1)
			kit.StillWaits(t, waiting)
			stepBy(step)
			kit.RequireAdmitted(t, waiting)
		})
	}
}

// The two clocks drift apart while a time server corrects one of them. That is no step, and lines are not looked at for
// it.
func TestALineIsNotLookedAtWhileTheClocksDriftApart(t *testing.T) {
	t.Parallel()
	s, stepBy := kit.StartWithSteps(t, server.Config("hz 100")) // the cron comes while a timer is put off
	c := s.Raw()
	kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 2h ID holder")
	kit.AskLease(t, c, "CL.LEASE l SLOTS 1 TTL 2h ID holder")
	waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 0")
	want := kit.Looks(t, s)
	for _, by := range []time.Duration{20 * time.Millisecond, -20 * time.Millisecond, 20 * time.Millisecond} {
		timed := kit.WaitForLease(t, s, 2, "CL.LEASE l SLOTS 1 TTL 1h ID w TIMEOUT 1s")
		stepBy(by)
		kit.RequireLimited(t, timed)
		want++ // before its time is over, it might be let in
		assert.Equal(t, want, kit.Looks(t, s), "after %v", by)
	}
	kit.StillWaits(t, waiting)
	stepBy(step)
	require.Eventually(t, func() bool { return kit.Looks(t, s) > want }, kit.Patience, 5*time.Millisecond, "a step")
}

// The cron takes the turn of a timer that the clock has put off, and of no later one.
func TestLinesGoOnWithoutTheCronAfterATimerThatWasPutOff(t *testing.T) {
	t.Parallel()
	s, stepBy := kit.StartWithSteps(t, server.Config("hz 100"))
	c := s.Raw()
	kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1d ID w0")
	timed := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1d ID w TIMEOUT 1s")
	stepBy(-40 * time.Millisecond)
	kit.RequireLimited(t, timed)
	kit.Do(t, c, "CONFIG SET hz 1")
	turns := map[string]bool{} // of the cron: it alone brings lru_clock up to date, once a second now
	for i := range 16 {
		next := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1d ID w%d TIMEOUT 0", i+1)
		kit.Do(t, c, "CL.RELEASE k ID w%d", i)
		kit.RequireAdmitted(t, next)
		turns[server.ParseInfo(kit.Do(t, c, "INFO server").Text)["lru_clock"]] = true
	}
	assert.NotContains(t, turns, "")
	assert.Less(t, len(turns), 12, "the cron alone would have let in one caller a turn")
}

// A line that waits for the end of a pause goes on after it, whatever the clock does meanwhile.
func TestALineThatIsHeldUpGoesOnAfterAStep(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"forward": step, "back": -step} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := kit.StartWithClock(t)
			if !s.Program.AtLeast(7, 0) {
				t.Skip("the module API knows no pauses")
			}
			admin := s.Raw()
			c.Set(time.Now().UnixNano()) // it stands still, so that nobody is let in before the pause
			kit.Ask(t, admin, "CL.LIMIT k WINDOW 1/2s")
			waiting := kit.StartWaiting(t, s, "CL.WAIT k WINDOW 1/2s TIMEOUT 0")
			kit.AwaitWaiting(t, admin, 1)
			kit.Do(t, admin, "CLIENT PAUSE 1000000 WRITE")
			c.Set(0)
			before := kit.Looks(t, s)
			require.Eventually(t, func() bool { return kit.Looks(t, s) > before }, kit.Patience, kit.Tick)
			c.SetAhead(0, by.Nanoseconds())
			kit.Do(t, admin, "CLIENT UNPAUSE")
			kit.RequireAdmitted(t, waiting)
		})
	}
}

// When the clock steps back, callers wait no longer than for a limit that has just been used up.
func TestALineGoesOnWhenTheClockStepsBack(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]string{
		"window": "WINDOW 1/3s", "fixed": "FIXED 1/3s", "first": "FIXED 1/3s FIRST", "rate": "RATE 1/3s BURST 1", "with a rate": "WINDOW 1/3s RATE 1/2s BURST 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, stepBy := kit.StartWithSteps(t)
			admin := s.Raw()
			begun := time.Now()
			kit.Ask(t, admin, "CL.LIMIT k %s", limit)
			var waiting []*resp.Conn
			for i := range 2 {
				waiting = append(waiting, kit.StartWaiting(t, s, "CL.WAIT k "+limit+" TIMEOUT 1d"))
				kit.AwaitField(t, admin, "calls_wait", i+1) // on a busy machine it may be let in before anybody sees it wait
			}
			stepBy(-step)
			stepped := time.Now()
			for _, c := range waiting {
				kit.RequireAdmitted(t, c)
			}
			const spacing = 3 * time.Second
			letIn := max(0, stepped.Sub(begun)-spacing) // one may have been let in for that long
			assert.GreaterOrEqual(t, time.Since(stepped), spacing-passed(name)-letIn, "two units are never closer than the limit lets them")
			kit.AwaitWaiting(t, admin, 0)
		})
	}
}

// passed is how much of the spacing of two callers may be over when the clock steps. A calendar's window may end at
// once.
func passed(name string) time.Duration {
	if name == "fixed" {
		return 3 * time.Second
	}
	return 0
}

// A timeout is over when so much time has passed, whatever the wall clock says meanwhile.
func TestATimeoutIsNotMovedByAStepBack(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, stepBy := kit.StartWithSteps(t)
			admin := s.Raw()
			kit.Do(t, admin, "%s", kind.Take)
			begun := time.Now()
			waiting := kit.StartWaiting(t, s, strings.Replace(kind.Wait, "TIMEOUT 0", "TIMEOUT 2s", 1))
			kit.AwaitField(t, admin, kind.Field, 1)
			stepBy(-step)
			v := kit.ReceiveSoon(t, waiting)
			require.False(t, v.IsError(), "%v", v)
			assert.EqualValues(t, 1, v.Elems[1].Int, "%v", v)
			assert.GreaterOrEqual(t, time.Since(begun), 2*time.Second)
			kit.AwaitField(t, admin, kind.Field, 0)
		})
	}
}

// After a step back the cron ends a wait whose timer is put off. With hz 1 it comes once a second.
func TestATimeoutIsLateByATurnOfTheCronAtMost(t *testing.T) {
	t.Parallel()
	const timeout, slack = 300 * time.Millisecond, 3 * time.Second // for a busy machine; the timer would be an hour late
	for hz, turn := range map[int]time.Duration{1: time.Second, 10: 100 * time.Millisecond} {
		t.Run(fmt.Sprint("hz ", hz), func(t *testing.T) {
			t.Parallel()
			s, stepBy := kit.StartWithSteps(t, server.Config(fmt.Sprint("hz ", hz), "dynamic-hz no"))
			kit.AskLease(t, s.Raw(), "CL.LEASE k SLOTS 1 TTL 2h ID holder")
			begun := time.Now()
			waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT %s", timeout)
			stepBy(-step)
			kit.RequireLimited(t, waiting)
			took := time.Since(begun)
			t.Logf("late by %v", took-timeout)
			assert.GreaterOrEqual(t, took, timeout)
			assert.Less(t, took, timeout+turn+slack)
		})
	}
}

// A clock that steps to and fro wakes lines, but lets nobody in whose time has not come. Its steps do not add up.
func TestAStepLetsNobodyInTooEarly(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsOfAllKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, stepBy := kit.StartWithSteps(t)
			waiting := kind.Begin(t, s)
			for _, minutes := range []time.Duration{20, 0, -20, 10, 0, 10, 0, 10, 0, 10, 0, 10, 0, 10} {
				stepBy(minutes * time.Minute)
				requireStillWaiting(t, waiting, turnsOfCron)
			}
			if kind.GiveBack == "" {
				stepBy(2 * time.Hour)
			} else {
				kit.Do(t, s.Raw(), "%s", kind.GiveBack)
			}
			kit.RequireAdmitted(t, waiting)
		})
	}
}
