package command

import "redis-throttle/stack"

const nsPerSecond = 1_000_000_000

const (
	wrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	wrongValue = "WRONGTYPE The string at this key is not the state of a rate limiter"
)

// storeTAT makes tat the key's value, to live until its bucket is full again.
func (c *Call) storeTAT(tat uint64) {
	c.Effect = Set
	c.NewValue = stack.AppendTAT(c.value[:0], tat)
	c.ExpireAtMs = expireAtMs(tat)
}

// expireAtMs is when a key expires whose limits are full at fullAt: rounded up to a
// whole second, so that a key in use rarely has to have its expiry changed.
func expireAtMs(fullAt uint64) int64 { return int64((fullAt-1)/nsPerSecond+1) * 1000 }
