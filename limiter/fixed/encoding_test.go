// The bytes: what is written, and that nothing else is read.
package fixed_test

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/fixed"
)

// unhex reads hexadecimal digits, with spaces between fields for the reader.
func unhex(t testing.TB, digits string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	require.NoError(t, err)
	return b
}

func TestTheEncodingByteByByte(t *testing.T) {
	const most, at = math.MaxInt64, int64(0x0102030405060708)
	for _, tt := range []struct {
		name      string
		state     limiter
		at, units int64
		want      string
	}{
		{"nothing used", newWindow(t, most, minute), start, 0, ""},
		{"window 0", newWindow(t, most, minute), minute - 1, 1, "00 01"},
		{"window 1", newWindow(t, most, minute), minute, 127, "01 7f"},
		{"two bytes each", newWindow(t, most, second), 300 * second, 128, "ac02 8001"},
		{"the largest numbers", newWindow(t, most, 1), most, most, "ffffffffffffffff7f ffffffffffffffff7f"},
		{"first: nothing used", newFirst(t, most, most), at, 0, ""},
		{"first: one unit at the epoch", newFirst(t, most, most), 0, 1, "0000000000000000 01"},
		{"first: two bytes of units", newFirst(t, most, most), at, 128, "0807060504030201 8001"},
		{"first: the largest numbers", newFirst(t, most, most), most, most, "ffffffffffffff7f ffffffffffffffff7f"},
	} {
		tt.state.Charge(tt.at, tt.units, 0)
		want := unhex(t, tt.want)
		assert.Equal(t, append([]byte("before"), want...), tt.state.Append([]byte("before")), tt.name)
		assert.LessOrEqual(t, tt.state.ExpireAt(), uint64(most), tt.name)
		require.NoError(t, tt.state.Decode(want), tt.name)
		assert.Equal(t, want, append([]byte{}, tt.state.Append(nil)...), tt.name)
		assert.Equal(t, most-tt.units, tt.state.Available(tt.at), tt.name)
	}
}

func TestDecodeRefusesWhatWasNeverWritten(t *testing.T) {
	window, first := newWindow(t, 10, 1<<40), newFirst(t, 10, 1<<40)
	for _, tt := range []struct {
		name    string
		state   limiter
		encoded string
	}{
		{"a TAT in decimal digits", window, hex.EncodeToString([]byte("1700000000000000000"))},
		{"one number", window, "01"},
		{"first number cut short", window, "80"},
		{"second number cut short", window, "01 80"},
		{"three numbers", window, "01 01 01"},
		{"needless byte in the first", window, "8100 01"},
		{"needless byte in the second", window, "01 8100"},
		{"nothing used", window, "01 00"},
		{"2^63 used", window, "01 80808080808080808001"},
		{"more than 64 bits used", window, "01 80808080808080808002"},
		{"more than 64 bits of index", window, "80808080808080808002 01"},
		{"a window that starts at 2^63", window, "80808004 01"},
		{"first: no units", first, "0807060504030201"},
		{"first: cut short", first, "08070605040302"},
		{"first: nothing used", first, "0807060504030201 00"},
		{"first: a needless byte", first, "0807060504030201 8100"},
		{"first: a byte too many", first, "0807060504030201 01 00"},
		{"first: an instant of 2^63", first, "0000000000000080 01"},
		{"first: 2^63 used", first, "0807060504030201 80808080808080808001"},
	} {
		tt.state.Charge(start, 1, 0)
		assert.Equal(t, fixed.ErrEncoding, tt.state.Decode(unhex(t, tt.encoded)), tt.name)
		assert.Empty(t, tt.state.Append(nil), tt.name)
	}
	assert.NoError(t, window.Decode(unhex(t, "ffffff03 01")), "the last window before 2^63")

	longest := newWindow(t, 5, math.MaxInt64)
	encode := func(index uint64) []byte { return binary.AppendUvarint(binary.AppendUvarint(nil, index), 1) }
	assert.NoError(t, longest.Decode(encode(1)))
	assert.ErrorIs(t, longest.Decode(encode(2)), fixed.ErrEncoding)
}
