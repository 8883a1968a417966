package command

import (
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/top"
)

// CL.TOP [count]
//
// Replies with the keys that were limited most often lately, the most often first: of
// each its name, database, number of times, and by how much that may be too high.
var Top = register(&Command{
	Name:       "CL.TOP",
	Summary:    "Lists the keys that were limited most often lately.",
	Complexity: "O(N log M) where N is the configuration throttle.top and M the number of keys listed.",
	Since:      words.V010,
	Tips:       "nondeterministic_output",
	Flags:      "readonly admin",
	Personal:   true,
	Args:       []words.Arg{{Name: "count", Type: words.ArgInteger, Optional: true}},
	Fields:     []string{"key", "db", "limited", "error"},
	Run:        listTop,
	Row:        topRow,
})

const (
	topIsOff    = "ERR CL.TOP is off: set the configuration throttle.top to the number of keys to keep, from 1 to 100000"
	badTopCount = "ERR count must be an integer from 1 to 100000" // top.MaxEntries

	standardRows = 10
)

// TopKeys counts the keys that are limited. The zero value and nil count none, until Resize.
type TopKeys struct {
	table top.Table
	rows  []top.Key // of the reply to the call in hand
}

// Resize makes t count up to keys keys, and forgets what was counted.
func (t *TopKeys) Resize(keys int) {
	t.table.Resize(keys)
	t.rows = nil
}

func (t *TopKeys) isOff() bool { return t == nil || t.table.Len() == 0 }

func listTop(c *Call) {
	t := c.Top
	if t.isOff() {
		c.Fail(topIsOff)
		return
	}
	n := standardRows
	if c.ArgCount == 1 {
		var ok bool
		if n, ok = words.ParseCount(c.Args[0], top.MaxEntries); !ok {
			c.Fail(badTopCount)
			return
		}
	}
	t.rows = t.table.Top(t.rows[:0], n, c.NowNs)
	c.RowCount = len(t.rows)
	c.Reply = ReplyRows
}

func topRow(c *Call, index int) (text []byte, integers []int64) {
	key := &c.Top.rows[index]
	return key.Name, append(c.integers[:0], int64(key.DB), int64(key.Count), int64(key.Error))
}
