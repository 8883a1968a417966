package command

import "redis-throttle/stack"

// What the commands of the CL.LIMIT family share between parsing and replying.

// decodeStack reads the key into c.stack, whose limits are there. When the key holds
// anything but a limiter's state the call has failed and ok is false.
func (c *Call) decodeStack() (ok bool) {
	if problem := c.decode(&c.stack); problem != "" {
		c.Fail(problem)
		return false
	}
	return true
}

// decode reads the key into a stack whose limits are there; problem is the error when the key
// holds anything but a limiter's state.
func (k *Key) decode(s *stack.Stack) (problem string) {
	switch {
	case k.Kind == Absent:
		return ""
	case k.Kind == Other:
		return wrongType
	case k.nothingKept():
		return ""
	case s.Decode(k.Value) != nil:
		return wrongValue
	}
	return ""
}

// store writes c.stack to the key, or removes the key when all its limits are full.
func (c *Call) store(changed bool) {
	if changed {
		c.Key.store(&c.stack, c.value[:0], c.NowNs)
	}
}

// store writes a stack to the key, or removes the key when all its limits are full. room is for the
// value.
func (k *Key) store(s *stack.Stack, room []byte, nowNs int64) {
	fullAt := s.ExpireAt()
	switch {
	case k.banned(nowNs):
		k.storeBan(k.banUntil, stackState(s, room, fullAt, nowNs), fullAt, room)
	case fullAt > uint64(nowNs):
		k.Effect = Set
		k.NewValue = s.Append(room)
		k.ExpireAtMs = expireAtMs(fullAt)
	case k.Kind != Absent:
		k.Effect = Delete
	}
}

// limitFields are the names in a reply of the CL.LIMIT family. New ones come at the end.
var limitFields = []string{"limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms", "next_after_ms", "granted", "wait_ms", "shadow"}

// fieldsOfLimit is the number of limitFields.
const fieldsOfLimit = 10

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
	c.Integers = c.integers[:fieldsOfLimit]
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
