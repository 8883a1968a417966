// What CL.REFUND answers and writes.
package command

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRefundGivesBackUpToFull(t *testing.T) {
	const s = nsPerSecond
	for _, test := range []struct {
		name     string
		value    string
		line     string
		want     fields
		write    Effect
		newValue string
	}{
		{"one unit", tatIn(3 * s / 5), "k RATE 5/s",
			fields{0, 1, 5, 3, -1, 400, 200, -1, 0}, Set, tatIn(2 * s / 5)},
		{"several", tatIn(3 * s / 5), "k RATE 5/s COST 2",
			fields{0, 1, 5, 4, -1, 200, 200, -2, 0}, Set, tatIn(s / 5)},
		{"all: the key goes", tatIn(3 * s / 5), "k RATE 5/s COST 3",
			fields{0, 1, 5, 5, -1, 0, 0, -3, 0}, Delete, ""},
		{"more than was taken", tatIn(3 * s / 5), "k RATE 5/s COST 9223372036854775807",
			fields{0, 1, 5, 5, -1, 0, 0, -3, 0}, Delete, ""},
		{"nothing", tatIn(3 * s / 5), "k RATE 5/s COST 0",
			fields{0, 1, 5, 2, -1, 600, 200, 0, 0}, Keep, ""},
		{"to an unused key", "", "k RATE 5/s",
			fields{0, 1, 5, 5, -1, 0, 0, 0, 0}, Keep, ""},
		{"to a key that is full by now", tatIn(-1), "k RATE 5/s",
			fields{0, 1, 5, 5, -1, 0, 0, 0, 0}, Keep, ""},
		{"a part of a unit", tatIn(s/5 + 1), "k RATE 5/s COST 2",
			fields{0, 1, 5, 5, -1, 0, 0, -2, 0}, Delete, ""},
		{"after which it would take centuries to fill", strconv.FormatUint(uint64(nowNs)+106751*86400*s, 10), "k RATE 1/d BURST 106751 COST 106751",
			fields{0, 1, 106751, 106751, -1, 0, 0, -106751, 0}, Delete, ""},
		{"a clock that was set back", tatIn(3600 * s), "k RATE 5/s COST 2",
			fields{0, 1, 5, 2, -1, 600, 200, -2, 0}, Set, tatIn(3 * s / 5)},
		{"a window", valueAfter(t, "k WINDOW 9/m COST 3"), "k WINDOW 9/m COST 3",
			fields{0, 1, 9, 9, -1, 0, 0, -3, 0}, Delete, ""},
		{"what the tightest of a stack took back", valueAfter(t, "k WINDOW 9/m COST 1", "k WINDOW 9/m FIXED 5/m COST 2"), "k FIXED 5/m WINDOW 9/m COST 3",
			fields{0, 1, 5, 5, -1, 0, 0, -2, 0}, Delete, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := decide(Refund, test.value, test.line)
			assert.Equal(t, test.want, fieldsOf(t, c))
			assert.Equal(t, -test.want.granted, c.Refunded)
			require.Equal(t, test.write, c.Effect)
			assert.Equal(t, test.newValue, string(c.NewValue))
			if test.write == Set {
				assert.Equal(t, int64(epochSeconds+1)*1000, c.ExpireAtMs)
			}
		})
	}
}

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
