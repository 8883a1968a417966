package command

import (
	"encoding/binary"
	"math"

	"redis-throttle/stack"
)

// CL.BAN key duration
//
// Bans a key for a time: until then every decision on it is limited. A ban that is there is
// never shortened; 0 lifts it. What is kept of limits stays. Replies with the rest of the ban
// in ms, 0 when there is none.
var Ban = register(&Command{
	Name:       "CL.BAN",
	Summary:    "Bans a key for a time, during which every decision on it is limited, or lifts the ban.",
	Complexity: "O(1)",
	Since:      "0.2.0",
	Flags:      "write fast",
	Keys:       OneKey,
	Args:       []Arg{keyArg, {Name: "duration", Type: ArgString}},
	Run:        runBan,
})

const badBanDuration = "ERR duration must be a length of time from 0 to 100 years, such as 500ms, 10, 1m, 1h or 1d"

// A ban stands in front of the state, which it leaves as it is:
//
//	offset  size  content
//	0       1     2, which neither a digit nor the version of an encoding is
//	1       8     the instant at which the ban ends, ns since the Unix epoch, little-endian, 1 to 2^63 - 1
//	9       ...   the state; nothing when all limits are full
const (
	banMark = 2
	banLen  = 9
)

// openBans divides the values of the call's keys into a ban and the state behind it.
func (c *Call) openBans() {
	if len(c.Keys) == 0 && c.Key != nil {
		c.openBan()
	}
	for i := range c.Keys {
		c.Keys[i].openBan()
	}
}

func (k *Key) openBan() {
	k.banUntil = 0
	if k.Kind != String || len(k.Value) < banLen || k.Value[0] != banMark {
		return
	}
	until := binary.LittleEndian.Uint64(k.Value[1:])
	if until < 1 || until > math.MaxInt64 {
		return
	}
	k.banUntil, k.Value = int64(until), k.Value[banLen:]
}

// nothingKept reports whether there is a ban, over or not, with all limits behind it full.
func (c *Call) nothingKept() bool { return c.banUntil > 0 && len(c.Value) == 0 }

// banned reports whether a ban is in force.
func (c *Call) banned() bool { return c.banUntil > c.NowNs }

// storeBan writes a ban and the state behind it, of which nothing counts from fullAt on.
func (c *Call) storeBan(until int64, state []byte, fullAt uint64) {
	c.Effect = Set
	value := binary.LittleEndian.AppendUint64(append(c.value[:0], banMark), uint64(until))
	c.NewValue = append(value, state...)
	c.ExpireAtMs = expireAtMs(max(uint64(until), fullAt))
}

// stackState is the encoding of c.stack where storeBan puts it, or nothing when all its limits are
// full.
func (c *Call) stackState(fullAt uint64) []byte {
	if fullAt <= uint64(c.NowNs) {
		return nil
	}
	return c.stack.Append(c.value[banLen:banLen])
}

// ban bans the key for d ns from now, and keeps its state, or that of c.stack when changed.
func (c *Call) ban(d int64, changed bool) {
	if !changed {
		c.putBan(c.NowNs + d)
		return
	}
	fullAt := c.stack.ExpireAt()
	c.storeBan(c.NowNs+d, c.stackState(fullAt), fullAt)
}

// putBan bans the key until an instant and leaves the rest as it is. What is kept may be of other
// limits than the call's, so the key lives at least as long as before.
func (c *Call) putBan(until int64) {
	state := c.Value
	if c.Kind == Absent {
		state = nil
	}
	c.storeBan(until, state, 0)
	c.ExpireNoEarlier = true
	c.banUntil = until
}

// banAnew lets a ban that is in force begin again: for d ns, but never for less than is left.
func (c *Call) banAnew(d int64) {
	if c.NowNs+d <= c.banUntil || !c.decodeStack() {
		return
	}
	c.putBan(c.NowNs + d)
}

// describeBan answers a decision on a key that is banned, and that was charged granted units all
// the same.
func (c *Call) describeBan(granted int64) {
	restNs := c.banUntil - c.NowNs
	c.describe(&stack.Result{Limited: true, Rule: -1, Limit: c.stack.FirstCapacity(), RetryAfterNs: restNs, ResetAfterNs: restNs, NextAfterNs: restNs, Granted: granted})
}

func runBan(c *Call) {
	if c.ArgCount != 2 {
		c.Reply = ReplyWrongArity
		return
	}
	d, err := parseDuration(c.Args[1])
	if err != nil || d < 0 {
		c.Fail(badBanDuration)
		return
	}
	c.stack.Reset()
	if !c.decodeStack() {
		return
	}
	if d == 0 {
		c.liftBan()
	} else if until := c.NowNs + d; until > c.banUntil {
		c.putBan(until)
	}
	c.integers[0] = ceilMs(max(c.banUntil-c.NowNs, 0))
	c.Integers = c.integers[:1]
	c.Reply = ReplyInteger
}

// liftBan leaves what is behind the ban.
func (c *Call) liftBan() {
	switch {
	case c.banUntil == 0:
		return
	case len(c.Value) == 0:
		c.Effect = Delete
	default:
		c.Effect = Set
		c.NewValue = append(c.value[:0], c.Value...)
		c.ExpireAtMs = 0
	}
	c.banUntil = 0
}
