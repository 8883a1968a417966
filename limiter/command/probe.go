//go:build faultinject

package command

import (
	"math"

	"redis-throttle/limiter/command/words"
)

// The commands of this file exist in the test build only. They do what they are told to their keys,
// for the tests of what a call can carry.

// CL.PROBE numkeys key [key ...] value
//
// Sets every key to value, to expire in an hour, or deletes them all when value is "-". Replies with
// the number of keys that held a string.
var Probe = register(&Command{
	Name:       "CL.PROBE",
	Summary:    "Sets several keys, for tests.",
	Complexity: "O(N)",
	Since:      words.V020,
	Flags:      "write",
	Keys:       CountedKeys,
	Args:       []words.Arg{{Name: "value", Type: words.ArgString}},
	Run: func(c *Call) {
		if len(c.Keys) == 0 || len(c.Args) != len(c.Keys)+2 {
			c.Fail("ERR numkeys must be an integer from 1 to 8, and there must be as many keys")
			return
		}
		if !c.checkKeys() { // the bridge opens a key once
			return
		}
		value := c.Args[len(c.Args)-1]
		var strings int64
		for i := range c.Keys {
			key := &c.Keys[i]
			if key.Kind == String {
				strings++
			}
			switch {
			case key.Kind == Other:
				c.Fail(wrongType)
				return
			case string(value) != "-":
				key.Effect, key.NewValue, key.ExpireAtMs, key.ExpireSlackMs = Set, value, c.NowNs/1_000_000+3_600_000, 0
			case key.Kind == String:
				key.Effect = Delete
			}
		}
		c.integers[0] = strings
		c.Integers, c.Reply = c.integers[:1], ReplyInteger
	},
})

// CL.PROBEMEMBERS key ms drop MEMBERS name [name ...]
//
// Adds the first member to lapse at instant ms, and removes the others and the first drop of those that have
// lapsed. An ms of 0 removes the first, too. Replies with what it saw before: the number of members, of those that
// lapsed, the next instant, and those of up to two that are named; -1 for none.
var ProbeMembers = register(&Command{
	Name:       "CL.PROBEMEMBERS",
	Summary:    "Changes members of a sorted set, for tests.",
	Complexity: "O(N)",
	Since:      words.V020,
	Flags:      "write",
	Keys:       OneKey,

	OnSortedSet: true,
	NamesAt:     4,
	MaxMembers:  MaxArgs,

	Args: []words.Arg{{Name: "ms", Type: words.ArgInteger}, {Name: "drop", Type: words.ArgInteger}, {Name: "name", Type: words.ArgString, Token: "MEMBERS", Multiple: true}},
	Run: func(c *Call) {
		ms, ok := words.ParseInt(c.Args[1])
		drop, also := words.ParseInt(c.Args[2])
		m := c.First.Members
		if !ok || !also || len(m.Named) == 0 || c.First.Kind != Absent && c.First.Kind != SortedSet {
			c.Fail(wrongType)
			return
		}
		c.Integers = append(c.integers[:0], m.Count, int64(len(m.Lowest)), instant(m.Next))
		for _, score := range m.Named[:min(len(m.Named), 2)] {
			c.Integers = append(c.Integers, instant(score))
		}
		c.First.Effect = ChangeMembers
		m.RemoveLowest = min(int(drop), len(m.Lowest))
		for i := range m.Remove {
			m.Remove[i] = i > 0 || ms == 0
		}
		if ms > 0 {
			m.Add, m.AddScore = true, float64(ms)
		}
		c.Reply = ReplyIntegers
	},
})

func instant(score float64) int64 {
	if math.IsNaN(score) {
		return -1
	}
	return int64(score)
}
