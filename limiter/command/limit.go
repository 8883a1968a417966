package command

import (
	"redis-throttle/gcra"
	"redis-throttle/limiter/command/past"
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/stack"
)

// CL.LIMIT key limit [limit ...] [COST n] [UPTO | STRICT | FORCE | MAXWAIT duration] [BAN duration [AFTER
// count/period]] [COMPACT] [EACH]
//
// Charges up to eight limits of one key atomically: all of them or none.
var Limit = register(&Command{
	Name:       "CL.LIMIT",
	Summary:    "Charges up to eight limits of one key atomically: all of them or none.",
	Complexity: words.PerLimit,
	Since:      words.V010,
	Flags:      "write fast deny-oom",
	Keys:       OneKey,
	Decides:    true,
	Fields:     limitFields,
	Run:        limit,
})

func limit(c *Call) {
	if c.ArgCount > len(c.Args) {
		c.Fail(c.cmd.tooMany())
		return
	}
	earlier := c.Past.FindRequest(c.Args[1:], c.cmd.index)
	if earlier == nil || !c.limitLone(earlier) && !c.limitLoneCount(earlier) {
		c.limitStack(earlier)
	}
}

// limitLone decides by one RATE without terms or options where the key holds a TAT alone or nothing: most calls. It
// decides as limitStack, but touches a third of its code. Of another call it returns false, and nothing was done.
func (c *Call) limitLone(earlier *past.Request) (done bool) {
	rate := earlier.LoneRate()
	if rate == nil {
		return false
	}
	var tat uint64
	if c.First.Kind != Absent {
		var ok bool
		if tat, ok = stack.ParseTAT(c.First.Value); !ok {
			return false
		}
	}
	var d gcra.Decision
	rate.TakeTo(&d, tat, c.NowNs, earlier.Read.Cost)
	if d.Changed {
		c.storeTAT(d.TAT)
	}
	c.describeLone(rate, &d, earlier.Read.Cost)
	if c.Reply = ReplyFields; earlier.Read.Compact {
		c.Reply = ReplyIntegers
	}
	return true
}

// limitLoneCount is limitLone of one WINDOW or FIXED, where the key holds its state alone or nothing.
//
//go:noinline
func (c *Call) limitLoneCount(earlier *past.Request) (done bool) {
	limit, k := earlier.LoneCount(), c.First
	if limit == nil || k.Kind > String || k.Kind == String && len(k.Value) == 0 {
		return false
	}
	var value []byte
	if k.Kind == String {
		value = k.Value
	}
	var result stack.Result
	if !c.stack.TakeLone(&result, limit, value, earlier.Read.Cost, c.NowNs) {
		return false
	}
	if result.Changed {
		c.storeLone()
	}
	c.compact, c.each = earlier.Read.Compact, false
	c.describe(&result)
	return true
}

// limitStack decides any call. earlier is what its words were read as before, or nil.
//
//go:noinline
func (c *Call) limitStack(earlier *past.Request) {
	r, ok := c.readLimits(earlier)
	if !ok || !c.decodeStack() {
		return
	}
	if r.Each {
		c.judge()
	}
	if c.First.banned(c.NowNs) && !r.Force {
		if r.Strict {
			c.First.banAnew(r.BanNs, c.NowNs)
		}
		c.describeOwnBan(&r.Request)
		return
	}
	var result stack.Result
	c.stack.TakeTo(&result, &r.Request, c.NowNs)
	if c.First.banned(c.NowNs) { // what was used is a fact, and is kept behind the ban
		c.store(result.Changed)
		c.describeBan(c.First, &c.stack, c.stack.RetryAfter(&r.Request, c.NowNs), result.Granted)
		return
	}
	if bans(r, &result) {
		c.First.banDenied(r, &result, &c.stack, result.Changed, c.NowNs)
	} else {
		c.store(result.Changed)
	}
	c.describe(&result)
}
