package command

import (
	"errors"

	"redis-throttle/gcra"
	"redis-throttle/stack"
)

// CL.THROTTLE key max_burst count_per_period period [quantity]
//
// Replies with five integers: limited (0 or 1), limit, remaining, seconds until
// a retry can succeed (-1: allowed, or never), seconds until the bucket is full.
// Times are rounded up. Wire-compatible with redis-cell.
func throttle(c *Call) {
	if c.ArgCount < 4 || c.ArgCount > 5 {
		c.Reply = ReplyWrongArity
		return
	}
	limit, quantity, problem := c.parseThrottle()
	if problem != "" {
		c.Fail(problem)
		return
	}
	d, ok := c.take(limit, quantity)
	if !ok {
		return
	}
	if d.Changed {
		c.storeTAT(d.TAT)
	}
	limited := int64(1)
	if d.Allowed {
		limited = 0
	}
	c.integers[0] = limited
	c.integers[1] = limit.Capacity()
	c.integers[2] = d.Remaining
	c.integers[3] = ceilSeconds(d.RetryAfter)
	c.integers[4] = ceilSeconds(d.ResetAfter)
	c.Integers = c.integers[:5]
	c.Reply = ReplyIntegers
}

// take decides by what the key holds. When that is no state of a single rate the
// call has failed and ok is false.
func (c *Call) take(limit gcra.Limit, quantity int64) (d gcra.Decision, ok bool) {
	switch c.Kind {
	case Absent:
		return limit.Take(0, c.NowNs, quantity), true
	case Other:
		c.Fail(wrongType)
		return d, false
	}
	if tat, ok := stack.ParseTAT(c.Value); ok {
		return limit.Take(tat, c.NowNs, quantity), true
	}
	var queued gcra.State
	if stack.DecodeRate(c.Value, &queued) != nil {
		c.Fail(wrongValue)
		return d, false
	}
	return limit.TakeQueued(&queued, c.NowNs, quantity), true
}

const (
	badMaxBurst  = "ERR max_burst must be an integer from 0 to 9223372036854775806"
	badCount     = "ERR count_per_period must be an integer from 1 to 9223372036854775807"
	badPeriod    = "ERR period must be a positive number of seconds, or one with a unit, such as 500ms, 10s, 1m, 1h or 1d"
	badQuantity  = "ERR quantity must be an integer from 0 to 9223372036854775807"
	badRate      = "ERR count_per_period is too high for this period: at most 10^9 units per second"
	badTolerance = "ERR max_burst and period are too high: a full bucket would take more than 292 years to refill"
)

// parseThrottle reads the arguments from max_burst on; problem is the error to
// answer with, or empty.
func (c *Call) parseThrottle() (limit gcra.Limit, quantity int64, problem string) {
	quantity = 1
	if len(c.Args) > 4 {
		var ok bool
		if quantity, ok = parseInt(c.Args[4]); !ok || quantity < 0 {
			problem = badQuantity
		}
	}
	words := c.Args[1:4]
	if c.lastLimit.words.are(words) {
		return c.lastLimit.limit, quantity, problem
	}
	limit, limitProblem := parseLimit(words[0], words[1], words[2])
	if limitProblem != "" {
		return limit, 0, limitProblem
	}
	c.lastLimit.words.note(words)
	c.lastLimit.limit = limit
	return limit, quantity, problem
}

func parseLimit(maxBurstWord, countWord, periodWord []byte) (limit gcra.Limit, problem string) {
	maxBurst, ok := parseInt(maxBurstWord)
	if !ok || maxBurst < 0 || maxBurst+1 < 0 {
		return limit, badMaxBurst
	}
	count, ok := parseInt(countWord)
	if !ok || count < 1 {
		return limit, badCount
	}
	period, unit, ok := parsePeriod(periodWord)
	if !ok {
		return limit, badPeriod
	}
	limit, err := gcra.New(maxBurst+1, count, period, unit)
	switch {
	case errors.Is(err, gcra.ErrRate):
		return limit, badRate
	case err != nil:
		return limit, badTolerance
	}
	return limit, ""
}

// ceilSeconds turns ns into seconds, rounded up; gcra.Never stays itself.
func ceilSeconds(ns int64) int64 {
	if ns <= 0 {
		return ns
	}
	return (ns-1)/nsPerSecond + 1
}
