package command

import "redis-throttle/limiter/command/words"

// CL.DENIED key count
//
// Counts calls on a key that were limited without the server, such as by a client that remembers denials, for
// CL.TOP. It changes no limit and writes nothing. Replies with the count, or with 0 while CL.TOP is off.
var Denied = register(&Command{
	Name:       "CL.DENIED",
	Summary:    "Counts calls on a key that a client limited without asking the server, for CL.TOP.",
	Complexity: "O(log N) where N is the configuration throttle.top, O(N) at worst.",
	Since:      words.V050,
	Flags:      "write fast", // no write, but for masters, and for users who may limit the key
	Keys:       OneKey,
	OnlyNames:  true,
	Args:       []words.Arg{{Name: "count", Type: words.ArgInteger}},
	Run:        denied,
})

// maxDenied is how many calls are counted at once: few enough that one call neither takes long nor outweighs those of
// all others for minutes.
const maxDenied = 10_000

const badDeniedCount = "ERR count must be an integer from 1 to 10000" // maxDenied

func denied(c *Call) {
	n, ok := words.ParseCount(c.Args[1], maxDenied)
	if !ok {
		c.Fail(badDeniedCount)
		return
	}
	if c.Top.isOff() {
		n = 0
	} else {
		c.Top.limited.Add(c.DB, c.name(0), uint64(n), c.NowNs)
	}
	c.integers[0] = int64(n)
	c.Integers = c.integers[:1]
	c.Reply = ReplyInteger
}
