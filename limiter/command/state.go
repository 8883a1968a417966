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
		k.expire(max(fullAt, uint64(nowNs)+1), nowNs)
		if keepsCalendar {
			k.ExpireNoEarlier, k.ExpireSlackMs = true, 0
		}
	case k.Kind != Absent:
		k.Effect = Delete
	}
}

// storeTAT makes tat the key's value.
func (c *Call) storeTAT(tat uint64) {
	c.First.Effect = Set
	c.First.NewValue = stack.AppendTAT(c.First.Room, tat)
	c.First.expire(tat, c.NowNs)
}

// storeLone is store after TakeLone.
func (c *Call) storeLone() {
	k, fullAt := c.First, c.stack.LoneUntil()
	if fullAt > uint64(c.NowNs) {
		k.Effect = Set
		k.NewValue = c.stack.AppendLone(k.Room)
		k.expire(fullAt, c.NowNs)
	} else if k.Kind != Absent {
		k.Effect = Delete
	}
}

// expire lets the key expire when its limits are full, at fullAt. A key in use is called again before that, and would
// need a later expiry each time. So its expiry may be later.
func (k *Key) expire(fullAt uint64, nowNs int64) {
	k.ExpireAtMs = expireAtMs(fullAt)
	k.ExpireSlackMs = slackMs(k.ExpireAtMs, nowNs)
}

// expireAtMs is when limits are full that are at fullAt, rounded up to a whole second.
func expireAtMs(fullAt uint64) int64 { return int64((fullAt-1)/nsPerSecond+1) * 1000 }

// longestSlackMs is how much later than at its instant a key expires at most.
const longestSlackMs = 3_600_000

// slackMs is how much later than expireAtMs a key in use may expire, in whole seconds: a quarter of the time until
// then, so that it stays no more than a quarter longer than it has to.
func slackMs(expireAtMs, nowNs int64) int64 {
	return min((expireAtMs/1000-nowNs/nsPerSecond)/4*1000, longestSlackMs)
}
