package line_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// A caller that comes right after a step back, before anybody has noticed the step, has its slot by the new clock
// already. It waits for it as long as it was told, whether others wait or not.
func TestACallerThatComesRightAfterAStepWaitsForItsSlot(t *testing.T) {
	t.Parallel()
	for _, othersWait := range []bool{false, true} {
		t.Run(map[bool]string{false: "alone", true: "others wait"}[othersWait], func(t *testing.T) {
			t.Parallel()
			s, stepBy := kit.StartWithSteps(t)
			admin := s.Raw()
			if othersWait {
				kit.Ask(t, admin, "CL.LIMIT other RATE 1/1h BURST 1")
				kit.StartWaiting(t, s, "CL.WAIT other RATE 1/1h BURST 1 TIMEOUT 0")
				kit.AwaitWaiting(t, admin, 1)
			}
			kit.Ask(t, admin, "CL.LIMIT k RATE 1/3s BURST 1")
			<-time.After(turnsOfCron) // the server's cron has seen both clocks
			stepBy(-step)
			begun := time.Now()
			a := kit.Ask(t, s.Raw(), "CL.WAIT k RATE 1/3s BURST 1 TIMEOUT 1d") // the bucket counts as empty now
			waited := time.Since(begun)
			require.EqualValues(t, 0, a.Limited)
			assert.GreaterOrEqual(t, waited, 2900*time.Millisecond, "a unit too early")
			assert.Less(t, waited, kit.Patience)
		})
	}
}

// Nor does it wait longer than those in front of it and the limit make it wait, though they had their slots by the old
// clock.
func TestACallerThatComesRightAfterAStepStandsBehindOthers(t *testing.T) {
	t.Parallel()
	for name, reading := range map[string]time.Duration{"it reads the clocks at once": 0, "the process stands still while it reads the clocks": 2 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := kit.StartWithClock(t, server.Config("hz 1", "dynamic-hz no")) // the cron hardly comes between the step and the caller
			admin, first, second := s.Raw(), s.Raw(), s.Raw()
			const wait = "CL.WAIT k RATE 1/400ms BURST 1 TIMEOUT 1d"
			kit.Ask(t, admin, wait)
			kit.Send(t, first, wait)
			kit.AwaitField(t, admin, "calls_wait", 2)
			c.SetReading(reading.Nanoseconds())
			c.SetAhead(0, -step.Nanoseconds())
			begun := time.Now()
			kit.Send(t, second, wait)
			kit.AwaitField(t, admin, "calls_wait", 3)
			c.SetReading(0)
			kit.RequireAdmitted(t, first)
			kit.RequireAdmitted(t, second)
			assert.GreaterOrEqual(t, time.Since(begun), 400*time.Millisecond, "a unit too early")
		})
	}
}

// The server judges for as long as it looks at a line by the clock as it was when it began. A lease that is granted
// after a step back in the middle of that would be over for the server at once, and the next in line let in, too.
func TestAStepBackInTheMiddleOfALookLetsInOne(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"long": step, "too short to be noticed": 40 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := kit.StartWithClock(t)
			admin := s.Raw()
			for readings := range size.Of(30, 100) {
				c.SetAhead(0, 0)
				kit.Do(t, admin, "CL.LEASE k SLOTS 1 TTL 1d ID holder")
				var waiting []*resp.Conn
				for i := range 3 {
					waiting = append(waiting, kit.WaitForLease(t, s, i+1, "CL.LEASE k SLOTS 1 TTL 10m ID w%d TIMEOUT 0", i))
				}
				c.StepAfter(int64(readings)+1, -by.Nanoseconds())
				require.EqualValues(t, 1, kit.Do(t, admin, "CL.RELEASE k ID holder").Int)
				assert.EqualValues(t, 0, kit.ReceiveLease(t, waiting[0]).Limited)
				kit.Do(t, admin, "PING") // a turn of the event loop
				assert.EqualValues(t, 2, s.InfoInt("throttle", "throttle_leases_waiting"), "a step after %d readings", readings+1)
				c.StepAfter(0, 0)
				for _, conn := range waiting {
					require.NoError(t, conn.Close())
				}
				kit.AwaitField(t, admin, "leases_waiting", 0)
				kit.Do(t, admin, "DEL k")
			}
			c.SetAhead(0, 0)
			kit.Do(t, admin, "CL.LEASE k SLOTS 1 TTL 1d ID holder")
			kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 10m ID w TIMEOUT 0")
			require.Eventually(t, func() bool {
				before := kit.Looks(t, s)
				<-time.After(turnsOfCron)
				return kit.Looks(t, s) == before
			}, kit.Patience, time.Millisecond, "a step is seen once")
		})
	}
}

