package command

import "strconv"

const nsPerSecond = 1_000_000_000

const (
	wrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	wrongValue = "WRONGTYPE The string at this key is not the state of a rate limiter"
)

// storedTAT reads the key as a TAT: ns since the Unix epoch in decimal digits,
// redis-cell's own format. An absent key is a bucket never used. When the key
// holds anything else the call has failed and ok is false.
func (c *Call) storedTAT() (tat uint64, ok bool) {
	switch c.Kind {
	case Absent:
		return 0, true
	case Other:
		c.Fail(wrongType)
		return 0, false
	}
	tat, ok = parseDigits(c.Value)
	if !ok || (c.Value[0] == '0' && len(c.Value) > 1) {
		c.Fail(wrongValue)
		return 0, false
	}
	return tat, true
}

// storeTAT makes tat the key's value, to live until its bucket is full again. The
// expiry is rounded up to a whole second, so that a key in use rarely has to have
// it changed.
func (c *Call) storeTAT(tat uint64) {
	c.Write = Set
	c.NewValue = strconv.AppendUint(c.value[:0], tat, 10)
	c.ExpireAtMs = int64((tat-1)/nsPerSecond+1) * 1000
}
