package command

import (
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/stack"
)

// CL.INSPECT key
//
// Tells what the key holds and until when, to somebody who does not know its limits. It writes nothing, so it also
// works on replicas. What calls bring with them, such as counts and bursts, is not stored.
var Inspect = register(&Command{
	Name:        "CL.INSPECT",
	Summary:     "Tells what a key holds and until when, without being told its limits.",
	Complexity:  "O(N + log M) where N is the number of limits, at most 8, and M the number of leases.",
	Since:       words.V050,
	Tips:        "nondeterministic_output",
	Flags:       "readonly",
	Keys:        OneKey,
	Lines:       true,
	OnSortedSet: true,
	SeesExpiry:  true,
	Fields: []string{
		"kind", "now_ms", "bytes", "expires_at_ms", "banned_until_ms", "held", "lapses_at_ms", "waiting", "limits",
		"kind", "period_ms", "used", "entries", "next_at_ms", "reset_at_ms", "queue_ms",
	},
	NestedAt: 8,
	Run:      inspect,
	Row:      inspectedRow,
})

// inspection is the reply to CL.INSPECT: what the key holds, then each of its limits.
type inspection struct {
	kind   []byte
	head   [7]int64
	limits [stack.MaxLimits]struct {
		kind []byte
		said [6]int64
	}
}

// What a key holds.
var (
	holdsNothing = []byte("none")
	holdsRate    = []byte("rate") // a number, as redis-cell stores it
	holdsLimits  = []byte("limits")
	holdsBan     = []byte("ban") // alone
	holdsLeases  = []byte("leases")
)

// The kinds of limits, in the words that stand for them.
var limitKinds = [...][]byte{
	stack.Rate: []byte("RATE"), stack.Window: []byte("WINDOW"), stack.Fixed: []byte("FIXED"), stack.First: []byte("FIRST"), stack.Denied: []byte("AFTER"),
}

func inspect(c *Call) {
	in, count := &c.stored, 0
	lapsesAtMs, held := int64(0), int64(0)
	switch c.First.Kind {
	case SortedSet:
		l, ok := c.leases()
		if !ok {
			return
		}
		in.kind, held, lapsesAtMs = holdsLeases, l.Held, l.NextMs
	default:
		c.stack.Reset()
		if !c.decodeStack() {
			return
		}
		in.kind = c.First.holds()
		count = c.inspectLimits(in)
	}
	in.head = [7]int64{c.NowNs / 1_000_000, int64(len(c.First.Value)), c.First.expiresAtMs(), msAt(uint64(c.First.banUntil)), held, lapsesAtMs, c.First.Ahead}
	c.RowCount = 1 + count
	c.Reply = ReplyNested
}

// holds says what a string holds that is the state of a limiter, or a key that is not there.
func (k *Key) holds() []byte {
	switch {
	case k.Kind == Absent:
		return holdsNothing
	case k.nothingKept():
		return holdsBan
	case stack.HoldsLimits(k.state()):
		return holdsLimits
	}
	return holdsRate
}

// inspectLimits fills in what the string holds of limits, and returns how many there are. A TAT of 0 is a rate, though
// nothing is kept of it.
func (c *Call) inspectLimits(in *inspection) (count int) {
	count = c.stack.Kept()
	for i := range count {
		l := c.stack.Stored(i, c.NowNs)
		to := &in.limits[i]
		to.kind = limitKinds[l.Kind]
		to.said = [6]int64{ceilMs(l.PeriodNs), l.Used, int64(l.Entries), stack.Unknown, stack.Unknown, ceilMs(l.QueueNs)}
		if l.KnowsNext {
			to.said[3] = msAt(l.NextAt)
		}
		if l.KnowsReset {
			to.said[4] = msAt(l.ResetAt)
		}
	}
	if count == 0 && c.First.Kind == String && !c.First.nothingKept() {
		in.limits[0].kind, in.limits[0].said = limitKinds[stack.Rate], [6]int64{stack.Unknown}
		return 1
	}
	return count
}

// expiresAtMs is when the key expires: 0 of one that is not there, and -1 of one that never does.
func (k *Key) expiresAtMs() int64 {
	if k.Kind != Absent && k.ExpireAtMs == 0 {
		return stack.Never
	}
	return k.ExpireAtMs
}

// msAt is the first whole ms since the Unix epoch that is not before an instant in ns, 0 of 0.
func msAt(ns uint64) int64 {
	if ns == 0 {
		return 0
	}
	return int64((ns-1)/1_000_000 + 1)
}

// inspectedRow is what the key holds, and then a limit each.
func inspectedRow(c *Call, index int) (text []byte, integers []int64) {
	in := &c.stored
	if index == 0 {
		return in.kind, in.head[:]
	}
	l := &in.limits[index-1]
	return l.kind, l.said[:]
}
