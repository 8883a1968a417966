package naive

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Leases is a key with leases: who holds one, and who waits. The zero value is a key that does not exist.
type Leases struct {
	// endsMs is when the lease of each id lapses, in ms since the epoch. One that has lapsed stays until it
	// is removed: a clock that is set back finds it again.
	endsMs map[string]int64
	// line is the callers that wait, waiters what they wait for, and lineSlots how many slots they are let in by.
	line      Turns
	waiters   map[uint64]Waiter
	lineSlots int64
}

// Waiter is a caller of CL.LEASE that waits.
type Waiter struct {
	Turn
	ID           string
	TTL, Timeout time.Duration // Timeout is 0 for as long as it takes
}

// removedAtOnce is how many leases that have lapsed a call removes when it takes a slot.
const removedAtOnce = 16

// Clone is a copy that has a life of its own.
func (l *Leases) Clone() *Leases {
	return &Leases{endsMs: maps.Clone(l.endsMs), line: l.line.Clone(), waiters: maps.Clone(l.waiters), lineSlots: l.lineSlots}
}

// String tells all that is kept: two models with the same string go on alike.
func (l *Leases) String() string { return l.stored() + l.showLine() }

func (l *Leases) stored() (s string) {
	for _, id := range l.ids() {
		s += fmt.Sprint(id, " until ", l.endsMs[id], " ")
	}
	return s
}

func (l *Leases) showLine() string {
	if l.line.Len() == 0 {
		return ""
	}
	return fmt.Sprint(&l.line, " for one of ", l.lineSlots)
}

// ids returns all ids, soonest to lapse first.
func (l *Leases) ids() []string {
	return slices.SortedFunc(maps.Keys(l.endsMs), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.endsMs[a], l.endsMs[b]), cmp.Compare(a, b))
	})
}

// ExpiresMs is when the key expires, in ms since the epoch; -2 for one that does not exist.
func (l *Leases) ExpiresMs(nowNs int64) int64 {
	l.look(nowNs)
	if len(l.endsMs) == 0 {
		return -2
	}
	return l.lastMs()
}

func (l *Leases) lastMs() int64 { return slices.Max(slices.Collect(maps.Values(l.endsMs))) }

// look is what any command does first: a key whose last lease is over is dropped by the server, in the
// millisecond after.
func (l *Leases) look(nowNs int64) {
	if len(l.endsMs) > 0 && l.lastMs() < nowNs/millisecond {
		l.endsMs = nil
	}
}

// Stored is what ZRANGE shows, and how many of it have lapsed.
func (l *Leases) Stored(nowNs int64) (s string, lapsed int) {
	l.look(nowNs)
	return l.stored(), len(l.endsMs) - len(l.held(nowNs))
}

// UntilLapse is how long it takes until the first lease lapses, in ns; 0 when nobody holds any.
func (l *Leases) UntilLapse(nowNs int64) int64 {
	held := l.held(nowNs)
	if len(held) == 0 {
		return 0
	}
	return l.endsMs[held[0]]*millisecond - nowNs
}

// lapsed says whether a lease that lapses at an instant is over.
func lapsed(endMs, nowNs int64) bool { return endMs*millisecond <= nowNs }

func (l *Leases) holds(nowNs int64, id string) bool {
	endMs, ok := l.endsMs[id]
	return ok && !lapsed(endMs, nowNs)
}

// held returns the ids with a lease, soonest to lapse first.
func (l *Leases) held(nowNs int64) []string {
	return slices.DeleteFunc(l.ids(), func(id string) bool { return !l.holds(nowNs, id) })
}

// LeaseReply are the fields of CL.LEASE and CL.RENEW.
type LeaseReply struct {
	Limited, Limit, Remaining, RetryAfterMs, LeaseMs, WaitMs int64
}

// Fields are the six numbers, in their order.
func (r LeaseReply) Fields() [6]int64 {
	return [6]int64{r.Limited, r.Limit, r.Remaining, r.RetryAfterMs, r.LeaseMs, r.WaitMs}
}

// Lease is CL.LEASE without TIMEOUT.
func (l *Leases) Lease(nowNs, slots int64, ttl time.Duration, id string) LeaseReply {
	l.look(nowNs)
	l.lineSlots = slots
	ahead := l.line.Ahead(Turn{})
	if reply, ok := l.take(nowNs, slots, ahead, l.waiting(), ttl, id); ok {
		return reply
	}
	return l.limited(nowNs, slots, ahead)
}

// take takes a slot behind ahead others that wait, or renews the lease that the id has. What remains does not count
// slots that any of those wait for whom the call looks at.
func (l *Leases) take(nowNs, slots, ahead, looksAt int64, ttl time.Duration, id string) (reply LeaseReply, ok bool) {
	if !l.holds(nowNs, id) && l.free(nowNs, slots, ahead) == 0 {
		return reply, false
	}
	ids := l.ids()
	for i, other := range ids {
		if i < removedAtOnce && !l.holds(nowNs, other) {
			delete(l.endsMs, other)
		}
	}
	leaseMs := l.put(nowNs, ttl, id)
	return LeaseReply{Limit: slots, Remaining: l.free(nowNs, slots, looksAt), RetryAfterMs: -1, LeaseMs: leaseMs}, true
}

