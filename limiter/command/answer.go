package command

import (
	"redis-throttle/gcra"
	"redis-throttle/limiter/stack"
)

// The replies of the CL.LIMIT family.

// Each reply has a list of names of its own, and clients read it by position: spec/replies.json is the contract. So a
// new name comes at the end of the list of a reply, and moves none in another.
var (
	limitFields  = []string{"limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms", "next_after_ms", "granted", "wait_ms", "shadow"}
	mlimitFields = []string{"limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms", "next_after_ms", "granted", "wait_ms", "shadow", "key"}
	settleFields = []string{"settled", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms", "next_after_ms", "granted", "wait_ms", "shadow", "key"}
)

// The indexes of some of them, and how many a result of limits fills.
const (
	fieldRule     = 1
	fieldShadow   = 9
	fieldsOfLimit = 10
	fieldKey      = 10 // of mlimitFields and settleFields
)

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
	if c.each {
		c.describeEach(r.Limited)
	}
}

// describeLone answers with the fields of limitFields for the decision of a rate that is alone.
func (c *Call) describeLone(rate *gcra.Limit, d *gcra.Decision, cost int64) {
	fields := &c.integers
	fields[0], fields[1], fields[2], fields[3] = 1, 1, rate.Capacity(), d.Remaining
	fields[4], fields[5], fields[6] = ceilMs(d.RetryAfter), ceilMs(d.ResetAfter), ceilMs(rate.NextAfter(d))
	fields[7], fields[8], fields[9] = 0, 0, 0
	if d.Allowed {
		fields[0], fields[7] = 0, cost
	}
	c.Integers = c.integers[:fieldsOfLimit]
}

// ceilMs turns ns into ms, rounded up; stack.Never stays itself.
func ceilMs(ns int64) int64 {
	if ns <= 0 {
		return ns
	}
	return (ns-1)/1_000_000 + 1
}
