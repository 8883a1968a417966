// Windows of calendars, and from the first unit on.
package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// at decides a call at an instant.
func at(t testing.TB, command *Command, when, value, line string) *Call {
	c := call(line)
	now, err := time.Parse(time.RFC3339Nano, when)
	require.NoError(t, err)
	c.NowNs, c.Kind, c.Value = now.UnixNano(), String, []byte(value)
	if value == "" {
		c.Kind = Absent
	}
	c.Run(command)
	require.Equal(t, ReplyFields, c.Reply, "%s: %s", line, c.Error)
	return c
}

func TestADecisionInACalendarDoesNotAllocate(t *testing.T) {
	for _, line := range []string{
		"k FIXED 1000/mo TZ Europe/Berlin", "k FIXED 1000/w OFFSET 1d", "k FIXED 1000/d OFFSET 6h TZ America/New_York", "k FIXED 1000/m FIRST",
	} {
		value := valueAfter(t, line)
		for name, command := range map[string]*Command{"limit": Limit, "peek": Peek, "refund": Refund} {
			c := decide(command, value, line)
			assert.Zero(t, testing.AllocsPerRun(100, func() { c.Run(command) }), "%s, %s", name, line)
		}
		full := decide(Limit, value, line+" COST 999")
		denied := decide(Limit, string(full.NewValue), line)
		require.Equal(t, int64(1), denied.Integers[0])
		assert.Zero(t, testing.AllocsPerRun(100, func() { denied.Run(Limit) }), line)
	}
	// Calls that differ from the last: callers of several zones, by turns.
	c, other := decide(Limit, "", "k FIXED 5/d TZ Asia/Tokyo"), call("k FIXED 5/w TZ Asia/Seoul")
	words := [][][]byte{c.Args, other.Args}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for _, c.Args = range words {
			c.Run(Limit)
		}
	}))
}
