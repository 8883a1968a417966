package command

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
	Words:       "[COUNT]",
	Fields:      []string{"held", "waiting", "leases", "id", "lease_ms"},
	Run: func(c *Call) {
		r, ok := c.read()
		if !ok {
			return
		}
		count := r.rows
		if count == 0 {
			count = standardRows
		}
		l, ok := c.leases()
		if !ok {
			return
		}
		c.Integers = append(c.integers[:0], l.Held, c.Ahead, count)
		c.Reply = ReplyLeases
	},
})
