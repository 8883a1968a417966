package command

import (
	"math"

	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/lease"
	"redis-throttle/limiter/line"
)

// CL.LEASE key SLOTS n TTL duration ID id [TIMEOUT duration [GROUP group [WEIGHT weight]] [PRIORITY priority]]
// [COMPACT]
//
// Takes one of n slots until it is released, for duration at most, or renews the slot that id holds. With
// TIMEOUT callers wait: the higher priority first, groups of a priority in turn and by weight, those of a group in
// order of arrival. A TIMEOUT of 0 waits as long as it takes. In MULTI and in scripts, where a client cannot be
// blocked, it answers at once.
var Lease = register(&Command{
	Name:        "CL.LEASE",
	Summary:     "Takes one of n slots for some time, or renews the slot that the id already holds.",
	Complexity:  "O(log N) where N is the number of leases. A call also removes up to 16 lapsed leases.",
	Since:       words.V020,
	Flags:       "write deny-oom",
	Keys:        OneKey,
	Decides:     true,
	Blocks:      true,
	Lines:       true,
	OnSortedSet: true,
	MaxMembers:  1,
	Required:    "SLOTS TTL ID",
	Fields:      leaseFields,
	Run:         takeLease,
})

// leaseFields are the names in a reply of CL.LEASE and CL.RENEW. New ones come at the end.
var leaseFields = []string{"limited", "limit", "remaining", "retry_after_ms", "lease_ms", "wait_ms"}

const fieldRemaining = 2

const wrongSet = "WRONGTYPE The sorted set at this key does not hold leases: a score is not the time in ms at which a lease lapses"

// leases returns the leases of the only key. If the key holds anything else, the call has failed and ok is false.
func (c *Call) leases() (l lease.Leases, ok bool) {
	problem := c.First.leases(&l, c.NowNs)
	if problem != "" {
		c.Fail(problem)
	}
	return l, problem == ""
}

// leases fills in l. OwnMs belongs to the first member that is named. problem is the error if the key
// holds anything else.
func (k *Key) leases(l *lease.Leases, nowNs int64) (problem string) {
	*l = lease.Leases{NowNs: nowNs, Ahead: k.Ahead}
	switch k.Kind {
	case Absent:
		return ""
	case String, Other:
		return wrongType
	}
	m := k.Members
	l.Held = m.Count - m.Lapsed
	ok := !m.Beyond && isInstant(m.Next, l.NowNs)
	for _, score := range m.Lowest {
		ok = ok && isInstant(score, l.NowNs)
	}
	for _, score := range m.Named {
		ok = ok && isInstant(score, l.NowNs)
	}
	if !ok {
		return wrongSet
	}
	l.NextMs = leaseEnd(m.Next)
	if len(m.Named) > 0 {
		l.OwnMs = leaseEnd(m.Named[0])
	}
	return ""
}

// leasesOfMany is leases of one of several keys.
func (k *Key) leasesOfMany(l *lease.Leases, nowNs int64) (problem string) {
	problem = k.leases(l, nowNs)
	if problem == "" && k.Kind == SortedSet {
		l.NextOtherMs, l.LastOtherMs = leaseEnd(k.Members.NextOther), leaseEnd(k.Members.LastOther)
	}
	return problem
}

// isInstant reports whether score is that of a lease, or of a member that is not there.
func isInstant(score float64, nowNs int64) bool {
	_, ok := lease.Instant(score, nowNs)
	return ok || math.IsNaN(score)
}

// leaseEnd is when the lease with a score lapses, which is an instant; 0 when there is none.
func leaseEnd(score float64) int64 {
	if math.IsNaN(score) {
		return 0
	}
	return int64(score)
}

func takeLease(c *Call) {
	r, ok := c.read()
	if !ok {
		return
	}
	l, ok := c.leases()
	if !ok {
		return
	}
	slots := r.Slots
	if c.Turn != Arriving && c.First.LineSlots != NoSlots {
		slots = c.First.LineSlots
	}
	c.First.ToldSlots = slots
	if c.First.Ahead > 0 {
		c.First.countAhead(&l, slots, c.place(r))
	}
	if c.Turn == Leaving {
		c.describeLease(l.Limited(slots))
		return
	}
	result := l.Take(slots, r.TTLNs)
	if result.Limited && r.Waits && c.mayWait() {
		lookNs := int64(math.MaxInt64)
		if l.NextMs > 0 {
			lookNs = l.UntilNextNs()
		}
		c.waitInTurn(lookNs, r)
		return
	}
	if !result.Limited {
		c.First.storeSlot(result)
	}
	c.describeLease(result)
	if c.First.Members.Unread {
		c.describeIfThere(result)
	}
}

// describeIfThere completes the answer to a call that gets a slot in any case: when id holds one, it is renewed
// and no further one is taken.
func (c *Call) describeIfThere(r lease.Result) {
	if r.Limited {
		panic("a lease was not looked up, and no slot is free")
	}
	there := &c.First.Members.IfThere
	there.Event, there.Field, there.Integer = Renewed, fieldRemaining, r.Remaining+1
}

// waitInTurn lets the caller wait in line: to be decided again in lookNs, unless something happens
// before, and to be sent away when its TIMEOUT is over.
func (c *Call) waitInTurn(lookNs int64, r *words.Request) {
	c.Reply = ReplyInTurn
	c.LookNs, c.TimeoutMs = lookNs, ceilMs(r.TimeoutNs)
	c.Priority, c.Weight, c.GroupAt = r.Priority, r.Weight, r.GroupAt
}

// place is where the caller would stand in line.
func (c *Call) place(r *words.Request) (at line.Place) {
	at.Priority, at.Weight = r.Priority, r.Weight
	if r.GroupAt > 0 {
		at.Group = c.Args[r.GroupAt]
	}
	return at
}

// countAhead sets l.Ahead and l.Behind for a call at this place that asks for one of slots.
func (k *Key) countAhead(l *lease.Leases, slots int64, at line.Place) {
	l.Ahead = k.comeBefore(at, slots-l.Held)
	l.Behind = k.Ahead - l.Ahead
}

// comeBefore returns how many of those in line would be let in before a call at a place. It counts up to most.
func (k *Key) comeBefore(at line.Place, most int64) int64 {
	if k.Line == (line.View{}) {
		return k.Ahead
	}
	return k.Line.Ahead(at, most)
}

// storeLease writes the lease of the member that is named.
func (k *Key) storeLease(r lease.Result) {
	k.Effect = ChangeMembers
	k.Members.Add, k.Members.AddScore = true, float64(r.LapsesAtMs)
}

// storeSlot writes the lease of the member that is named, and removes lapsed ones.
func (k *Key) storeSlot(r lease.Result) {
	m := k.Members
	k.storeLease(r)
	m.RemoveLowest, m.Found = len(m.Lowest), int64(len(m.Lowest))
	m.Event = eventOf(r)
}

func eventOf(r lease.Result) Event {
	switch {
	case r.Limited:
		return NotLeased
	case r.Renewed:
		return Renewed
	}
	return Leased
}

// describeLease answers with the fields of a result, in the order of leaseFields.
func (c *Call) describeLease(r lease.Result) {
	c.First.Members.Event = eventOf(r)
	limited := int64(0)
	if r.Limited {
		limited = 1
	}
	c.Integers = append(c.integers[:0], limited, r.Slots, r.Remaining, ceilMs(r.RetryAfterNs), r.LeaseMs, ceilMs(c.WaitedNs))
	c.Reply = ReplyFields
	if c.compact {
		c.Reply = ReplyIntegers
	}
}
