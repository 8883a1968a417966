// What CL.REFUND answers and writes.
package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRefundAfterLimitRestoresTheKeyByteForByte(t *testing.T) {
	for _, line := range []string{
		"k RATE 5/s",
		"k RATE 5/s BURST 100",
		"k WINDOW 100/m",
		"k FIXED 100/m",
		"k RATE 50/s WINDOW 100/m FIXED 30/d RATE 1000/h",
	} {
		for _, cost := range []string{" COST 1", " COST 3"} {
			first := decide(Limit, "", line+" COST 2")
			value := string(first.NewValue)
			second := decide(Limit, value, line+cost)
			require.Equal(t, Set, second.Effect, line)
			back := decide(Refund, string(second.NewValue), line+cost)
			require.Equal(t, Set, back.Effect, line)
			assert.Equal(t, value, string(back.NewValue), line)
			assert.Equal(t, first.ExpireAtMs, back.ExpireAtMs, line)
			assert.Equal(t, Delete, decide(Refund, value, line+" COST 2").Effect, line)
		}
	}

	reserved := valueAfter(t, "k RATE 5/s COST 5", "k RATE 5/s MAXWAIT 9s", "k RATE 5/s MAXWAIT 9s")
	more := valueAfter(t, "k RATE 5/s COST 5", "k RATE 5/s MAXWAIT 9s", "k RATE 5/s MAXWAIT 9s", "k RATE 5/s COST 3 MAXWAIT 9s")
	require.NotEqual(t, reserved, more)
	assert.Equal(t, reserved, string(decide(Refund, more, "k RATE 5/s COST 3").NewValue))
	assert.Equal(t, tatIn(nsPerSecond), string(decide(Refund, more, "k RATE 5/s COST 5").NewValue), "without reservations, digits again")
}

// One rate makes the call wait, the other has to wait with it: both are what they were.
func TestRefundAfterAReservationOnAStackRestoresTheKeyByteForByte(t *testing.T) {
	const line = "k RATE 60/h BURST 10 RATE 60/m BURST 20"
	first := decide(Limit, "", line+" COST 5")
	value := string(first.NewValue)
	reserved := decide(Limit, value, line+" COST 8 MAXWAIT 10m")
	require.Equal(t, int64(180_000), fieldsOf(t, reserved).wait)
	back := decide(Refund, string(reserved.NewValue), line+" COST 8")
	assert.Equal(t, int64(-8), fieldsOf(t, back).granted)
	assert.Equal(t, value, string(back.NewValue))
	assert.Equal(t, first.ExpireAtMs, back.ExpireAtMs)
	assert.Equal(t, fields{0, 1, 10, 4, -1, 360_000, 60_000, 1, 0}, fieldsOf(t, decide(Limit, value, line)))

	// Half of it: the other half comes at its slot, and still counts there.
	half := decide(Refund, string(reserved.NewValue), line+" COST 4")
	assert.Equal(t, int64(180_000+4_000), decide(Peek, string(half.NewValue), "k RATE 60/m BURST 20").Integers[5])
	rest := decide(Refund, string(half.NewValue), line+" COST 4")
	assert.Equal(t, value, string(rest.NewValue))
}
