package command

import "redis-throttle/limiter/stack"

// How keys are read and written.

const nsPerSecond = 1_000_000_000

const (
	wrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	wrongValue = "WRONGTYPE The string at this key is not the state of a rate limiter"
)

// decodeStack reads the key into c.stack, whose limits are there. When the key holds
// anything but a limiter's state the call has failed and ok is false.
func (c *Call) decodeStack() (ok bool) {
	if problem := c.First.decode(&c.stack); problem != "" {
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
	case k.Kind > String:
		return wrongType
	case k.nothingKept():
		return ""
	case s.Decode(k.state()) != nil:
		return wrongValue
	}
	return ""
}

// store writes c.stack to the key, or removes the key when all its limits are full.
func (c *Call) store(changed bool) {
	if changed {
		c.First.store(&c.stack, c.NowNs)
	}
}

// store writes a stack to the key, or removes the key when all its limits are full.
func (k *Key) store(s *stack.Stack, nowNs int64) {
	if k.banned(nowNs) {
		k.storeBehind(k.banUntil, s, nowNs)
		return
	}
	fullAt, keepsCalendar := s.ExpireAt(nowNs), s.KeepsCalendar()
	switch {
	case fullAt > uint64(nowNs) || keepsCalendar:
		k.Effect = Set
		k.NewValue = s.Append(k.Room)
		k.ExpireAtMs, k.ExpireNoEarlier = expireAtMs(max(fullAt, uint64(nowNs)+1)), keepsCalendar
	case k.Kind != Absent:
		k.Effect = Delete
	}
}

// storeTAT makes tat the key's value, to live until its bucket is full again.
func (c *Call) storeTAT(tat uint64) {
	c.First.Effect = Set
	c.First.NewValue = stack.AppendTAT(c.First.Room, tat)
	c.First.ExpireAtMs = expireAtMs(tat)
}

// expireAtMs is when a key expires whose limits are full at fullAt: rounded up to a
// whole second, so that a key in use rarely has to have its expiry changed.
func expireAtMs(fullAt uint64) int64 { return int64((fullAt-1)/nsPerSecond+1) * 1000 }
