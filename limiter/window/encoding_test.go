// The bytes: what is written, that nothing else is read, and how many there are.
package window_test

import (
	"bytes"
	"encoding/hex"
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

// Of every number of entries, each is looked at, and all are added up.
func TestDecodeLooksAtEveryEntry(t *testing.T) {
	limit := newLimit(t, 1<<62, 200)
	for n := 1; n <= 65; n++ {
		encoded := []byte{byte(n), 1}
		for i := range n - 1 {
			encoded = append(encoded, byte(0xff-2*(n-1-i)))
		}
		units := len(encoded)
		encoded = append(append(encoded, bytes.Repeat([]byte{255}, n)...), 0xff, 0x04, 0, 0, 0, 0, 0, 0)
		s := window.Window{Limit: limit}
		require.NoError(t, s.Decode(encoded), n)
		require.Equal(t, count(limit)-255*int64(n), s.Available(0x4ff), n)

		refused := func(what string, i, at int, to byte) {
			damaged := bytes.Clone(encoded)
			damaged[at] = to
			require.Equal(t, window.ErrEncoding, s.Decode(damaged), "%s, entry %d of %d", what, i, n)
		}
		for i := range n {
			refused("no units", i, units+i, 0)
		}
		for i := range n - 1 {
			refused("as old as the next", i, 2+i, byte(0xff-2*(n-2-i)))
		}
	}
}

// Callers keep so much room.
func TestTheLongestEncoding(t *testing.T) { assert.Equal(t, 1042, window.MaxEncodedLen) }
