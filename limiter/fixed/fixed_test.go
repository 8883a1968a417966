// The rules one by one, on traffic small enough to follow by hand.
package fixed_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/fixed"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	start  = int64(1_700_000_040) * second // a multiple of a minute
)

// windowOf is a limit of which nothing is used.
func windowOf(limit fixed.Limit) (w fixed.Window) {
	w.Set(&limit, &calendar.Cache{})
	return w
}

func count(limit fixed.Limit) int64 {
	w := windowOf(limit)
	n, _, _, _ := w.Standing(0)
	return n
}

// charge is Charge, and returns how many units it took.
func charge(w *fixed.Window, nowNs, quantity int64) int64 {
	before := w.Available(nowNs)
	w.Charge(nowNs, quantity, 0)
	return before - w.Available(nowNs)
}

func resetAfter(w *fixed.Window, nowNs int64) int64 {
	_, _, ns, _ := w.Standing(nowNs)
	return ns
}

func nextAfter(w *fixed.Window, nowNs int64) int64 {
	_, _, _, ns := w.Standing(nowNs)
	return ns
}

func newLimit(t require.TestingT, count, periodNs int64) fixed.Limit {
	limit, err := fixed.New(count, periodNs, time.Nanosecond)
	require.NoError(t, err)
	return limit
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for _, tt := range []struct {
		name     string
		count, n int64
		unit     time.Duration
		want     error
	}{
		{"one a nanosecond", 1, 1, 1, nil},
		{"more than one a nanosecond", math.MaxInt64, 1, 1, nil},
		{"the longest period", 1, math.MaxInt64, 1, nil},
		{"one nanosecond longer", 1, 1 << 62, 2, fixed.ErrTooLong},
		{"a product of more than 64 bits", 1, math.MaxInt64, time.Hour, fixed.ErrTooLong},
		{"no count", 0, 1, time.Second, fixed.ErrCount},
		{"negative count", -1, 1, time.Second, fixed.ErrCount},
		{"no period", 1, 0, time.Second, fixed.ErrPeriod},
		{"negative period", 1, -1, time.Second, fixed.ErrPeriod},
		{"no unit", 1, 1, 0, fixed.ErrPeriod},
		{"two negatives", 1, -1, -time.Second, fixed.ErrPeriod},
	} {
		limit, err := fixed.New(tt.count, tt.n, tt.unit)
		assert.Equal(t, tt.want, err, tt.name)
		if tt.want == nil {
			assert.Equal(t, tt.count, count(limit), tt.name)
			assert.Equal(t, tt.n*int64(tt.unit), limit.Period(), tt.name)
		}
	}
}

// unhex reads hexadecimal digits, with spaces between fields for the reader.
func unhex(t testing.TB, digits string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	require.NoError(t, err)
	return b
}

func TestTheEncodingByteByByte(t *testing.T) {
	for _, tt := range []struct {
		name              string
		period, at, units int64
		want              string
	}{
		{"nothing used", minute, start, 0, ""},
		{"window 0", minute, minute - 1, 1, "00 01"},
		{"window 1", minute, minute, 127, "01 7f"},
		{"two bytes each", second, 300 * second, 128, "ac02 8001"},
		{"the largest numbers", 1, math.MaxInt64, math.MaxInt64, "ffffffffffffffff7f ffffffffffffffff7f"},
	} {
		limit := newLimit(t, math.MaxInt64, tt.period)
		s, back := windowOf(limit), windowOf(limit)
		require.Equal(t, tt.units, charge(&s, tt.at, tt.units), tt.name)
		want := unhex(t, tt.want)
		assert.Equal(t, append([]byte("before"), want...), s.Append([]byte("before")), tt.name)
		assert.LessOrEqual(t, len(want), fixed.MaxEncodedLen, tt.name)
		require.NoError(t, back.Decode(want), tt.name)
		assert.Equal(t, want, append([]byte{}, back.Append(nil)...), tt.name)
		assert.Equal(t, s.Available(tt.at), back.Available(tt.at), tt.name)
	}
}

func TestDecodeRefusesWhatWasNeverWritten(t *testing.T) {
	limit := newLimit(t, 10, 1<<40)
	for _, tt := range []struct{ name, encoded string }{
		{"a TAT in decimal digits", hex.EncodeToString([]byte("1700000000000000000"))},
		{"one number", "01"},
		{"first number cut short", "80"},
		{"second number cut short", "01 80"},
		{"three numbers", "01 01 01"},
		{"needless byte in the first", "8100 01"},
		{"needless byte in the second", "01 8100"},
		{"nothing used", "01 00"},
		{"2^63 used", "01 80808080808080808001"},
		{"more than 64 bits used", "01 80808080808080808002"},
		{"more than 64 bits of index", "80808080808080808002 01"},
		{"a window that starts at 2^63", "80808004 01"},
	} {
		s := windowOf(limit)
		charge(&s, start, 1)
		assert.Equal(t, fixed.ErrEncoding, s.Decode(unhex(t, tt.encoded)), tt.name)
		assert.Empty(t, s.Append(nil), tt.name)
	}
	last := windowOf(limit)
	assert.NoError(t, last.Decode(unhex(t, "ffffff03 01")), "the last window before 2^63")
}
