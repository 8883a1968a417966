package command

import (
	"errors"
	"math"
	"time"

	"redis-throttle/gcra"
	"redis-throttle/limiter/command/past"
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/stack"
)

// CL.THROTTLE key max_burst count_per_period period [quantity]
//
// Replies with five integers: limited (0 or 1), limit, remaining, seconds until
// a retry can succeed (-1: allowed, or never), seconds until the bucket is full.
// Times are rounded up. Wire-compatible with redis-cell.
var Throttle = register(&Command{
	Name:       "CL.THROTTLE",
	Summary:    "Checks a rate limit and charges it if the units are available. Replies as redis-cell does.",
	Complexity: "O(1)",
	Since:      words.V010,
	Flags:      "write fast deny-oom",
	Keys:       OneKey,
	Decides:    true,
	Args: []words.Arg{
		{Name: "max_burst", Type: words.ArgInteger},
		{Name: "count_per_period", Type: words.ArgInteger},
		{Name: "period", Type: words.ArgString},
		{Name: "quantity", Type: words.ArgInteger, Optional: true},
	},
	Run: throttle,
})

func throttle(c *Call) {
	if rate, quantity := c.parseThrottle(); rate != nil {
		c.throttleBy(rate, quantity)
	}
}

// throttleBy decides by a limit.
func (c *Call) throttleBy(rate *past.Limit, quantity int64) {
	var tat uint64
	if c.First.Kind != Absent {
		var ok bool
		if tat, ok = stack.ParseTAT(c.First.Value); !ok {
			if tat, ok = c.throttleUnusual(rate, quantity); !ok {
				return
			}
		}
	}
	var d gcra.Decision
	rate.Rate.TakeTo(&d, tat, c.NowNs, quantity)
	if d.Changed {
		c.storeTAT(d.TAT)
	}
	c.answerThrottle(d.Allowed, rate.Rate.Capacity(), d.Remaining, d.RetryAfter, d.ResetAfter)
}

// throttleUnusual decides a call whose key holds no plain TAT. With a ban that is over it may be one that holds the TAT
// behind it, which is returned, and ok is true.
//
//go:noinline
func (c *Call) throttleUnusual(rate *past.Limit, quantity int64) (tat uint64, ok bool) {
	switch {
	case c.First.banned(c.NowNs):
		c.throttleBanned(rate, quantity)
		return 0, false
	case c.First.Kind == Other:
		c.Fail(wrongType)
		return 0, false
	case c.First.nothingKept():
		return 0, true
	case stack.HoldsLimits(c.First.state()):
		c.throttleBeside(rate, quantity)
		return 0, false
	}
	if tat, ok = stack.ParseTAT(c.First.state()); !ok {
		c.Fail(wrongValue)
	}
	return tat, ok
}

// throttleBeside decides where CL.LIMIT has reserved, or keeps other limits, as CL.LIMIT with this one rate
// does.
func (c *Call) throttleBeside(rate *past.Limit, quantity int64) {
	c.stack.Reset()
	c.stack.Add(stack.RateOf(rate.Rate, rate.PeriodNs))
	if !c.decodeStack() {
		return
	}
	result := c.stack.Take(stack.Request{Cost: quantity}, c.NowNs)
	c.store(result.Changed)
	c.answerThrottle(!result.Limited, result.Limit, result.Remaining, result.RetryAfterNs, result.ResetAfterNs)
}

// throttleBanned answers while the key is banned, whatever limits its state is of.
func (c *Call) throttleBanned(rate *past.Limit, quantity int64) {
	c.stack.Reset()
	c.stack.Add(stack.RateOf(rate.Rate, rate.PeriodNs))
	if !c.decodeStack() {
		return
	}
	restNs := c.First.banUntil - c.NowNs
	limitsNs := c.stack.RetryAfter(&stack.Request{Cost: quantity}, c.NowNs)
	c.answerThrottle(false, rate.Rate.Capacity(), 0, stack.Longer(restNs, limitsNs), restNs)
}

func (c *Call) answerThrottle(allowed bool, limit, remaining, retryAfterNs, resetAfterNs int64) {
	limited := int64(1)
	if allowed {
		limited = 0
	}
	c.integers[0] = limited
	c.integers[1] = limit
	c.integers[2] = remaining
	c.integers[3] = ceilSeconds(retryAfterNs)
	c.integers[4] = ceilSeconds(resetAfterNs)
	c.Integers = c.integers[:5]
	c.Reply = ReplyIntegers
}

const (
	badMaxBurst  = "ERR max_burst must be an integer from 0 to 9223372036854775806"
	badCount     = "ERR count_per_period must be an integer from 1 to 9223372036854775807"
	badPeriod    = "ERR period must be a positive number of seconds, or one with a unit, such as 500ms, 10s, 1m, 1h or 1d"
	badFraction  = "ERR period must be a whole number of nanoseconds"
	badQuantity  = "ERR quantity must be an integer from 0 to 9223372036854775807"
	badRate      = "ERR count_per_period is too high for this period: at most 10^9 units per second"
	badTolerance = "ERR max_burst and period are too high: a full bucket would take more than 292 years to refill"
)

// parseThrottle reads the arguments from max_burst on. When rate is nil the call has failed.
func (c *Call) parseThrottle() (rate *past.Limit, quantity int64) {
	args := c.Args[1:4]
	if rate = c.Past.FindLimit(args); rate == nil {
		if rate = c.parseRate(args); rate == nil {
			return nil, 0
		}
	}
	if len(c.Args) < 5 {
		return rate, 1
	}
	quantity, ok := words.ParseInt(c.Args[4])
	if !ok || quantity < 0 {
		c.Fail(badQuantity)
		return nil, 0
	}
	return rate, quantity
}

// parseRate reads the words of a limit, and remembers what they mean. When rate is nil the call has failed.
//
//go:noinline
func (c *Call) parseRate(args [][]byte) (rate *past.Limit) {
	limit, periodNs, problem := parseLimit(args[0], args[1], args[2])
	if problem != "" {
		c.Fail(problem)
		return nil
	}
	c.limit = past.Limit{Rate: limit, PeriodNs: periodNs}
	c.Past.NoteLimit(args, &c.limit)
	return &c.limit
}

func parseLimit(maxBurstWord, countWord, periodWord []byte) (limit gcra.Limit, period int64, problem string) {
	maxBurst, ok := words.ParseInt(maxBurstWord)
	if !ok || maxBurst < 0 || maxBurst+1 < 0 {
		return limit, 0, badMaxBurst
	}
	count, ok := words.ParseInt(countWord)
	if !ok || count < 1 {
		return limit, 0, badCount
	}
	n, unit, err := words.ParsePeriod(periodWord)
	switch {
	case errors.Is(err, words.ErrTooFine):
		return limit, 0, badFraction
	case err != nil:
		return limit, 0, badPeriod
	}
	limit, err = gcra.New(maxBurst+1, count, n, unit)
	switch {
	case errors.Is(err, gcra.ErrRate):
		return limit, 0, badRate
	case err != nil:
		return limit, 0, badTolerance
	}
	return limit, periodNs(n, unit), ""
}

// periodNs is n x unit, or the longest period that a key can say.
func periodNs(n int64, unit time.Duration) int64 {
	if n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return n * int64(unit)
}

// ceilSeconds turns ns into seconds, rounded up; gcra.Never stays itself.
func ceilSeconds(ns int64) int64 {
	if ns <= 0 {
		return ns
	}
	return (ns-1)/nsPerSecond + 1
}
