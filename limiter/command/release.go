package command

import (
	"bytes"

	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/lease"
)

// CL.RELEASE key ID id [id ...]
//
// Ends leases. Replies with how many of them were held; unknown and lapsed ones do not count.
var Release = register(&Command{
	Name:        "CL.RELEASE",
	Summary:     "Ends leases, so that other callers can have their slots.",
	Complexity:  "O(M log N) where M is the number of ids, at most 94, and N the number of leases.",
	Since:       words.V020,
	Flags:       "write fast",
	Keys:        OneKey,
	OnSortedSet: true,
	MaxMembers:  maxReleased,
	Required:    "ID...",
	Run:         release,
})

// maxReleased is the number of ids in the longest call that is read.
const maxReleased = MaxArgs - 2

func release(c *Call) {
	if _, ok := c.read(); !ok {
		return
	}
	ids := c.Args[c.First.Members.NamesAt:]
	l, ok := c.leases()
	if !ok {
		return
	}
	m := c.First.Members
	released := int64(0)
	for i, score := range m.Named {
		if end := leaseEnd(score); end == 0 || lease.Lapsed(end, c.NowNs) || namedBefore(ids, m.Named, i) {
			continue
		}
		m.Remove[i] = true
		released++
	}
	if released > 0 {
		c.First.release(released, l.Held)
	}
	c.integers[0] = released
	c.Integers = c.integers[:1]
	c.Reply = ReplyInteger
}

// release ends released of the held leases: those of the members to be removed.
func (k *Key) release(released, held int64) {
	m := k.Members
	k.Effect = ChangeMembers
	m.Event, m.Released = Released, released
	if released == held { // what has lapsed goes, too
		k.Effect, m.Found = Delete, m.Lapsed
	}
}

// namedBefore reports whether id i is one of those before it.
func namedBefore(ids [][]byte, scores []float64, i int) bool {
	for j := range i {
		if scores[j] == scores[i] && bytes.Equal(ids[j], ids[i]) {
			return true
		}
	}
	return false
}
