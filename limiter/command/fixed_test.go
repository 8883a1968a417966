// Windows of calendars, and from the first unit on.
package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
