package command

import (
	"redis-throttle/limiter/lease"
	"redis-throttle/limiter/stack"
)

// EACH: the reply ends with what each limit says. The limits are judged before the decision, because a limit that has
// been charged no longer shows whether it had room, and described after it.

// EachField is the name under which a reply with names shows Call.Each.
const EachField = "each"

// judge notes which limits alone would not let the call through. The request is about to be decided.
func (c *Call) judge() {
	if c.cmd.Keys == CountedKeys {
		c.limiting = c.Many.joint.Judge(&c.request.Request, c.NowNs)
		return
	}
	c.limiting = c.stack.Judge(&c.request.Request, c.NowNs)
}

// judgeSettlement notes what CL.SETTLE shows of the groups of SLOTS: whether id holds the lease, without which nothing
// is settled. Limits are asked for nothing.
func (c *Call) judgeSettlement(settled bool) {
	c.limiting = 0
	for i := range c.Keys {
		leases := &c.Many.leases[i]
		if !c.Many.slots[i].Is {
			continue
		}
		state := lease.Result{Limited: !leases.Holds(), Slots: lease.Unknown, Remaining: lease.Unknown, RetryAfterNs: lease.Never}
		if leases.Holds() && !settled {
			state.LapsesAtMs = leases.OwnMs
		}
		c.Many.taken[i] = state
	}
}

// describeEach adds to the answer of a call, limited or not, what each limit says.
func (c *Call) describeEach(limited bool) {
	c.Each = c.perLimit[:0]
	if c.cmd.Keys == CountedKeys {
		c.describeEachOfMany(limited)
	} else {
		for rule := range c.stack.Len() {
			c.addLimit(c.stack.Alone(rule, &c.request.Request, c.limiting, limited, c.NowNs))
		}
	}
	c.Reply = ReplyFieldsEach
	if c.compact {
		c.Reply = ReplyIntegersEach
	}
}

// describeEachOfMany adds the limits and groups of SLOTS of all keys, in their order.
func (c *Call) describeEachOfMany(limited bool) {
	m, rule := c.Many, 0
	for i := range c.Keys {
		if m.slots[i].Is {
			c.addSlots(i, limited)
			continue
		}
		for range m.stacks[i].Len() {
			c.addLimit(m.joint.Alone(rule, &c.request.Request, c.limiting, limited, c.NowNs))
			rule++
		}
	}
}

func (c *Call) addLimit(a stack.Alone) {
	c.addEach(a.Limited, a.Limit, a.Remaining, a.RetryAfterNs, a.ResetAfterNs)
}

// addSlots adds a group of SLOTS as the call, limited or not, leaves it. A call that is limited takes no slot.
func (c *Call) addSlots(key int, limited bool) {
	leases, taken := &c.Many.leases[key], c.Many.taken[key]
	after := taken
	if limited {
		after = leases.Limited(c.Many.slots[key].Slots)
	}
	_, allNs := leases.Until(after)
	c.addEach(taken.Limited, after.Slots, after.Remaining, taken.RetryAfterNs, allNs)
}

func (c *Call) addEach(limited bool, limit, remaining, retryAfterNs, resetAfterNs int64) {
	integers := [EachFields]int64{0, limit, remaining, ceilMs(retryAfterNs), ceilMs(resetAfterNs)}
	if limited {
		integers[0] = 1
	}
	c.Each = append(c.Each, integers)
}
