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

	"redis-throttle/fixed"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	start  = int64(1_700_000_040) * second // a multiple of a minute
)

func newLimit(t require.TestingT, count, periodNs int64) fixed.Limit {
	limit, err := fixed.New(count, periodNs, time.Nanosecond)
	require.NoError(t, err)
	return limit
}

func TestTheLongestWindowThatThereIs(t *testing.T) {
	limit := newLimit(t, 1, math.MaxInt64)
	var s fixed.State
	require.Equal(t, int64(1), limit.Charge(&s, math.MaxInt64, 1))
	assert.Equal(t, int64(math.MaxInt64), limit.ResetAfter(&s, math.MaxInt64), "the second window ends beyond 2^63")
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
			assert.Equal(t, tt.count, limit.Count(), tt.name)
			assert.Equal(t, tt.n*int64(tt.unit), limit.Period(), tt.name)
		}
	}
}

func TestAnUntouchedLimitHoldsAllOfCount(t *testing.T) {
	limit := newLimit(t, 5, minute)
	var s fixed.State
	assert.Equal(t, int64(5), limit.Available(&s, start))
	assert.Equal(t, int64(0), limit.RetryAfter(&s, start, 5))
	assert.Equal(t, int64(0), limit.NextAfter(&s, start))
	assert.Equal(t, int64(0), limit.ResetAfter(&s, start))
	assert.Equal(t, int64(0), limit.ExpireAt(&s))
}

func TestEverythingComesBackAtTheBoundary(t *testing.T) {
	limit := newLimit(t, 5, minute)
	var s fixed.State
	require.Equal(t, int64(3), limit.Charge(&s, start+59*second, 3))
	for _, tt := range []struct{ second, available, retryAfterThree int64 }{
		{0, 2, 60}, {1, 2, 59}, {59, 2, 1}, {60, 5, 0}, {61, 5, 0}, {3600, 5, 0},
	} {
		now := start + tt.second*second
		assert.Equal(t, tt.available, limit.Available(&s, now), tt.second)
		assert.Equal(t, int64(0), limit.RetryAfter(&s, now, 2), tt.second)
		assert.Equal(t, tt.retryAfterThree*second, limit.RetryAfter(&s, now, 3), tt.second)
		assert.Equal(t, tt.retryAfterThree*second, limit.NextAfter(&s, now), tt.second)
		assert.Equal(t, tt.retryAfterThree*second, limit.ResetAfter(&s, now), tt.second)
		assert.Equal(t, fixed.Never, limit.RetryAfter(&s, now, 6), tt.second)
	}
	assert.Equal(t, int64(1), limit.RetryAfter(&s, start+minute-1, 3))
	assert.Equal(t, start+minute, limit.ExpireAt(&s))
}

func TestADayIsADayInUTC(t *testing.T) {
	limit, err := fixed.New(1, 24, time.Hour)
	require.NoError(t, err)
	var s fixed.State
	evening := time.Date(2024, 2, 29, 23, 59, 0, 0, time.UTC)
	require.Equal(t, int64(1), limit.Charge(&s, evening.UnixNano(), 1))
	assert.Equal(t, minute, limit.ResetAfter(&s, evening.UnixNano()))
	assert.Equal(t, time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano(), limit.ExpireAt(&s))
}

// 30 per minute, 20 units in second 58, 20 more in second 62: what a calendar window
// cannot see.
func TestTwoWindowsMeetAtABoundary(t *testing.T) {
	limit := newLimit(t, 30, minute)
	var s fixed.State
	admitted := int64(0)
	for i := range int64(20) {
		admitted += limit.Charge(&s, start+58*second+i, 1)
	}
	for i := range int64(20) {
		admitted += limit.Charge(&s, start+62*second+i, 1)
	}
	assert.Equal(t, int64(40), admitted)
}

func TestChargeTakesWhatThereIs(t *testing.T) {
	limit := newLimit(t, 10, minute)
	var s fixed.State
	for _, tt := range []struct{ quantity, taken int64 }{
		{-1, 0}, {0, 0}, {7, 7}, {7, 3}, {1, 0}, {math.MaxInt64, 0},
	} {
		before := s
		assert.Equal(t, tt.taken, limit.Charge(&s, start, tt.quantity), tt.quantity)
		if tt.taken == 0 {
			assert.Equal(t, before, s, tt.quantity)
		}
	}
}

