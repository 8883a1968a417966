package command

import (
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/stack"
)

// CL.LIMIT key limit [limit ...] [COST n] [UPTO | STRICT | FORCE | MAXWAIT duration] [BAN duration [AFTER count/period]] [COMPACT] [EACH]
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
	r, ok := c.read()
	if !ok || !c.decodeStack() {
		return
	}
	if r.Each {
		c.judge()
	}
	if c.banned() && !r.Force {
		if r.Strict {
			c.banAnew(r.BanNs, c.NowNs)
		}
		c.describeOwnBan(&r.Request)
		return
	}
	var result stack.Result
	c.stack.TakeTo(&result, &r.Request, c.NowNs)
	c.store(result.Changed)
	if c.banned() { // what was used is a fact, and is kept behind the ban
		c.describeBan(c.Key, &c.stack, c.stack.RetryAfter(&r.Request, c.NowNs), result.Granted)
		return
	}
	if result.Limited && r.BanNs > 0 && result.RetryAfterNs != stack.Never {
		if c.banDenied(r, &c.stack, result.Changed, c.NowNs) {
			result.RetryAfterNs = max(result.RetryAfterNs, r.BanNs)
		}
	}
	c.describe(&result)
}
