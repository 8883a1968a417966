package command

import (
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/line"
	"redis-throttle/limiter/stack"
)

// Calls of CL.MLIMIT with groups of SLOTS: units and leases are taken together, or nothing is.

// admit decides a call of which at least one group is SLOTS.
func (c *Call) admit(r *words.Request) {
	m := c.Many
	full, held := c.decideSlots()
	unread := c.isUnread()
	if unread && (full >= 0 || m.slotGroups > 1 || c.longestBan() >= 0) {
		c.lookUp()
		return
	}
	if held {
		c.admitAgain(r)
		return
	}
	if banned := c.longestBan(); banned >= 0 {
		c.describeBanOf(banned, stack.Longer(c.limitsRetryAfter(r), c.slotsRetryAfter()), 0)
		c.numberRule(banned)
		return
	}
	var result stack.Result
	result.RetryAfterNs = stack.Never
	switch {
	case m.joint.Len() == 0:
		result.Limited, result.RetryAfterNs = full >= 0, 0
	case full >= 0:
		result = m.joint.Deny(r.Request, c.NowNs)
	default:
		result = m.joint.Take(r.Request, c.NowNs)
	}
	if unread && result.Limited { // a retry would be let through
		c.lookUp()
		return
	}
	c.storeMany(noKey)
	if result.Limited {
		c.describeDenied(result, full)
		return
	}
	for i := range c.Keys {
		if m.slots[i].Is {
			c.Keys[i].storeSlot(m.taken[i])
		}
	}
	c.describeAdmitted(result)
}

// decideSlots decides each group of SLOTS by itself and notes what becomes of it. full is the key whose group has the
// longest wait, the first of several, -1 if there is room in all. held says that the id holds all leases.
func (c *Call) decideSlots() (full int, held bool) {
	m := c.Many
	full, held = -1, true
	for i := range c.Keys {
		g := &m.slots[i]
		if !g.Is {
			continue
		}
		l := &m.leases[i]
		if c.Keys[i].Ahead > 0 {
			c.Keys[i].countAhead(l, g.Slots, line.Place{})
		}
		m.taken[i] = l.Take(g.Slots, g.TTLNs)
		c.Keys[i].ToldSlots = g.Slots
		held = held && l.Holds()
		if m.taken[i].Limited && (full < 0 || isLonger(m.taken[i].RetryAfterNs, m.taken[full].RetryAfterNs)) {
			full = i
		}
	}
	return full, held
}

// isUnread reports whether it was left open whether the id holds a lease.
func (c *Call) isUnread() bool {
	for i := range c.Keys {
		if c.Many.slots[i].Is && c.Keys[i].Kind == SortedSet && c.Keys[i].Members.Unread {
			return true
		}
	}
	return false
}

// lookUp has the bridge find out whether the id holds a lease, and ask again.
func (c *Call) lookUp() {
	c.keep()
	c.Reply = ReplyElsewhere
}

// isLonger compares times until a retry succeeds, Never being the longest.
func isLonger(aNs, bNs int64) bool {
	return bNs != stack.Never && (aNs == stack.Never || aNs > bNs)
}

func (c *Call) slotsRetryAfter() (ns int64) {
	m := c.Many
	for i := range c.Keys {
		if m.slots[i].Is && m.taken[i].Limited {
			ns = stack.Longer(ns, m.taken[i].RetryAfterNs)
		}
	}
	return ns
}

func (c *Call) limitsRetryAfter(r *words.Request) int64 {
	if c.Many.joint.Len() == 0 {
		return 0
	}
	return c.Many.joint.RetryAfter(&r.Request, c.NowNs)
}

// admitAgain answers the retry of a call that was admitted: the leases are renewed and nothing is charged.
func (c *Call) admitAgain(r *words.Request) {
	m := c.Many
	c.limiting = 0 // no limit is asked
	for i := range c.Keys {
		if m.slots[i].Is {
			c.Keys[i].storeSlot(m.taken[i])
		}
	}
	var result stack.Result
	if m.joint.Len() > 0 {
		result = m.joint.Standing(r.Cost, c.NowNs)
	}
	result.RetryAfterNs = stack.Never
	c.describeAdmitted(result)
}

// describeDenied answers a call that is limited: the limit or the group of SLOTS with the longest wait decides, the
// first of several. full is the group of SLOTS with the longest wait, -1 if all have room.
func (c *Call) describeDenied(result stack.Result, full int) {
	m := c.Many
	if full < 0 || m.joint.Len() > 0 && result.RetryAfterNs != 0 && !c.slotOutlasts(full, result) {
		c.describeOf(result, m.keyOf(result.Rule))
		return
	}
	c.Keys[full].Members.Event = NotLeased
	c.describeSlot(full, result.Shadow)
}

// slotOutlasts reports whether a group of SLOTS, and not the limit of a result, has the longest wait.
func (c *Call) slotOutlasts(full int, limit stack.Result) bool {
	ns := c.Many.taken[full].RetryAfterNs
	return isLonger(ns, limit.RetryAfterNs) || ns == limit.RetryAfterNs && full < c.Many.keyOf(limit.Rule)
}

// describeAdmitted answers a call that is let through: the limit or the group of SLOTS with the fewest left decides,
// the first of several.
func (c *Call) describeAdmitted(result stack.Result) {
	m := c.Many
	key := -1
	if m.joint.Len() > 0 && !m.joint.OnlyShadows() {
		key = m.keyOf(result.Rule)
	}
	least := result.Remaining
	for i := range c.Keys {
		if !m.slots[i].Is {
			continue
		}
		if left := m.taken[i].Remaining; key < 0 || left < least || left == least && i < key {
			key, least = i, left
		}
	}
	if m.slots[key].Is {
		c.describeSlot(key, result.Shadow)
		return
	}
	c.describeOf(result, key)
}

// describeOf answers with the fields of a result that a limit of the key decided.
func (c *Call) describeOf(result stack.Result, key int) {
	c.describeKey(&result, key)
	c.numberRule(key)
}

// describeSlot answers with the fields of a group of SLOTS. shadow is the number of a shadow among the limits.
func (c *Call) describeSlot(key, shadow int) {
	taken := &c.Many.taken[key]
	nextNs, allNs := c.Many.leases[key].Until(*taken)
	granted := int64(1)
	if taken.Limited {
		granted = 0
	}
	c.describeKey(&stack.Result{
		Limited: taken.Limited, Limit: taken.Slots, Remaining: taken.Remaining, RetryAfterNs: taken.RetryAfterNs,
		ResetAfterNs: allNs, NextAfterNs: nextNs, Granted: granted, Shadow: shadow,
	}, key)
	c.integers[fieldRule] = int64(c.limitsBefore(key)) + 1
	c.numberRule(key)
}

// numberRule counts the groups of SLOTS in the numbers of the rule, which is one of a key, and of the shadow: each is
// one rule.
func (c *Call) numberRule(key int) {
	fields := &c.integers
	if fields[fieldRule] > 0 {
		fields[fieldRule] += c.slotsBefore(key)
	}
	if c.shadow > 0 {
		fields[fieldShadow] += c.slotsBefore(c.Many.keyOf(c.shadow - 1))
	}
}

// slotsBefore counts the groups of SLOTS in front of a key.
func (c *Call) slotsBefore(key int) (n int64) {
	for i := range key {
		if c.Many.slots[i].Is {
			n++
		}
	}
	return n
}

// limitsBefore counts the limits in front of a key.
func (c *Call) limitsBefore(key int) (n int) {
	for i := range key {
		if !c.Many.slots[i].Is {
			n += c.Many.stacks[i].Len()
		}
	}
	return n
}
