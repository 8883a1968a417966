// Windows that begin with the first unit taken: by hand, and compared with a counter that has an
// expiry.
package fixed_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
	"redis-throttle/limiter/fixed"
)

func newFirst(t require.TestingT, count, periodNs int64) *fixed.First {
	return &fixed.First{Limit: newLimit(t, count, periodNs)}
}

func TestAFirstFromALaterClockBeginsNow(t *testing.T) {
	f := newFirst(t, 5, minute)
	f.Charge(start, 3, 0)
	now := start - 24*60*minute
	assert.Equal(t, int64(2), f.Available(now))
	assert.Equal(t, minute, f.RetryAfter(now, 3), "no longer than a window")
	assert.True(t, f.BringTo(now), "has to be stored")
	assert.False(t, f.BringTo(now+1))
	assert.Equal(t, uint64(now+minute), f.ExpireAt())
	assert.False(t, f.BringTo(now), "at the instant at which it begins")
}

func TestTheEncodingOfAFirstByteByByte(t *testing.T) {
	const at = int64(0x0102030405060708)
	for _, tt := range []struct {
		name      string
		at, units int64
		want      string
	}{
		{"nothing used", at, 0, ""},
		{"one unit at the epoch", 0, 1, "0000000000000000 01"},
		{"two bytes of units", at, 128, "0807060504030201 8001"},
		{"the largest numbers", math.MaxInt64, math.MaxInt64, "ffffffffffffff7f ffffffffffffffff7f"},
	} {
		f, back := newFirst(t, math.MaxInt64, math.MaxInt64), newFirst(t, 1, 1)
		f.Charge(tt.at, tt.units, 0)
		want := unhex(t, tt.want)
		assert.Equal(t, append([]byte("before"), want...), f.Append([]byte("before")), tt.name)
		require.NoError(t, back.Decode(want), tt.name)
		assert.Equal(t, want, append([]byte{}, back.Append(nil)...), tt.name)
		assert.LessOrEqual(t, f.ExpireAt(), uint64(math.MaxInt64), tt.name)
	}
	for _, tt := range []struct{ name, encoded string }{
		{"no units", "0807060504030201"},
		{"cut short", "08070605040302"},
		{"nothing used", "0807060504030201 00"},
		{"a needless byte", "0807060504030201 8100"},
		{"a byte too many", "0807060504030201 01 00"},
		{"an instant of 2^63", "0000000000000080 01"},
		{"2^63 used", "0807060504030201 80808080808080808001"},
	} {
		f := newFirst(t, 5, minute)
		f.Charge(start, 1, 0)
		assert.Equal(t, fixed.ErrEncoding, f.Decode(unhex(t, tt.encoded)), tt.name)
		assert.Empty(t, f.Append(nil), tt.name)
	}
}

// counter is INCR and EXPIRE: a number, and when the key that holds it goes.
type counter struct{ value, expiresAt int64 }

func followFirst(t require.TestingT, pick chance.Draw, steps int) {
	count, period := pick.OfAnyMagnitude("count", 1, math.MaxInt64), pick.OfAnyMagnitude("period", 1, 1<<60)
	f := newFirst(t, count, period)
	now := pick.OfAnyMagnitude("now", 0, 1<<61)
	var key counter
	for range steps {
		switch pick("clock", 0, 7) {
		case 0:
			now += pick.OfAnyMagnitude("far", 0, 1<<56)
		case 1:
			now = max(now-pick.OfAnyMagnitude("back", 0, 2*period), 0)
		case 2:
			now = max(key.expiresAt-pick("before the end", 0, 1), now)
		default:
			now += pick("step", 0, period/4)
		}
		if now > 1<<62 {
			return
		}
		if now >= key.expiresAt {
			key = counter{}
		}
		// The clock was set back: no key expires later than a new one would.
		expiresAt := min(key.expiresAt, now+period)
		left := max(count-key.value, 0)
		require.Equal(t, left, f.Available(now))
		quantity := pick.OfAnyMagnitude("quantity", 1, count)
		var untilOver int64
		if key.value > 0 {
			untilOver = expiresAt - now
		}
		_, _, reset, next := f.Standing(now)
		require.Equal(t, []int64{untilOver, untilOver}, []int64{reset, next})
		if quantity > left {
			require.Equal(t, expiresAt-now, f.RetryAfter(now, quantity))
		}
		switch op := pick("what", 0, 5); {
		case op == 0:
			back := min(quantity, key.value)
			require.Equal(t, back, f.Refund(now, quantity))
			key.value, key.expiresAt = key.value-back, expiresAt
			if key.value == 0 {
				key = counter{}
			}
		case op == 1:
			require.Equal(t, key.expiresAt > expiresAt, f.BringTo(now))
			key.expiresAt = expiresAt
		case quantity <= left:
			f.Charge(now, quantity, 0)
			if key.value == 0 {
				expiresAt = now + period
			}
			key = counter{key.value + quantity, expiresAt}
			require.Equal(t, uint64(expiresAt), f.ExpireAt())
		}
		encoded := f.Append(nil)
		require.NoError(t, f.Decode(encoded))
		require.Equal(t, encoded, f.Append(nil))
	}
}

func TestAFirstEqualsACounterWithAnExpiry(t *testing.T) {
	pick := chance.FromSeed(t)
	for range steps() / 10_000 {
		followFirst(t, pick, 1000)
	}
}

func TestAFirstEqualsACounterWithAnExpiryShrinkable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { followFirst(t, chance.FromRapid(t), 50) })
}
