// Package ratelimittest tests programs that use package ratelimit: without a server, without a socket, and with a clock
// that the test sets.
//
//	limiter := ratelimittest.New(t)
//	handler := httplimit.New(limiter, options)(site)
//	limiter.Advance(time.Hour)
//
// A Limiter is a client of package ratelimit. It decides in the test's process, with the code that the server runs. So
// its results and errors are those of a server that has just been started.
//
// # The clock
//
// The clock starts at midnight UTC, January 1, 2000, and only Advance and SetTime move it. Nothing else is done to the
// time: the deadlines of contexts, and whatever else the tested code does with package time, go by the clock of the
// machine.
//
// Inside of a bubble of [testing/synctest] the clock is the bubble's: time passes for the limiter as it does for the
// tested code. Use a bubble wherever that code has deadlines, timers or sleeps of its own, as callers that wait, leases
// and the packages cached, batched, guard and retry have. Make the Limiter inside of the bubble:
//
//	synctest.Test(t, func(t *testing.T) {
//		limiter := ratelimittest.New(t)
//		go work(limiter)
//		limiter.Advance(time.Minute)
//	})
package ratelimittest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
)

// Limiter is a client of package ratelimit for tests. All its methods are safe for concurrent use.
type Limiter struct {
	// Limiter has the verbs. Give it to code that needs a *ratelimit.Limiter. Any other code takes the test's Limiter
	// as a ratelimit.Decider.
	*ratelimit.Limiter
	// Faults has the faults of all commands from now on.
	Faults

	t testing.TB
	s *server
}

// New returns a Limiter whose keys are empty. When the test ends, calls that have no answer yet get an error.
func New(t testing.TB) *Limiter {
	s := newServer()
	t.Cleanup(s.end)
	client := ratelimit.New(s, ratelimit.Options{})
	return &Limiter{Limiter: ratelimit.With(recorder{s, client}), Faults: Faults{s, everyCommand}, t: t, s: s}
}

// lastYear is the last whole year that nanoseconds since the Unix epoch can count.
const lastYear = 2261

// Now is what time it is on the limiter's clock.
func (l *Limiter) Now() time.Time { return l.s.now() }

// Advance lets d pass, which is not negative. Callers in line, slow calls and leases have their turns at the instants
// between. In a bubble Advance sleeps for d, and then calls [synctest.Wait], which returns when all other goroutines of
// the bubble are blocked. Elsewhere callers that have their answer may go on after Advance has returned.
func (l *Limiter) Advance(d time.Duration) {
	l.t.Helper()
	if d < 0 {
		l.t.Fatalf("ratelimittest: Advance takes a time that is not negative, not %v; SetTime sets the clock back", d)
	}
	if l.Now().Add(d).Year() > lastYear {
		l.t.Fatalf("ratelimittest: Advance(%v) leads beyond the year %d", d, lastYear)
	}
	l.s.advance(d)
}

// SetTime sets the limiter's clock to an instant from 1970 to 2261, forward or back, as an operator sets the clock of a
// server. It is no time that passes: in a bubble, time.Now stays as it is. For callers in line a step forward counts as
// time that they have waited.
func (l *Limiter) SetTime(at time.Time) {
	l.t.Helper()
	if year := at.UTC().Year(); year < 1970 || year > lastYear {
		l.t.Fatalf("ratelimittest: SetTime takes an instant from 1970 to %d, not %v", lastYear, at)
	}
	l.s.setTime(at)
}

// Blocked is how many commands have no answer yet: their callers wait in line, or the command is slow or hangs.
func (l *Limiter) Blocked() int { return l.s.blockedNow() }

// AwaitBlocked returns when at least n commands have no answer yet. It is for tests outside of bubbles that start
// callers which wait. In a bubble, synctest.Wait does the same for all goroutines.
func (l *Limiter) AwaitBlocked(n int) { l.s.awaitBlocked(n) }

// Process runs a command of the module, such as CL.LEASES: a Limiter is what leases.List and ratelimit.New take as
// their client. The command is a *redis.Cmd.
func (l *Limiter) Process(ctx context.Context, cmd redis.Cmder) error { return l.s.Process(ctx, cmd) }