// The same, of a step that is as short as the lateness of a timer, so that the timer does not seem to have fired too
// early.
func TestAStepBackInALateLookLetsInOne(t *testing.T) {
	t.Parallel()
	const late, ttl, back = 150 * time.Millisecond, 80 * time.Millisecond, 90 * time.Millisecond // a step of 100 ms is noticed
	s, c := kit.StartWithClock(t)
	admin := s.Raw()
	for readings := range size.Of(20, 60) {
		c.SetAhead(0, 0)
		kit.Do(t, admin, "DEL k")
		kit.Do(t, admin, "CL.LEASE k SLOTS 1 TTL 1d ID holder")
		begun := time.Now()
		var waiting []*resp.Conn
		for i := range 2 {
			waiting = append(waiting, kit.WaitForLease(t, s, i+1, "CL.LEASE k SLOTS 1 TTL %s ID w%d TIMEOUT 0", ttl, i))
		}
		apart := time.Since(begun) // no more than that lies between their coming
		kit.Do(t, admin, "CL.RENEW k ID holder TTL 100ms")
		lapses := time.Now().Add(100 * time.Millisecond)
		s.Pause()
		<-time.After(time.Until(lapses.Add(late)))
		c.StepAfter(int64(readings)+1, -back.Nanoseconds())
		s.Resume()
		var waited [2]time.Duration
		for i := range waiting {
			l := kit.ReceiveLease(t, waiting[i])
			require.EqualValues(t, 0, l.Limited)
			waited[i] = time.Duration(l.WaitMs) * time.Millisecond
		}
		assert.Greater(t, waited[1]+apart-waited[0], ttl-2*time.Millisecond, "both had the slot, with a step after %d readings", readings+1)
		c.StepAfter(0, 0)
	}
}

// A caller that finds the leases of others lapsed has its own from then on, also when the clock jumps in between. Redis
// 7.0 judges whether the key has expired by the clock as it is when the key is opened.
func TestAStepForwardInTheMiddleOfALookCutsNoLeaseShort(t *testing.T) {
	t.Parallel()
	s, c := kit.StartWithClock(t)
	admin := s.Raw()
	for attempt := range size.Of(75, 250) {
		readings := int64(attempt)%25 + 1 // the cron reads the clock, too
		c.SetAhead(0, 0)
		kit.MustDoAll(t, admin, "DEL k", "CL.LEASE k SLOTS 2 TTL 30m ID a", "CL.LEASE k SLOTS 2 TTL 20m ID b")
		waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 2 TTL 10m ID w TIMEOUT 0")
		c.StepAfter(readings, time.Hour.Nanoseconds())
		kit.Do(t, admin, "CL.RELEASE k ID b")
		l := kit.ReceiveLease(t, waiting)
		require.EqualValues(t, 0, l.Limited)
		if l.Remaining == 1 { // so the lease of a had lapsed
			renewed, err := kit.LeasedIn(kit.Do(t, admin, "CL.RENEW k ID w TTL 10m"))
			require.NoError(t, err)
			assert.EqualValues(t, 0, renewed.Limited, "it had lapsed at once, with a step after %d readings", readings)
		}
		c.StepAfter(0, 0)
		require.NoError(t, waiting.Close())
	}
}

// Nor does such a step block the server while a line waits for the end of a pause.
func TestAStepBackInTheMiddleOfAPauseBlocksNobody(t *testing.T) {
	t.Parallel()
	s, c := kit.StartWithClock(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("the module API knows no pauses")
	}
	admin := s.Raw()
	for readings := range size.Of(10, 30) {
		kit.Do(t, admin, "CL.LEASE k SLOTS 1 TTL 1d ID holder")
		waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1d ID w TIMEOUT 0")
		kit.MustDoAll(t, admin, "CL.RENEW k ID holder TTL 50ms", "CLIENT PAUSE 1000000 WRITE")
		<-time.After(100 * time.Millisecond) // the lease has lapsed, and the line asks again and again whether the pause is over
		c.StepAfter(int64(readings)+1, -step.Nanoseconds())
		require.Eventually(t, c.HasStepped, kit.Patience, time.Millisecond)
		assert.Equal(t, "PONG", kit.Do(t, admin, "PING").Text)
		<-time.After(turnsOfCron)
		c.SetAhead(0, 0)
		kit.Do(t, admin, "CLIENT UNPAUSE")
		assert.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
		kit.Do(t, admin, "DEL k")
	}
}
