package command

import (
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/stack"
)

// CL.SETTLE numkeys key [key ...] group [NEXT group] ... ID id [COMPACT] [EACH]
//
// A group is one or more limits with TAKE units USED units, or SLOTS.
//
// Ends the leases of id and charges or gives back what was used more or less than was taken, atomically. If id does not
// hold all of the leases (any longer), nothing changes.
var Settle = register(&Command{
	Name:        "CL.SETTLE",
	Summary:     "Ends the leases of an admission, and charges or returns the difference between what it took and what it used.",
	Complexity:  words.PerKeyAndLimit,
	Since:       words.V030,
	Flags:       "write fast",
	Keys:        CountedKeys,
	OnSortedSet: true,
	MaxMembers:  1,
	Slots:       words.SlotsAlone,
	Required:    "ID",
	Fields:      settleFields,
	Run:         settle,
})

func settle(c *Call) {
	if _, ok := c.parseMany(); !ok || !c.decodeMany() {
		return
	}
	unread := c.isUnread()
	if unread && (c.each || c.Many.slotGroups > 1) {
		c.lookUp()
		return
	}
	held := unread || c.holdsAll()
	if c.each {
		c.judgeSettlement(held)
	}
	c.describeSettled(held)
	if !held {
		return
	}
	m := c.Many
	for i := range c.Keys {
		if m.slots[i].Is {
			c.Keys[i].Members.Remove[0] = true
			c.Keys[i].release(1, m.leases[i].Held)
		}
	}
}

// holdsAll reports whether the id holds a lease of each group of SLOTS.
func (c *Call) holdsAll() bool {
	for i := range c.Keys {
		if c.Many.slots[i].Is && !c.Many.leases[i].Holds() {
			return false
		}
	}
	return true
}

// describeSettled settles the limits, if that is still to be done, and answers with the one that has the fewest units
// left.
func (c *Call) describeSettled(held bool) {
	m := c.Many
	result, key := stack.Result{Rule: -1, RetryAfterNs: stack.Never}, -1
	switch {
	case m.joint.Len() == 0:
	case held:
		result = m.joint.Adjust(c.NowNs)
		c.storeMany(noKey)
		c.Refunded = max(-result.Granted, 0)
	default:
		result = m.joint.Standing(0, c.NowNs)
		result.Granted = 0
	}
	if m.joint.Len() > 0 {
		key = m.keyOf(result.Rule)
	}
	c.describeKey(&result, key)
	if key >= 0 {
		c.numberRule(key)
	}
	c.TallyKey = 0
	c.integers[fieldSettled], c.Tally = 0, NotSettled
	if held {
		c.integers[fieldSettled], c.Tally = 1, Settled
	}
}

// fieldSettled is the index of the field that says whether the call settled anything.
const fieldSettled = 0
