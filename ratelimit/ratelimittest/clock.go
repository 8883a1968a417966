package ratelimittest

import "time"

// The fake clock of a bubble starts in 2000, by the documentation of testing/synctest. No machine that builds this
// package has a clock in these years, so a clock that says so is a bubble's.
var (
	bubblesStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	bubblesEnd   = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
)

// clock is the clock of the server: the time that has passed, and the wall clock, which may be set.
type clock struct {
	// bubble says that time passes as in the bubble, since began. Otherwise passed is how much has since the clock was
	// set.
	bubble  bool
	began   time.Time
	passed  time.Duration
	startNs int64 // what the wall clock says when no time has passed, ns since the Unix epoch
}

func newClock() clock {
	now := time.Now()
	if now.Before(bubblesStart) || !now.Before(bubblesEnd) {
		return clock{startNs: bubblesStart.UnixNano()}
	}
	return clock{bubble: true, began: now, startNs: now.UnixNano()}
}

// elapsed is the time that has passed.
func (c *clock) elapsed() time.Duration {
	if c.bubble {
		return time.Since(c.began)
	}
	return c.passed
}

// wallNs is what the wall clock says, in ns since the Unix epoch.
func (c *clock) wallNs() int64 { return c.startNs + int64(c.elapsed()) }

// set sets the wall clock. Outside of a bubble elapsed begins anew, so that a clock which is set back and advanced
// never ends.
func (c *clock) set(at time.Time) {
	c.passed = 0
	c.startNs = at.UnixNano() - int64(c.elapsed())
}

// after is how much time will have passed when the wall clock says wallNs.
func (c *clock) after(wallNs int64) time.Duration { return time.Duration(wallNs - c.startNs) }