// put makes the lease of an id last for so long from now on, up to a whole ms.
func (l *Leases) put(nowNs int64, ttl time.Duration, id string) (leaseMs int64) {
	endMs := n(nowNs).plus(n(int64(ttl))).overUp(n(millisecond)).Int64()
	if l.endsMs == nil {
		l.endsMs = map[string]int64{}
	}
	l.endsMs[id] = endMs
	return n(endMs).times(n(millisecond)).minus(n(nowNs)).over(n(millisecond)).Int64()
}

// free returns how many of slots nobody holds, and none of others callers waits for.
func (l *Leases) free(nowNs, slots, others int64) int64 {
	return max(slots-int64(len(l.held(nowNs)))-others, 0)
}

func (l *Leases) limited(nowNs, slots, others int64) LeaseReply {
	reply := LeaseReply{Limited: 1, Limit: slots, Remaining: l.free(nowNs, slots, others)}
	held := l.held(nowNs)
	switch {
	case slots == 0:
		reply.RetryAfterMs = -1 // no wait helps
	case reply.Remaining == 0 && len(held) == 0:
		reply.RetryAfterMs = 1 // the callers in line are about to get the slots
	case reply.Remaining == 0:
		reply.RetryAfterMs = n(l.endsMs[held[0]]).times(n(millisecond)).minus(n(nowNs)).overUp(n(millisecond)).Int64()
	}
	return reply
}

// Renew is CL.RENEW.
func (l *Leases) Renew(nowNs int64, ttl time.Duration, id string) LeaseReply {
	l.look(nowNs)
	reply := LeaseReply{Limit: -1, Remaining: -1, RetryAfterMs: -1}
	if !l.holds(nowNs, id) {
		reply.Limited = 1
		return reply
	}
	reply.LeaseMs = l.put(nowNs, ttl, id)
	return reply
}

// Release is CL.RELEASE. It answers how many of the ids held a lease.
func (l *Leases) Release(nowNs int64, ids ...string) (released int64) {
	l.look(nowNs)
	for _, id := range ids {
		if l.holds(nowNs, id) {
			delete(l.endsMs, id)
			released++
		}
	}
	if released > 0 && len(l.held(nowNs)) == 0 {
		l.endsMs = nil
	}
	return released
}

// Holder is who holds a lease, and for how long yet.
type Holder struct {
	ID      string
	LeaseMs int64
}

// List is CL.LEASES.
func (l *Leases) List(nowNs int64, count int) (held, waiting int64, holders []Holder) {
	l.look(nowNs)
	ids := l.held(nowNs)
	for _, id := range ids[:min(count, len(ids))] {
		holders = append(holders, Holder{id, n(l.endsMs[id]).times(n(millisecond)).minus(n(nowNs)).over(n(millisecond)).Int64()})
	}
	return int64(len(ids)), l.waiting(), holders
}

// waiting is how many callers wait.
func (l *Leases) waiting() int64 { return int64(l.line.Len()) }

// Arrive is a CL.LEASE with TIMEOUT. It is answered at once, or else in line.
func (l *Leases) Arrive(nowNs, slots int64, w Waiter) (reply LeaseReply, answered bool) {
	l.look(nowNs)
	l.lineSlots = slots
	if reply, answered = l.take(nowNs, slots, l.line.Ahead(w.Turn), l.waiting(), w.TTL, w.ID); answered {
		return reply, true
	}
	l.line.Join(w.Turn)
	if l.waiters == nil {
		l.waiters = map[uint64]Waiter{}
	}
	l.waiters[w.Caller] = w
	return reply, false
}

// Waits says whether a caller is in line.
func (l *Leases) Waits(caller uint64) bool { _, ok := l.waiters[caller]; return ok }

// LetIn lets a caller in line in, if it is its turn and there is a slot.
func (l *Leases) LetIn(nowNs int64, caller uint64) (reply LeaseReply, ok bool) {
	l.look(nowNs)
	if first, _ := l.line.First(); first.Caller != caller || l.free(nowNs, l.lineSlots, 0) == 0 {
		return reply, false
	}
	w := l.waiters[caller]
	reply, _ = l.take(nowNs, l.lineSlots, 0, 0, w.TTL, w.ID)
	l.line.LetIn()
	delete(l.waiters, caller)
	return reply, true
}

// TimesOut is a caller that leaves the line because its time is over, and what it is told. TIMEOUT goes by the
// monotonic clock, which the model does not know: it only knows that there is one.
func (l *Leases) TimesOut(nowNs int64, caller uint64) (reply LeaseReply, ok bool) {
	l.look(nowNs)
	if l.waiters[caller].Timeout == 0 {
		return reply, false
	}
	l.Leave(nowNs, caller)
	return l.limited(nowNs, l.lineSlots, 0), true
}

// Leave is a caller that leaves the line.
func (l *Leases) Leave(nowNs int64, caller uint64) {
	l.look(nowNs)
	l.line.Drop(caller)
	delete(l.waiters, caller)
}

// Haunted is the same line, with the leases of another key, which nobody sees because they have lapsed.
func (l *Leases) Haunted(by *Leases) *Leases {
	c := l.Clone()
	c.endsMs = maps.Clone(by.endsMs)
	return c
}

// InLine returns the callers that wait.
func (l *Leases) InLine() []Turn { return l.line.All() }

// LineEnds is the end of the line without anybody being let in, as when a server dies.
func (l *Leases) LineEnds() { l.line, l.waiters = Turns{}, nil }
