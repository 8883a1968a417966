package embedded

import (
	"math"
	"slices"
	"strings"

	"redis-throttle/limiter/command"
)

// Key is what a server holds at one key: nothing, a string, the leases of a sorted set or anything else, and when it
// expires. The zero value is a key that does not exist. What the slices hold is never written to, so a copy of a Key is
// a key of its own.
type Key struct {
	Value      []byte  // of a string; nil if the key holds none
	Leases     []Lease // of a sorted set, by score, then by id; nil if the key holds none
	Other      bool    // of a Store: the key holds a value of another type, which calls refuse
	ExpireAtMs int64   // ms since the Unix epoch; 0 never expires
}

// Lease is a member of a sorted set. Its score is the instant at which it lapses, in ms since the Unix epoch.
type Lease struct {
	ID    string
	Score float64
}

// Exists reports whether the key holds anything.
func (k *Key) Exists() bool { return k.Value != nil || k.Leases != nil || k.Other }

// Expire deletes the key if its time is over at nowNs, as a server does when it looks a key up. In the very ms of its
// expiry a key still exists.
func (k *Key) Expire(nowNs int64) {
	if k.ExpireAtMs > 0 && k.ExpireAtMs < nowNs/nsPerMs {
		k.remove()
	}
}

func (k *Key) remove() { *k = Key{} }

// show gives a call its view of the key.
func (k *Key) show(to *command.Key) {
	*to = command.Key{}
	switch {
	case k.Value != nil:
		to.Kind, to.Value = command.String, k.Value
	case k.Leases != nil, k.Other:
		to.Kind = command.Other // showLeases knows better, for commands on sorted sets
	}
}

// showLeases gives a call on a sorted set its view of the leases, and of those whose ids it names.
func (k *Key) showLeases(to *command.Key, m *command.Members, nowNs int64, ids [][]byte) {
	nowMs := float64(nowNs / nsPerMs)
	lapsed := k.above(nowMs)
	lowest := min(lapsed, command.MaxLowest)
	m.Reset(int64(len(k.Leases)), int64(lapsed), lowest, len(ids))
	for i := range lowest {
		m.Lowest[i] = k.Leases[i].Score
	}
	m.Next = math.NaN()
	if lapsed < len(k.Leases) {
		m.Next = k.Leases[lapsed].Score
	}
	m.Beyond = k.above(nowMs+command.FurthestMs) < len(k.Leases)
	for i, id := range ids {
		m.Named[i] = k.Score(string(id))
	}
	m.NextOther, m.LastOther = math.NaN(), math.NaN()
	for i, l := range k.Leases {
		if len(ids) > 0 && l.ID == string(ids[0]) {
			continue
		}
		if i >= lapsed && math.IsNaN(m.NextOther) {
			m.NextOther = l.Score
		}
		m.LastOther = l.Score
	}
	if k.Leases != nil {
		to.Kind = command.SortedSet
	}
}

// above returns the index of the first lease whose score is above score.
func (k *Key) above(score float64) int {
	i, _ := slices.BinarySearchFunc(k.Leases, score, func(l Lease, score float64) int {
		if l.Score <= score {
			return -1
		}
		return 1
	})
	return i
}

// Score returns that of id, and NaN if the key holds no such lease.
func (k *Key) Score(id string) float64 {
	if i := k.find(id); i >= 0 {
		return k.Leases[i].Score
	}
	return math.NaN()
}

func (k *Key) find(id string) int {
	return slices.IndexFunc(k.Leases, func(l Lease) bool { return l.ID == id })
}

// apply changes the key as a decision says.
func (k *Key) apply(c *command.Key) {
	switch c.Effect {
	case command.Set:
		switch {
		case c.ExpireAtMs == 0:
		case c.ExpireNoEarlier && k.Exists():
			if k.ExpireAtMs > 0 { // a key that never expires stays so
				k.ExpireAtMs = max(k.ExpireAtMs, c.ExpireAtMs)
			}
		case !k.Exists():
			k.ExpireAtMs = c.ExpireAtMs
		case k.ExpireAtMs < c.ExpireAtMs || k.ExpireAtMs > c.ExpireAtMs+c.ExpireSlackMs:
			k.ExpireAtMs = c.ExpireAtMs + c.ExpireSlackMs
		}
		k.Value = slices.Clone(c.NewValue)
	case command.Delete:
		k.remove()
	}
}

// applyLeases changes the leases as a decision says. A set expires with its last member, and one that is empty is gone.
func (k *Key) applyLeases(m *command.Members, ids [][]byte) {
	removed := k.Leases[:m.RemoveLowest]
	k.Leases = slices.Clone(k.Leases)
	if m.Add {
		k.add(Lease{string(ids[0]), m.AddScore})
	}
	for _, l := range removed {
		if !m.Add || l.ID != string(ids[0]) {
			k.drop(l.ID)
		}
	}
	for i, remove := range m.Remove {
		if remove {
			k.drop(string(ids[i]))
		}
	}
	if len(k.Leases) == 0 {
		k.remove()
		return
	}
	k.ExpireAtMs = int64(k.Leases[len(k.Leases)-1].Score)
}

func (k *Key) add(l Lease) {
	k.drop(l.ID)
	i, _ := slices.BinarySearchFunc(k.Leases, l, compare)
	k.Leases = slices.Insert(k.Leases, i, l)
}

func (k *Key) drop(id string) {
	if i := k.find(id); i >= 0 {
		k.Leases = slices.Delete(k.Leases, i, i+1)
	}
}

// compare is the order of a sorted set: by score, then by id.
func compare(a, b Lease) int {
	switch {
	case a.Score < b.Score:
		return -1
	case a.Score > b.Score:
		return 1
	}
	return strings.Compare(a.ID, b.ID)
}

const nsPerMs = 1_000_000
