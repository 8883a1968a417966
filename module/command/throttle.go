package command

import (
	"errors"

	"redis-throttle/gcra"
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
	limit, quantity, problem := parseThrottle(c.Args)
	if problem != "" {
		c.Fail(problem)
		return
	}
	tat, ok := c.storedTAT()
	if !ok {
		return
	}
	d := limit.Take(tat, c.NowNs, quantity)
	if d.Changed {
		c.storeTAT(d.TAT)
	}
	limited := int64(1)
	if d.Allowed {
		limited = 0
	}
	c.integers = [...]int64{limited, limit.Capacity(), d.Remaining, ceilSeconds(d.RetryAfter), ceilSeconds(d.ResetAfter)}
	c.Integers = c.integers[:]
	c.Reply = ReplyIntegers
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
func parseThrottle(args [][]byte) (limit gcra.Limit, quantity int64, problem string) {
	maxBurst, ok := parseInt(args[1])
	if !ok || maxBurst < 0 || maxBurst+1 < 0 {
		return limit, 0, badMaxBurst
	}
	count, ok := parseInt(args[2])
	if !ok || count < 1 {
		return limit, 0, badCount
	}
	period, unit, ok := parsePeriod(args[3])
	if !ok {
		return limit, 0, badPeriod
	}
	quantity = 1
	if len(args) > 4 {
		quantity, ok = parseInt(args[4])
		if !ok || quantity < 0 {
			return limit, 0, badQuantity
		}
	}
	limit, err := gcra.New(maxBurst+1, count, period, unit)
	switch {
	case errors.Is(err, gcra.ErrRate):
		problem = badRate
	case err != nil:
		problem = badTolerance
	}
	return limit, quantity, problem
}

// ceilSeconds turns ns into seconds, rounded up; gcra.Never stays itself.
func ceilSeconds(ns int64) int64 {
	if ns <= 0 {
		return ns
	}
	return (ns-1)/nsPerSecond + 1
}
