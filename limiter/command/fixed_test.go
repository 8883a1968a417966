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

func TestAMonthOfACustomersZone(t *testing.T) {
	const limit = "k FIXED 1000/mo TZ Europe/Berlin"
	c := at(t, Limit, "2026-03-28T22:00:00Z", "", limit+" COST 1000")
	ends, err := time.Parse(time.RFC3339, "2026-04-01T00:00:00+02:00")
	require.NoError(t, err)
	untilMs := ends.UnixMilli() - c.NowNs/1e6
	assert.Equal(t, fields{0, 1, 1000, 0, -1, untilMs, untilMs, 1000, 0}, fieldsOf(t, c))
	assert.Equal(t, Set, c.Effect)
	assert.Equal(t, ends.UnixMilli(), c.ExpireAtMs, "with the clocks of Berlin")
	value := string(c.NewValue)

	last := at(t, Limit, "2026-03-31T23:59:59.999999999+02:00", value, limit)
	assert.Equal(t, fields{1, 1, 1000, 0, 1, 1, 1, 0, 0}, fieldsOf(t, last))
	assert.Equal(t, Keep, last.Effect)
	assert.Equal(t, int64(1000), fieldsOf(t, at(t, Peek, "2026-04-01T00:00:00+02:00", value, limit)).remaining)

	for _, other := range []string{"k FIXED 1000/mo", "k FIXED 1000/mo TZ Europe/Paris", "k FIXED 1000/mo TZ Europe/Berlin OFFSET 1h", "k FIXED 1000/2mo TZ Europe/Berlin"} {
		assert.Equal(t, int64(1000), fieldsOf(t, at(t, Peek, "2026-03-28T22:00:00Z", value, other)).remaining, "%s is another limit", other)
	}
	assert.Equal(t, int64(1000), fieldsOf(t, at(t, Peek, "2026-03-28T22:00:00Z", value, "k FIXED 2000/mo TZ Europe/Berlin")).remaining, "of another count it is not")

	back := at(t, Refund, "2026-03-28T22:00:00Z", value, limit+" COST 400")
	assert.Equal(t, int64(-400), fieldsOf(t, back).granted)
	assert.Equal(t, int64(400), fieldsOf(t, back).remaining)
}

func TestAWindowFromTheFirstUnitOnIsACounterWithAnExpiry(t *testing.T) {
	const limit = "k FIXED 3/1m FIRST"
	c := at(t, Limit, "2026-03-28T22:00:17.5Z", "", limit)
	assert.Equal(t, fields{0, 1, 3, 2, -1, 60_000, 60_000, 1, 0}, fieldsOf(t, c))
	c = at(t, Limit, "2026-03-28T22:01:00Z", string(c.NewValue), limit+" COST 2")
	assert.Equal(t, fields{0, 1, 3, 0, -1, 17_500, 17_500, 2, 0}, fieldsOf(t, c))
	assert.Equal(t, c.NowNs/1e6+18_000, c.ExpireAtMs, "rounded up to a whole second")
	value := string(c.NewValue)
	assert.Equal(t, int64(17_500), fieldsOf(t, at(t, Limit, "2026-03-28T22:01:00Z", value, limit)).retry)
	assert.Equal(t, int64(3), fieldsOf(t, at(t, Peek, "2026-03-28T22:01:17.5Z", value, limit)).remaining)
	assert.Equal(t, int64(3), fieldsOf(t, at(t, Peek, "2026-03-28T22:01:00Z", value, "k FIXED 3/1m")).remaining, "another limit")
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
