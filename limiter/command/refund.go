package command

import "redis-throttle/limiter/command/words"

// CL.REFUND key limit [limit ...] [COST n] [COMPACT] [EACH]
//
// Returns units to limits, up to their capacity.
var Refund = register(&Command{
	Name:       "CL.REFUND",
	Summary:    "Returns units to the limits of a key, up to their capacity.",
	Complexity: words.PerLimit,
	Since:      words.V010,
	Flags:      "write fast",
	Keys:       OneKey,
	Fields:     limitFields,
	Run:        refund,
})

func refund(c *Call) {
	r, ok := c.read()
	if !ok || !c.decodeStack() {
		return
	}
	c.limiting = 0
	result := c.stack.Refund(r.Cost, c.NowNs)
	c.store(result.Changed)
	c.describe(&result)
	c.Refunded = -result.Granted
}
