package command

import (
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/stack"
)

// CL.MLIMIT numkeys key [key ...] group [NEXT group] ... [ANY] [COST n] [UPTO | STRICT | FORCE | MAXWAIT duration] [BAN
// duration [AFTER count/period]] [ID id] [COMPACT] [EACH]
//
// A group is one or more limits, or SLOTS n TTL duration.
//
// Charges the limits of up to eight keys, and takes a slot for id, atomically: all of them or none. With ANY it charges
// the first key that has room.
var MLimit = register(&Command{
	Name:        "CL.MLIMIT",
	Summary:     "Charges the limits of several keys, and takes slots, atomically: all of them or none, or only the first key that has room.",
	Complexity:  words.PerKeyAndLimit,
	Since:       words.V020,
	Later:       map[string]string{words.V030: "SLOTS TTL ID"},
	Flags:       "write fast deny-oom",
	Keys:        CountedKeys,
	Decides:     true,
	Lines:       true,
	OnSortedSet: true,
	MaxMembers:  1,
	Slots:       words.SlotsWithTTL,
	Fields:      mlimitFields,
	Run:         mlimit,
})

func mlimit(c *Call) {
	r, ok := c.parseMany()
	if !ok {
		return
	}
	if !c.decodeMany() {
		return
	}
	if r.Each {
		c.judge()
	}
	switch {
	case c.Many.slotGroups > 0:
		c.admit(r)
	case r.Any:
		c.limitOne(r)
	default:
		c.limitAll(r)
	}
}

// decodeMany reads the keys. When one holds anything but what its group is about, the call has failed and ok is false.
func (c *Call) decodeMany() (ok bool) {
	m := c.Many
	for i := range c.Keys {
		var problem string
		if m.slots[i].Is {
			problem = c.Keys[i].leasesOfMany(&m.leases[i], c.NowNs)
		} else {
			problem = c.Keys[i].decode(&m.stacks[i])
		}
		if problem != "" {
			c.Fail(problem)
			return false
		}
	}
	return true
}

// limitAll asks all keys.
func (c *Call) limitAll(r *words.Request) {
	m := c.Many
	longest := c.longestBan()
	banned := longest >= 0
	if banned && !r.Force {
		if r.Strict {
			c.Keys[longest].banAnew(r.BanNs, c.NowNs)
		}
		c.describeBanOf(longest, m.joint.RetryAfter(&r.Request, c.NowNs), 0)
		return
	}
	var result stack.Result
	m.joint.TakeTo(&result, &r.Request, c.NowNs)
	if banned { // what was used is a fact, and is kept behind the bans
		c.storeMany(noKey)
		c.describeBanOf(longest, m.joint.RetryAfter(&r.Request, c.NowNs), result.Granted)
		return
	}
	key := m.keyOf(result.Rule)
	if bans(r, &result) {
		c.storeMany(key)
		c.Keys[key].banDenied(r, &result, &m.stacks[key], m.joint.Changed(key), c.NowNs)
	} else {
		c.storeMany(noKey)
	}
	c.describeKey(&result, key)
}

// limitOne asks the first key that has room, or else the one that has some soonest.
func (c *Call) limitOne(r *words.Request) {
	m := c.Many
	var closedNs [MaxKeys]int64
	for i := range c.Keys {
		closedNs[i] = max(c.Keys[i].banUntil-c.NowNs, 0)
	}
	key := m.joint.Choose(r.Request, &closedNs, c.NowNs)
	banned := closedNs[key] > 0
	if banned && !r.Force {
		c.describeBanOf(key, m.joint.RetryAfterAny(r.Request, &closedNs, c.NowNs), 0)
		return
	}
	result := m.joint.TakeOne(key, r.Request, c.NowNs)
	c.storeMany(noKey)
	if banned {
		c.describeBanOf(key, m.joint.RetryAfterAny(r.Request, &closedNs, c.NowNs), result.Granted)
		return
	}
	if result.Limited && r.Force { // the debt may have made another key the first that has room
		result.RetryAfterNs = m.joint.RetryAfterAny(r.Request, &closedNs, c.NowNs)
	}
	c.describeKey(&result, key)
}

// longestBan is the index of the key that is banned for the longest time, -1 when none is.
func (c *Call) longestBan() (index int) {
	index = -1
	until := c.NowNs
	for i := range c.Keys {
		if c.Keys[i].banUntil > until {
			index, until = i, c.Keys[i].banUntil
		}
	}
	return index
}

// noKey is the index of no key.
const noKey = -1

// storeMany writes the stacks that a decision changed to their keys, except for one key, which is stored otherwise.
func (c *Call) storeMany(except int) {
	m := c.Many
	for i := range m.joint.Len() {
		if key := m.joined[i]; key != except && m.joint.Changed(i) {
			c.Keys[key].store(&m.stacks[key], c.NowNs)
		}
	}
}

// keyOf is the index of the key that a limit belongs to, by its place in the row of all.
func (m *Many) keyOf(rule int) int { return m.joined[m.joint.Of(rule)] }

// describeKey answers with the fields of a result that a limit of the key decided.
func (c *Call) describeKey(r *stack.Result, key int) {
	c.describe(r)
	c.addKey(key)
	if !r.Limited && r.Shadow > 0 {
		c.TallyKey = c.Many.keyOf(r.Shadow - 1)
	}
}

func (c *Call) describeBanOf(key int, limitsNs, granted int64) {
	c.describeBan(&c.Keys[key], &c.Many.stacks[key], limitsNs, granted)
	c.addKey(key)
}

func (c *Call) addKey(key int) {
	c.integers[fieldKey] = int64(key) + 1
	c.Integers = c.integers[:fieldKey+1]
	c.TallyKey = key
}
