package command

import "redis-throttle/limiter/command/words"

// CL.RENEW key ID id TTL duration [COMPACT]
//
// Extends the lease of id: it lasts for duration from now. A lapsed lease is lost, and the call is limited.
var Renew = register(&Command{
	Name:        "CL.RENEW",
	Summary:     "Extends a lease that has not lapsed.",
	Complexity:  "O(log N) where N is the number of leases.",
	Since:       words.V020,
	Flags:       "write fast",
	Keys:        OneKey,
	Decides:     true,
	OnSortedSet: true,
	MaxMembers:  1,
	Required:    "ID TTL",
	Fields:      leaseFields,
	Run: func(c *Call) {
		r, ok := c.read()
		if !ok {
			return
		}
		l, ok := c.leases()
		if !ok {
			return
		}
		result := l.Renew(r.TTLNs)
		if !result.Limited {
			c.First.storeLease(result)
		}
		c.describeLease(result)
	},
})
