// Arbitrary bytes in a key: refused, or read as exactly what they say; never a panic.
package fixed_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/fixed"
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
		var s fixed.State
		if limit.Decode(encoded, &s) != nil {
			require.Equal(t, fixed.State{}, s)
			return
		}
		require.Equal(t, encoded, append([]byte{}, s.Append(nil)...))

		available, retry, reset := limit.Available(&s, now), limit.RetryAfter(&s, now, quantity), limit.ResetAfter(&s, now)
		expireAt := limit.ExpireAt(&s)
		charged, refunded, settled := s, s, s
		taken, back := limit.Charge(&charged, now, quantity), limit.Refund(&refunded, now, quantity)
		limit.Settle(&settled, now)
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
		require.Equal(t, available-taken, limit.Available(&charged, now))
		require.Equal(t, available, limit.Available(&settled, now))
		for _, left := range []fixed.State{charged, refunded, settled} {
			var read fixed.State
			require.NoError(t, limit.Decode(left.Append(nil), &read))
			require.Equal(t, left, read)
		}
	})
}
