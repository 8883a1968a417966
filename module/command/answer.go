package command

import "redis-throttle/stack"

// What the commands of the CL.LIMIT family share between parsing and replying.

// decodeStack reads the key into c.stack, whose limits are there. When the key holds
// anything but a limiter's state the call has failed and ok is false.
func (c *Call) decodeStack() (ok bool) {
	switch c.Kind {
	case Absent:
		return true
	case Other:
		c.Fail(wrongType)
		return false
	}
	if c.nothingKept() {
		return true
	}
	if c.stack.Decode(c.Value) != nil {
		c.Fail(wrongValue)
		return false
	}
	return true
}

// store writes c.stack to the key, or removes the key when all its limits are full.
func (c *Call) store(changed bool) {
	if !changed {
		return
	}
	fullAt := c.stack.ExpireAt()
	switch {
	case c.banned():
		c.storeBan(c.banUntil, c.stackState(fullAt), fullAt)
	case fullAt > uint64(c.NowNs):
		c.Effect = Set
		c.NewValue = c.stack.Append(c.value[:0])
		c.ExpireAtMs = expireAtMs(fullAt)
	case c.Kind != Absent:
		c.Effect = Delete
	}
}

// describe answers with the fields of a result, in the order of limitFields.
func (c *Call) describe(r *stack.Result) {
	limited := int64(0)
	if r.Limited {
		limited = 1
	}
	fields := &c.integers // in place: an array would be made elsewhere and copied
	fields[0], fields[1], fields[2], fields[3] = limited, int64(r.Rule)+1, r.Limit, r.Remaining
	fields[4], fields[5], fields[6] = ceilMs(r.RetryAfterNs), ceilMs(r.ResetAfterNs), ceilMs(r.NextAfterNs)
	fields[7], fields[8], fields[9] = r.Granted, ceilMs(r.WaitNs), int64(r.Shadow)
	c.Integers = c.integers[:]
	c.shadow = r.Shadow
	c.Reply = ReplyFields
	if c.compact {
		c.Reply = ReplyIntegers
	}
}

// ceilMs turns ns into ms, rounded up; stack.Never stays itself.
func ceilMs(ns int64) int64 {
	if ns <= 0 {
		return ns
	}
	return (ns-1)/1_000_000 + 1
}
