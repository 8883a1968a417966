package command

import (
	"encoding/binary"
	"math"

	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/stack"
)

// CL.BAN key duration
//
// Bans a key for some time: until the ban ends, every decision on the key is limited. A call never
// shortens an existing ban; 0 lifts it. The state of the limits stays. Replies with the rest of the
// ban in ms, 0 if there is none.
var Ban = register(&Command{
	Name:       "CL.BAN",
	Summary:    "Bans a key for some time, so that every call on it is limited, or lifts the ban.",
	Complexity: "O(1)",
	Since:      words.V020,
	Flags:      "write fast deny-oom",
	Keys:       OneKey,
	Args:       []words.Arg{{Name: "duration", Type: words.ArgString}},
	Run:        runBan,
})

const badBanDuration = "ERR duration must be a length of time from 0 to 100 years, such as 500ms, 30s, 1m, 1h or 1d"

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

// openBan reads the ban that a value seems to begin with.
//
//go:noinline
func (k *Key) openBan() {
	until := binary.LittleEndian.Uint64(k.Value[1:])
	if until < 1 || until > math.MaxInt64 {
		return
	}
	k.banUntil, k.behind = int64(until), banLen
}

// state is the value without the ban before it.
func (k *Key) state() []byte { return k.Value[k.behind:] }

// nothingKept reports whether there is a ban, over or not, with all limits behind it full.
func (k *Key) nothingKept() bool { return k.behind > 0 && len(k.Value) == banLen }

// banned reports whether a ban is in force.
func (k *Key) banned(nowNs int64) bool { return k.banUntil > nowNs }

// storeBan writes a ban, to which the state behind it is to be appended. Of that nothing counts from fullAt on.
func (k *Key) storeBan(until int64, fullAt uint64) {
	k.Effect = Set
	k.NewValue = binary.LittleEndian.AppendUint64(append(k.Room, banMark), uint64(until))
	k.ExpireAtMs, k.ExpireSlackMs = expireAtMs(max(uint64(until), fullAt)), 0
}

// storeBehind writes a ban and the state of a stack, or only the ban when all limits are full.
func (k *Key) storeBehind(until int64, s *stack.Stack, nowNs int64) {
	fullAt, keepsCalendar := s.ExpireAt(nowNs), s.KeepsCalendar()
	k.storeBan(until, fullAt)
	if fullAt > uint64(nowNs) || keepsCalendar {
		k.NewValue = s.Append(k.NewValue)
	}
	k.ExpireNoEarlier = keepsCalendar
}

// ban bans the key for d ns from now, and keeps its state, or that of s when changed.
func (k *Key) ban(d int64, s *stack.Stack, changed bool, nowNs int64) {
	if !changed {
		k.putBan(nowNs + d)
		return
	}
	k.storeBehind(nowNs+d, s, nowNs)
}

// bans reports whether a call that was denied bans its key, or counts the denial. One that can never succeed does
// neither.
func bans(r *words.Request, result *stack.Result) bool {
	return result.Limited && r.BanNs > 0 && result.RetryAfterNs != stack.Never
}

// banDenied bans the key for a call that was denied, or counts the denial where only the last of several bans. s is
// what the key is to hold, and changed says that the call changed it. It must not have been stored before: to store it
// without the count would forget the count, or another limit, on a key that is full.
func (k *Key) banDenied(r *words.Request, result *stack.Result, s *stack.Stack, changed bool, nowNs int64) {
	if r.After.Count > 0 {
		last, counted := s.CountDenial(r.After, nowNs)
		if !last {
			k.store(s, nowNs)
			return
		}
		changed = changed || counted
	}
	k.ban(r.BanNs, s, changed, nowNs)
	result.RetryAfterNs = max(result.RetryAfterNs, r.BanNs)
}

// putBan bans the key until an instant and leaves the rest as it is. What is kept may be of other
// limits than the call's, so the key lives at least as long as before.
func (k *Key) putBan(until int64) {
	k.storeBan(until, 0)
	if k.Kind != Absent {
		k.NewValue = append(k.NewValue, k.state()...)
	}
	k.ExpireNoEarlier = true
	k.banUntil = until
}

// banAnew lets a ban that is in force begin again: for d ns, but never for less than is left.
func (k *Key) banAnew(d, nowNs int64) {
	if nowNs+d > k.banUntil {
		k.putBan(nowNs + d)
	}
}

// describeBan answers a decision on a key that is banned, and that was charged granted units all
// the same. s is what the key holds. limitsNs is the time until the limits let the call through: a caller
// that came back when only the ban is over would be limited again, and perhaps banned anew.
func (c *Call) describeBan(k *Key, s *stack.Stack, limitsNs, granted int64) {
	restNs := k.banUntil - c.NowNs
	c.describe(&stack.Result{
		Limited: true, Rule: -1, Limit: s.FirstCapacity(), Granted: granted,
		RetryAfterNs: stack.Longer(restNs, limitsNs), ResetAfterNs: restNs, NextAfterNs: restNs,
	})
}

// describeOwnBan is describeBan of the call's only key, which was charged nothing.
func (c *Call) describeOwnBan(r *stack.Request) {
	c.describeBan(c.First, &c.stack, c.stack.RetryAfter(r, c.NowNs), 0)
}

func runBan(c *Call) {
	d, err := words.ParseDuration(c.Args[1])
	if err != nil {
		c.Fail(badBanDuration)
		if number := c.Args[1]; err == words.ErrNoUnit && len(number) <= words.MaxShown {
			c.Error = words.AppendNoUnit(append(c.error[:0], "ERR duration: "...), number)
		}
		return
	}
	c.stack.Reset()
	if !c.decodeStack() {
		return
	}
	if d == 0 {
		c.liftBan()
	} else if until := c.NowNs + d; until > c.First.banUntil {
		c.First.putBan(until)
	}
	c.integers[0] = ceilMs(max(c.First.banUntil-c.NowNs, 0))
	c.Integers = c.integers[:1]
	c.Reply = ReplyInteger
}

// liftBan removes the ban and keeps the state.
func (c *Call) liftBan() {
	switch {
	case c.First.banUntil == 0:
		return
	case c.First.nothingKept():
		c.First.Effect = Delete
	default:
		c.First.Effect = Set
		c.First.NewValue = append(c.First.Room, c.First.state()...)
		c.First.ExpireAtMs = 0
	}
	c.First.banUntil = 0
}
