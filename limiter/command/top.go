package command

import (
	"bytes"
	"slices"

	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/top"
)

// CL.TOP [count] [SHADOW]
//
// Replies with the keys that were limited most often lately, the most often first: of
// each its name, database, number of times, and by how much that may be too high. With
// SHADOW, with those that shadows would have limited.
var Top = register(&Command{
	Name:       "CL.TOP",
	Summary:    "Lists the keys that were limited most often lately, or that shadows would have limited.",
	Complexity: "O(N log M) where N is the configuration throttle.top and M the number of keys listed.",
	Since:      words.V010,
	Tips:       "nondeterministic_output",
	Flags:      "readonly admin",
	Personal:   true,
	Args: []words.Arg{
		{Name: "count", Type: words.ArgInteger, Optional: true},
		{Name: "shadow", Type: words.ArgToken, Token: shadowWord, Since: words.V050, Optional: true},
	},
	Fields: []string{"key", "db", "limited", "error"},
	Run:    listTop,
	Row:    topRow,
})

const (
	topIsOff       = "ERR CL.TOP is off: set the configuration throttle.top to the number of keys to keep, from 1 to 100000"
	badTopCount    = "ERR count must be an integer from 1 to 100000" // top.MaxEntries
	expectedShadow = "expected SHADOW"
	shadowWord     = "SHADOW"

	standardRows = 10
)

// TopKeys counts the keys that are limited, and apart from them those that a shadow would have limited. The zero value
// and nil count none, until Resize.
type TopKeys struct {
	limited, shadowed top.Table
	rows              []top.Key // of the reply to the call in hand
}

// Resize makes t count up to keys keys of each, and forgets what was counted.
func (t *TopKeys) Resize(keys int) {
	t.limited.Resize(keys)
	t.shadowed.Resize(keys)
	t.rows = nil
}

func (t *TopKeys) isOff() bool { return t == nil || t.limited.Len() == 0 }

func listTop(c *Call) {
	t := c.Top
	if t.isOff() {
		c.Fail(topIsOff)
		return
	}
	n, shadows, ok := c.parseTop()
	if !ok {
		return
	}
	table := &t.limited
	if shadows {
		table = &t.shadowed
	}
	t.rows = table.Top(slices.Grow(t.rows[:0], min(n, table.Len())), n, c.NowNs)
	c.RowCount = len(t.rows)
	c.Reply = ReplyRows
}

// parseTop reads the count and the word, in any order. When ok is false the call has failed.
func (c *Call) parseTop() (n int, shadows, ok bool) {
	for _, arg := range c.Args[:c.ArgCount] {
		switch {
		case !shadows && bytes.EqualFold(arg, []byte(shadowWord)):
			shadows = true
		case n > 0:
			c.refuse(c.parser.Near(arg, expectedShadow))
			return 0, false, false
		default:
			if n, ok = words.ParseCount(arg, top.MaxEntries); !ok {
				c.Fail(badTopCount)
				return 0, false, false
			}
		}
	}
	if n == 0 {
		n = standardRows
	}
	return n, shadows, true
}

func topRow(c *Call, index int) (text []byte, integers []int64) {
	key := &c.Top.rows[index]
	return key.Name, append(c.integers[:0], int64(key.DB), int64(key.Count), int64(key.Error))
}
