// Arbitrary bytes in a key: refused, or read as exactly what they say; never a panic.
package window_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/window"
)

func FuzzDecode(f *testing.F) {
	crowded, now := hot(f, 1000, second/20)
	few, _ := hot(f, 3, second)
	f.Add(few.Append(nil), int64(5), minute, now, int64(1))
	f.Add(crowded.Append(nil), count(crowded.Limit), minute, now, int64(1000))
	f.Add(crowded.Append(nil), int64(1), minute, start-3600*second, int64(1))
	f.Add(crowded.Append(nil), count(crowded.Limit), int64(1), now, int64(0))
	f.Add([]byte("1700000000000000000"), int64(5), minute, now, int64(1))
	f.Add(unhex(f, "02 08 0000000000000000 0100000000000000 feffffffffffff7f feffffffffffff7f"),
		int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add([]byte{}, int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64))
	for _, found := range []struct { // by the fuzzer
		encoded                      string
		count, period, now, quantity int64
	}{
		{"", 54, 60000000000, 1700000089949999962, 146},
		{"\x02\b0000000 000000000000000X00000000", math.MaxInt64, math.MaxInt64, math.MaxInt64 - 18, math.MaxInt64 - 30},
		{"\x01\x0100000000\x10", 84, 60000000085, 1700000089949999902, 98},
		{"\x01\x01000000\x9d\x970", 5, 60000000000, 1700000089949999902, -81},
		{"\x02\b0000000 0000000\xff0000000000000000", math.MaxInt64, math.MaxInt64, math.MaxInt64 - 18, math.MaxInt64 - 30},
		{"\x01\x0100000\a\x9d\x97\x17", 5, 60000000000, 1700000089949999967, -99},
		{"\x03\x0100000100000000010000\x01", 148, 60000000000, 1700000089949999962, 66},
		{"\x03\x01000001000000000100000", 54, 60000000000, 1700000089949999962, -1},
		{"\x03\x01000000000000000000000", 54, 60000000000, 1700000089950000000, 1},
		{"0", 5, 60000000000, 1700000089950000000, 1},
		{"\x03\x0100000100000000010000\x01", 148, 60000000000, 1700000089949999962, -13},
		{"\x03\x01000001000000\xaf00100000", 148, 60000000089, 1700000089949999995, -33},
		{"", 5, 60000000000, 1700000089950000028, -99},
		{"\x03\x01000001000000\xaf00100000", 330, 60000000006, 1700000089949999957, 28},
		{"", math.MaxInt64 - 96, math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{"\x02\b0000000 00000\x00\x00\x000000000000000000", math.MaxInt64, math.MaxInt64, math.MaxInt64 - 4, math.MaxInt64 - 30},
		{"\x03\x01000001000000000100000", 54, 60000000000, 1700000089949999962, 51},
		{"\x02\b0000000 000000000000000000000000", math.MaxInt64 - 79, math.MaxInt64, math.MaxInt64 - 59, math.MaxInt64 - 30},
		{"\x03\x01000001000000000100000", 148, 60000000000, 1700000089949999962, 66},
		{"\x03\x01000001000000\xaf00100000", 330, 60000000006, 1700000089949999957, 8},
		{"\x01\x01000000000", 84, 60000000000, 1700000089949999902, 4},
		{"\x03\x01000001000000\xaf00100000", 148, 60000000089, 1700000089949999995, 28},
		{"\x02\b\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\x7f00000000",
			math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64 - 30},
		{"\x02\b0000000 \x01\x00\x00\x00\x00\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\x7f00000000",
			math.MaxInt64, math.MaxInt64, math.MaxInt64 - 18, math.MaxInt64 - 30},
		{"\x02\b00\x00\x00\x00\x00\x00\x0000000\x00\x00\x0000000\xff\xff\x7f00000000",
			math.MaxInt64 - 95, math.MaxInt64 - 10, math.MaxInt64 - 152, math.MaxInt64 - 13},
		{"\x02\b0\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\x7f00000000",
			math.MaxInt64, math.MaxInt64 - 10, math.MaxInt64 - 152, math.MaxInt64 - 13},
		{"\x02\b0\x00\x00\x00\x00\x00\x00\x000000\x00\x00\x00\x0000000\xff\xff\x7f00000000",
			math.MaxInt64 - 95, math.MaxInt64 - 10, math.MaxInt64 - 152, math.MaxInt64 - 13},
		{"\x02\b0000\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\x7f00000000",
			math.MaxInt64, math.MaxInt64 - 10, math.MaxInt64 - 152, math.MaxInt64 - 13},
	} {
		f.Add([]byte(found.encoded), found.count, found.period, found.now, found.quantity)
	}

	f.Fuzz(func(t *testing.T, encoded []byte, count, period, now, quantity int64) {
		limit, err := window.New(count, period, 1)
		if err != nil {
			return
		}
		readable(t, limit, encoded, now, quantity)
	})
}

// A fuzzer rarely comes upon the bytes of a whole state. So damage real ones.
func TestDamagedBytesAreRefusedOrReadAsTheyStand(t *testing.T) {
	pick, read := chance.FromSeed(t), 0
	damages := size.Of(10_000, 100_000)
	for range damages / 100 {
		p, tr := drawPair(t, pick)
		for range pick("charges", 1, 200) {
			p.moveClock(pick, tr)
			charge(&p.state, p.now, pick("quantity", 1, tr.maxQuantity))
		}
		encoded := p.state.Append(nil)
		for range 100 {
			damaged := append([]byte{}, encoded...)
			for len(damaged) > 0 && !pick.OneIn("enough", 3) {
				damaged[pick("place", 0, int64(len(damaged)-1))] ^= byte(pick("flip", 1, 255))
			}
			switch at := pick("place", 0, int64(len(damaged))); pick("kind", 0, 7) {
			case 0:
				damaged = damaged[:at]
			case 1:
				damaged = append(damaged[:at:at], append([]byte{byte(pick("byte", 0, 255))}, damaged[at:]...)...)
			}
			now := pick.OfAnyMagnitude("now", 0, math.MaxInt64)
			if pick.OneIn("its own now", 2) {
				now = p.now
			}
			if readable(t, p.limit, damaged, now, pick.OfAnyMagnitude("quantity", 0, math.MaxInt64)) {
				read++
			}
		}
	}
	require.Greater(t, read, damages/10, "too little left to read")
	require.Less(t, read, damages*9/10, "too little damage")
}

// readable says whether encoded is a state, and checks it thoroughly if so.
func readable(t *testing.T, limit window.Limit, encoded []byte, now, quantity int64) bool {
	s := window.Window{Limit: limit}
	if err := s.Decode(encoded); err != nil {
		require.Equal(t, window.ErrEncoding, err)
		require.Empty(t, s.Append(nil))
		return false
	}
	require.Equal(t, encoded, append([]byte{}, s.Append(nil)...))
	exercise(t, limit, s, now, quantity)
	return true
}

// exercise checks the range of every answer, and that what any write leaves can be read.
func exercise(t *testing.T, limit window.Limit, s window.Window, now, quantity int64) {
	available, retry := s.Available(now), s.RetryAfter(now, quantity)
	next, reset := nextAfter(&s, now), resetAfter(&s, now)
	expireAt := int64(s.ExpireAt())
	charged, refunded, current, denied := s, s, s, s
	taken, back := charge(&charged, now, quantity), refunded.Refund(now, quantity)
	current.BringTo(now)
	denied.ChargeDenied(now, quantity, 0)
	if now < 0 {
		return // not what they are made for, but no panic either
	}

	within := func(lo, got, hi int64, what string) {
		require.GreaterOrEqual(t, got, lo, what)
		require.LessOrEqual(t, got, hi, what)
	}
	longest := period(limit) + min(period(limit)/64, math.MaxInt64-period(limit))
	within(0, available, count(limit), "available")
	within(0, next, reset, "next after")
	within(0, reset, longest, "reset after")
	within(0, expireAt, math.MaxInt64, "expire at")
	within(0, taken, available, "taken")
	within(0, back, max(quantity, 0), "given back")
	if quantity > count(limit) {
		require.Equal(t, window.Never, retry)
	} else {
		within(0, retry, reset, "retry after")
		require.Equal(t, quantity <= available, retry == 0)
	}
	require.Equal(t, current.Available(now), available)
	require.Equal(t, reset, resetAfter(&current, now))

	decided, after := s, current
	var d window.Decision
	decided.TakeTo(&d, now, quantity)
	one := s
	require.Equal(t, one.BringTo(now), d.Corrected)
	require.Equal(t, retry, d.RetryNs)
	if retry == 0 {
		after = charged
		after.BringTo(now)
	}
	count, left, resetNs, nextNs := after.Standing(now)
	require.Equal(t, []int64{count, left, resetNs, nextNs}, []int64{d.Count, d.Available, d.ResetNs, d.NextNs})
	require.Equal(t, after.Append(nil), decided.Append(nil))

	for _, left := range []window.Window{charged, refunded, current, denied} {
		read := window.Window{Limit: limit}
		written := left.Append(nil)
		require.NoError(t, read.Decode(written))
		require.Equal(t, written, read.Append(nil))
		require.Equal(t, left.Available(now), read.Available(now))
	}
	require.Equal(t, available-taken, charged.Available(now))
}
