package command

import "math"

// CL.LEASES key [COUNT n]
//
// Replies with the number of leases and of waiting callers, and lists the leases that lapse next.
var Leases = register(&Command{
	Name:        "CL.LEASES",
	Summary:     "Lists the leases of a key, starting with those that lapse next, and counts the callers that wait.",
	Complexity:  "O(log N + M) where N is the number of leases and M the number of leases listed.",
	Since:       "0.2.0",
	Tips:        "nondeterministic_output",
	Flags:       "readonly",
	Keys:        OneKey,
	Lines:       true,
	OnSortedSet: true,
	Args:        []Arg{keyArg, {Name: "n", Type: ArgInteger, Token: "COUNT", Optional: true}},
	Fields:      []string{"held", "waiting", "leases", "id", "lease_ms"},
	Run: func(c *Call) {
		count := standardRows
		switch {
		case c.ArgCount == 1:
		case c.ArgCount > 3:
			c.Reply = ReplyWrongArity
			return
		case !isKeyword(c.Args[1], "COUNT"):
			c.failNear(c.Args[1], expectedOfLeases)
			return
		case c.ArgCount == 2:
			c.failNear(c.Args[1], badListed)
			return
		default:
			var ok bool
			if count, ok = ParseCount(c.Args[2], math.MaxInt64); !ok {
				c.failNear(c.Args[2], badListed)
				return
			}
		}
		l, ok := c.leases()
		if !ok {
			return
		}
		c.Integers = append(c.integers[:0], l.Held, c.Ahead, int64(count))
		c.Reply = ReplyLeases
	},
})

const (
	badListed        = "COUNT takes an integer from 1 to 9223372036854775807"
	expectedOfLeases = "expected COUNT"
)
