// The price of one command's share: read the bytes, decide, write the bytes. And no allocation.
package window_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/window"
)

// command does what CL.LIMIT needs of a window, and returns the bytes to store.
func command(t require.TestingT, w *window.Window, value, out []byte, nowNs int64) []byte {
	if err := w.Decode(value); err != nil {
		require.NoError(t, err)
	}
	if w.Available(nowNs) < 1 {
		_, _, reset, next := w.Standing(nowNs)
		sink = w.RetryAfter(nowNs, 1) + reset + next
		if !w.BringTo(nowNs) {
			return value
		}
	}
	w.Charge(nowNs, 1, 0)
	_, available, reset, next := w.Standing(nowNs)
	sink = available + reset + next + int64(w.ExpireAt())
	return w.Append(out)
}

// sink keeps the compiler from dropping the work.
var sink int64

func TestNothingAllocates(t *testing.T) {
	out := make([]byte, 0, window.MaxEncodedLen)
	for _, charges := range []int{0, 1, 64, 1000} {
		s, now := hot(t, charges, second/4)
		value := s.Append(nil)
		full := window.Window{Limit: newLimit(t, 1, minute)}
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			command(t, &s, value, out, now+1)            // allowed
			command(t, &full, value, out, now+1)         // denied
			command(t, &full, value, out, now-30*second) // denied and corrected
			s.ChargeDenied(now+1, 2, 0)
			s.Refund(now+1, 2)
		}), charges)
	}
}

// benchmarkAllowed runs one command after the other at the rate given, each on what the
// one before stored, from a window in which that traffic has come for two periods.
func benchmarkAllowed(b *testing.B, perPeriod int64) {
	s, now := hot(b, int(2*perPeriod), minute/perPeriod)
	var buffers [2][window.MaxEncodedLen]byte
	value := s.Append(buffers[0][:0])
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		now += minute / perPeriod
		i++
		value = command(b, &s, value, buffers[i&1][:0], now)
	}
	b.ReportMetric(float64(len(value)), "bytes")
}

func BenchmarkAllowed5PerMinute(b *testing.B)     { benchmarkAllowed(b, 5) }
func BenchmarkAllowed64PerMinute(b *testing.B)    { benchmarkAllowed(b, 64) }
func BenchmarkAllowed100PerMinute(b *testing.B)   { benchmarkAllowed(b, 100) }
func BenchmarkAllowed10000PerMinute(b *testing.B) { benchmarkAllowed(b, 10_000) }

func BenchmarkDenied(b *testing.B) {
	s, now := hot(b, 200, minute/100)
	s.Limit = newLimit(b, 100, minute)
	value := s.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		command(b, &s, value, nil, now+1)
	}
}