func TestRefundGivesBackWhatThisWindowUsed(t *testing.T) {
	limit := newLimit(t, 10, minute)
	var s fixed.State
	limit.Charge(&s, start, 8)
	before := s.Append(nil)
	limit.Charge(&s, start+1, 2)
	assert.Equal(t, int64(2), limit.Refund(&s, start+2, 2))
	assert.Equal(t, before, s.Append(nil))

	assert.Equal(t, int64(8), limit.Refund(&s, start+2, math.MaxInt64), "never above full")
	assert.Equal(t, fixed.State{}, s)
	assert.Zero(t, limit.Refund(&s, start+2, 1))

	limit.Charge(&s, start, 8)
	assert.Zero(t, limit.Refund(&s, start+2, 0))
	assert.Zero(t, limit.Refund(&s, start+2, -1))
	assert.Zero(t, limit.Refund(&s, start+minute, 8), "of an earlier window")
	assert.Equal(t, int64(10), limit.Available(&s, start+minute))
}

func TestTheCountMayChangeMidStream(t *testing.T) {
	var s fixed.State
	newLimit(t, 10, minute).Charge(&s, start, 8)
	five, twenty := newLimit(t, 5, minute), newLimit(t, 20, minute)
	assert.Equal(t, int64(12), twenty.Available(&s, start))
	assert.Equal(t, int64(0), five.Available(&s, start))
	assert.Equal(t, int64(0), five.RetryAfter(&s, start, 0))
	assert.Equal(t, minute, five.RetryAfter(&s, start, 1))
	assert.Zero(t, five.Charge(&s, start, 1))
}

func TestAClockSetBackBlocksToTheEndOfItsWindowAtMost(t *testing.T) {
	limit := newLimit(t, 10, minute)
	var s fixed.State
	limit.Charge(&s, start, 10)

	now := start - 3600*second + 45*second
	assert.Equal(t, int64(0), limit.Available(&s, now))
	assert.Equal(t, 15*second, limit.RetryAfter(&s, now, 1))

	// Not stored, the next window is blocked as well. Stored, it heals.
	assert.Equal(t, int64(0), limit.Available(&s, now+minute))
	require.True(t, limit.Settle(&s, now), "has to be stored")
	assert.False(t, limit.Settle(&s, now))
	assert.Equal(t, now+15*second, limit.ExpireAt(&s))
	assert.Equal(t, int64(10), limit.Available(&s, now+15*second))

	// Back within the window, nothing is to be corrected.
	assert.False(t, limit.Settle(&s, now-45*second))
}

func TestHugeNumbersNeitherWrapNorPanic(t *testing.T) {
	limit := newLimit(t, math.MaxInt64, math.MaxInt64-1)
	var s fixed.State
	assert.Equal(t, int64(math.MaxInt64-1), limit.Charge(&s, start, math.MaxInt64-1))
	assert.Equal(t, int64(1), limit.Charge(&s, start, math.MaxInt64))
	assert.Equal(t, int64(math.MaxInt64-1), limit.ExpireAt(&s))
	assert.Equal(t, int64(math.MaxInt64), limit.Available(&s, math.MaxInt64))
	assert.Equal(t, int64(1), limit.Charge(&s, math.MaxInt64, 1))
	assert.Equal(t, int64(math.MaxInt64), limit.ExpireAt(&s))
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
		var s, back fixed.State
		require.Equal(t, tt.units, limit.Charge(&s, tt.at, tt.units), tt.name)
		want := unhex(t, tt.want)
		assert.Equal(t, append([]byte("before"), want...), s.Append([]byte("before")), tt.name)
		assert.LessOrEqual(t, len(want), fixed.MaxEncodedLen, tt.name)
		require.NoError(t, limit.Decode(want, &back), tt.name)
		assert.Equal(t, s, back, tt.name)
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
		s := fixed.State{}
		limit.Charge(&s, start, 1)
		assert.Equal(t, fixed.ErrEncoding, limit.Decode(unhex(t, tt.encoded), &s), tt.name)
		assert.Equal(t, fixed.State{}, s, tt.name)
	}
	assert.NoError(t, limit.Decode(unhex(t, "ffffff03 01"), &fixed.State{}), "the last window before 2^63")
}
