// The price of one command's share: read the bytes, decide, write the bytes. And no allocation.
package window_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/window"
)

// command does what CL.LIMIT needs of a window, and returns the bytes to store.
func command(t require.TestingT, limit window.Limit, s *window.State, value, out []byte, nowNs int64) []byte {
	if err := limit.Decode(value, s); err != nil {
		require.NoError(t, err)
	}
	if limit.Available(s, nowNs) < 1 {
		sink = limit.RetryAfter(s, nowNs, 1) + limit.ResetAfter(s, nowNs) + limit.NextAfter(s, nowNs)
		if !limit.Settle(s, nowNs) {
			return value
		}
	}
	limit.Charge(s, nowNs, 1)
	sink = limit.Available(s, nowNs) + limit.ResetAfter(s, nowNs) + limit.NextAfter(s, nowNs) + limit.ExpireAt(s)
	return s.Append(out)
}

// sink keeps the compiler from dropping the work.
var sink int64

func TestNothingAllocates(t *testing.T) {
	var s window.State
	out := make([]byte, 0, window.MaxEncodedLen)
	for _, charges := range []int{0, 1, 64, 1000} {
		limit, state, now := hot(t, charges, second/4)
		value := state.Append(nil)
		full := newLimit(t, 1, minute)
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			command(t, limit, &s, value, out, now+1)        // allowed
			command(t, full, &s, value, out, now+1)         // denied
			command(t, full, &s, value, out, now-30*second) // denied and corrected
			limit.ChargeDenied(&s, now+1, 2)
			limit.Refund(&s, now+1, 2)
		}), charges)
	}
}

// benchmarkAllowed runs one command after the other at the rate given, each on what the
// one before stored, from a window in which that traffic has come for two periods.
func benchmarkAllowed(b *testing.B, perPeriod int64) {
	limit, s, now := hot(b, int(2*perPeriod), minute/perPeriod)
	var buffers [2][window.MaxEncodedLen]byte
	value := s.Append(buffers[0][:0])
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		now += minute / perPeriod
		i++
		value = command(b, limit, &s, value, buffers[i&1][:0], now)
	}
	b.ReportMetric(float64(len(value)), "bytes")
}

func BenchmarkAllowed5PerMinute(b *testing.B)     { benchmarkAllowed(b, 5) }
func BenchmarkAllowed64PerMinute(b *testing.B)    { benchmarkAllowed(b, 64) }
func BenchmarkAllowed100PerMinute(b *testing.B)   { benchmarkAllowed(b, 100) }
func BenchmarkAllowed10000PerMinute(b *testing.B) { benchmarkAllowed(b, 10_000) }

func BenchmarkDenied(b *testing.B) {
	_, s, now := hot(b, 200, minute/100)
	limit := newLimit(b, 100, minute)
	value := s.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		command(b, limit, &s, value, nil, now+1)
	}
}
