package command

import "redis-throttle/limiter/command/words"

// CL.PEEK key limit [limit ...] [COST n] [COMPACT] [EACH]
//
// Shows what CL.LIMIT would answer. It writes nothing, so it also works on replicas.
var Peek = register(&Command{
	Name:       "CL.PEEK",
	Summary:    "Shows what CL.LIMIT would answer, without charging any limit.",
	Complexity: words.PerLimit,
	Since:      words.V010,
	Tips:       "nondeterministic_output",
	Flags:      "readonly fast",
	Keys:       OneKey,
	Fields:     limitFields,
	Run:        peek,
})

func peek(c *Call) {
	r, ok := c.read()
	if !ok || !c.decodeStack() {
		return
	}
	if r.Each {
		c.judge()
	}
	if c.First.banned(c.NowNs) {
		c.describeOwnBan(&r.Request)
		return
	}
	result := c.stack.Peek(r.Cost, c.NowNs)
	c.describe(&result)
}
