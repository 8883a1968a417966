// Arbitrary bytes in a key: refused, or read as exactly what they say; never a panic.
package fixed_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/fixed"
)

func FuzzDecode(f *testing.F) {
	f.Add([]byte{}, int64(5), minute, start, int64(1))
	f.Add([]byte{1, 1}, int64(5), minute, minute, int64(1))
	f.Add([]byte{1, 9}, int64(5), minute, int64(0), int64(3))
	f.Add([]byte{0x81, 0, 1}, int64(5), minute, minute, int64(1))
	f.Add([]byte("1700000000000000000"), int64(5), minute, start, int64(1))
	f.Add(unhex(f, "ffffffffffffffff7f ffffffffffffffff7f"), int64(math.MaxInt64), int64(1), int64(math.MaxInt64), int64(1))
	f.Add([]byte{0, 1}, int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64))

	f.Fuzz(func(t *testing.T, encoded []byte, count, period, now, quantity int64) {
		limit, err := fixed.New(count, period, 1)
		if err != nil {
			return
		}
		s := windowOf(limit)
		if s.Decode(encoded) != nil {
			require.Empty(t, s.Append(nil))
			return
		}
		require.Equal(t, encoded, append([]byte{}, s.Append(nil)...))

		available, retry, reset := s.Available(now), s.RetryAfter(now, quantity), resetAfter(&s, now)
		expireAt := int64(s.ExpireAt())
		charged, refunded, current := s, s, s
		taken, back := charge(&charged, now, quantity), refunded.Refund(now, quantity)
		current.BringTo(now)
		if now < 0 {
			return // not what they are made for, but no panic either
		}

		within := func(lo, got, hi int64, what string) {
			require.GreaterOrEqual(t, got, lo, what)
			require.LessOrEqual(t, got, hi, what)
		}
		within(0, available, count, "available")
		within(0, reset, period, "reset after")
		within(0, expireAt, math.MaxInt64, "expire at")
		within(0, taken, available, "taken")
		within(0, back, max(quantity, 0), "given back")
		if quantity > count {
			require.Equal(t, fixed.Never, retry)
		} else {
			within(0, retry, reset, "retry after")
			require.Equal(t, quantity <= available, retry == 0)
		}
		require.Equal(t, available-taken, charged.Available(now))
		require.Equal(t, available, current.Available(now))
		for _, left := range []fixed.Window{charged, refunded, current} {
			read := windowOf(limit)
			require.NoError(t, read.Decode(left.Append(nil)))
			require.Equal(t, left.Append(nil), read.Append(nil))
		}
	})
}
