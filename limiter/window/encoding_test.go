// The bytes: what is written, that nothing else is read, and how many there are.
package window_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/window"
)

// unhex reads hexadecimal digits, with spaces between fields for the reader.
func unhex(t testing.TB, digits string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	require.NoError(t, err)
	return b
}

func TestTheEncodingByteByByte(t *testing.T) {
	const at = 0x0102030405060708
	for _, tt := range []struct {
		name   string
		period int64
		grants []event
		want   string // entries, bytes per units; instants but the last; units; last instant
	}{
		{"nothing granted", minute, nil, ""},
		{"one charge", minute, []event{{at: at, units: 5}},
			"01 01 05 0807060504030201"},
		{"at the epoch", minute, []event{{at: 0, units: 1}},
			"01 01 01 0000000000000000"},
		{"two at the same instant", minute, []event{{at: at, units: 1}, {at: at, units: 2}},
			"01 01 03 0807060504030201"},
		{"three, a minute takes 5 bytes and 0x0304 units take 2", minute,
			[]event{{at: at, units: 1}, {at: at + 1, units: 2}, {at: at + 0x010000, units: 0x0304}},
			"03 02 0807060504 0907060504 0100 0200 0403 0807070504030201"},
		{"4 bytes that overflow in between", 4 * second,
			[]event{{at: 0xffffffff, units: 1}, {at: 0x100000005, units: 1}},
			"02 01 ffffffff 01 01 0500000001000000"},
		{"a period of 1 ns needs no bytes", 1, []event{{at: 7, units: 1}, {at: 8, units: 2}},
			"01 01 02 0800000000000000"},
		{"the largest numbers", math.MaxInt64,
			[]event{{at: 0, units: 1}, {at: math.MaxInt64 - 1, units: math.MaxInt64 - 1}},
			"02 08 0000000000000000 0100000000000000 feffffffffffff7f feffffffffffff7f"},
	} {
		limit := newLimit(t, math.MaxInt64, tt.period)
		s, back := window.Window{Limit: limit}, window.Window{Limit: limit}
		for _, g := range tt.grants {
			require.Equal(t, g.units, charge(&s, g.at, g.units), tt.name)
		}
		want := unhex(t, tt.want)
		assert.Equal(t, append([]byte("before"), want...), s.Append([]byte("before")), tt.name)
		require.NoError(t, back.Decode(want), tt.name)
		assert.Equal(t, want, append([]byte{}, back.Append(nil)...), tt.name)
		assert.Equal(t, int64(s.ExpireAt()), int64(back.ExpireAt()), tt.name)
		assert.Equal(t, s.Available(math.MaxInt64), back.Available(math.MaxInt64), tt.name)
	}
}

func TestDecodeRefusesWhatWasNeverWritten(t *testing.T) {
	// Period 200 ns: slots of 4 ns, a span of 202, one byte for an instant.
	limit := newLimit(t, 10, 200)
	var in65 string // instants 0xbf to 0xfe, the last one and the units not included
	for i := range 64 {
		in65 += hex.EncodeToString([]byte{byte(0xbf + i)})
	}
	ones := strings.Repeat("01", 66)

	for _, tt := range []struct{ name, encoded string }{
		{"one entry", "01 01 01 ff04000000000000"},
		{"as old as can be", "02 01 35 01 01 ff04000000000000"},
		{"65 entries, the last at the end of a slot", "41 01" + in65 + ones[:130] + "ff04000000000000"},
	} {
		assert.NoError(t, (&window.Window{Limit: limit}).Decode(unhex(t, tt.encoded)), tt.name)
	}

	for _, tt := range []struct{ name, encoded string }{
		{"a TAT in decimal digits", hex.EncodeToString([]byte("1700000000000000000"))},
		{"one byte", "01"},
		{"no entry", "00 01 ff04000000000000"},
		{"cut short in the header", "01 01 ff040000000000"},
		{"last byte missing", "02 01 fe 01 01 ff040000000000"},
		{"one byte too many", "02 01 fe 01 01 ff04000000000000 00"},
		{"66 entries", "42 01 be" + in65 + ones + "ff04000000000000"},
		{"65 entries, the last not at the end of a slot", "41 01" + in65 + ones[:130] + "0005000000000000"},
		{"no bytes for units", "01 00 ff04000000000000"},
		{"nine bytes for units", "01 09 010000000000000000 ff04000000000000"},
		{"more bytes for units than needed", "02 02 fe 0100 ff00 ff04000000000000"},
		{"as old as the last", "02 01 ff 01 01 ff04000000000000"},
		{"as old as each other", "03 01 f0 f0 01 01 01 ff04000000000000"},
		{"the younger before the older", "03 01 f1 f0 01 01 01 ff04000000000000"},
		{"older than a period and a slot", "02 01 34 01 01 ff04000000000000"},
		{"before the epoch", "02 01 ff 01 01 0500000000000000"},
		{"the last at 2^63", "01 01 01 0000000000000080"},
		{"an entry without units", "02 01 fe 01 00 ff04000000000000"},
		{"2^63 units", "01 08 0000000000000080 ff04000000000000"},
		{"2^63 units together", "02 08 fe ffffffffffffff7f 0100000000000000 ff04000000000000"},
	} {
		s := window.Window{Limit: limit}
		charge(&s, start, 1)
		assert.Equal(t, window.ErrEncoding, s.Decode(unhex(t, tt.encoded)), tt.name)
		assert.Empty(t, s.Append(nil), tt.name)
	}

	oneNs := window.Window{Limit: newLimit(t, 10, 1)}
	assert.Equal(t, window.ErrEncoding, oneNs.Decode(unhex(t, "02 01 01 01 ff04000000000000")))
}

func TestTheCountIsNotInTheState(t *testing.T) {
	s, back := window.Window{Limit: newLimit(t, 100, minute)}, window.Window{Limit: newLimit(t, 1, minute)}
	charge(&s, start, 50)
	require.NoError(t, back.Decode(s.Append(nil)))
	assert.Zero(t, back.Available(start))
}

func TestSizeIsBoundedWhateverTheTraffic(t *testing.T) {
	for _, tt := range []struct {
		name              string
		period, units     int64
		atMost, chargesPP int64
	}{
		{"5 per minute", minute, 1, 35, 5},
		{"64 per minute", minute, 1, 10 + 63*5 + 64, 64},
		{"100 per minute", minute, 1, 460, 100},
		{"10^6 per minute", minute, 1, 10 + 64*5 + 65*2, 1_000_000},
		{"10^4 per day of 10^12 units", 1440 * minute, 1e12, 10 + 64*6 + 65*6, 10_000},
		{"the widest of all", math.MaxInt64 / 2, math.MaxInt64 / 100, window.MaxEncodedLen, 100},
	} {
		limit := newLimit(t, math.MaxInt64, tt.period)
		s := window.Window{Limit: limit}
		now, longest := int64(0), 0
		for range min(2*tt.chargesPP, 200_000) {
			charge(&s, now, tt.units)
			longest = max(longest, len(s.Append(nil)))
			now += tt.period / tt.chargesPP
		}
		assert.LessOrEqual(t, longest, int(tt.atMost), tt.name)
		t.Logf("%s: %d bytes", tt.name, longest)
	}
	assert.Equal(t, 1042, window.MaxEncodedLen)
}
