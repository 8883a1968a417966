package command

import (
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/line"
)

// CL.LEASES key [COUNT n]
//
// Replies with the number of leases and of waiting callers, and lists the leases that lapse next and the first groups
// in line. Callers that wait for a window stand in such a line too, at a key that holds no leases.
var Leases = register(&Command{
	Name:        "CL.LEASES",
	Summary:     "Lists the leases of a key, starting with those that lapse next, and counts the callers that wait, by group.",
	Complexity:  "O(log N + M) where N is the number of leases and M the number of leases and groups listed.",
	Since:       words.V020,
	Tips:        "nondeterministic_output",
	Flags:       "readonly",
	Keys:        OneKey,
	Lines:       true,
	OnSortedSet: true,
	Fields:      []string{"held", "waiting", "leases", "id", "lease_ms", "waiting_groups", "groups", "group", "priority", "waiting", "weight"},
	Run: func(c *Call) {
		r, ok := c.read()
		if !ok {
			return
		}
		count := r.Rows
		if count == 0 {
			count = standardRows
		}
		held, ok := c.held()
		if !ok {
			return
		}
		groups := int64(0)
		if c.First.Ahead > 0 {
			groups, c.groups = c.First.Line.Groups()
		}
		c.Integers = append(c.integers[:0], held, c.First.Ahead, count, groups)
		c.RowCount = int(min(count, groups))
		c.Reply = ReplyLeases
	},
	// The rows are those of groups, and are asked for one after the other.
	Row: func(c *Call, _ int) (text []byte, integers []int64) {
		at, waiting, _ := c.groups.Next()
		return at.Group, append(c.integers[len(c.Integers):len(c.Integers)], at.Priority, waiting, at.Weight)
	},
})

// Every name of a group fits into a row, and the line takes every weight.
const (
	_ = uint(MaxTextLen - words.MaxGroupLen)
	_ = uint(line.MaxWeight - words.MaxWeight)
)

// held is how many leases of the key have not lapsed: none of a string, at which callers of CL.WAIT stand in line.
func (c *Call) held() (held int64, ok bool) {
	if c.First.Kind == String && c.First.Ahead > 0 {
		return 0, true
	}
	l, ok := c.leases()
	return l.Held, ok
}
