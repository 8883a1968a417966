// The price of one command's share: read the bytes, decide, write the bytes. And no allocation.
package fixed_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/fixed"
)

// command does what CL.LIMIT needs of a calendar window, and returns the bytes to store.
func command(limit fixed.Limit, s *fixed.State, value, out []byte, nowNs int64) []byte {
	if limit.Decode(value, s) != nil {
		return value
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
	limit := newLimit(t, 5, minute)
	var s fixed.State
	limit.Charge(&s, start, 4)
	roomy := s.Append(nil)
	limit.Charge(&s, start, 1)
	full := s.Append(nil)
	out := make([]byte, 0, fixed.MaxEncodedLen)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		command(limit, &s, roomy, out, start)
		command(limit, &s, full, out, start)
		command(limit, &s, full, out, start-minute)
		limit.Refund(&s, start, 1)
	}))
}

func BenchmarkAllowed(b *testing.B) {
	limit := newLimit(b, 1_000_000_000, minute)
	var s fixed.State
	var buffer [fixed.MaxEncodedLen]byte
	value, now := s.Append(buffer[:0]), start
	b.ReportAllocs()
	for b.Loop() {
		now += minute / 100
		value = command(limit, &s, value, buffer[:0], now)
	}
	b.ReportMetric(float64(len(value)), "bytes")
}

func BenchmarkDenied(b *testing.B) {
	limit := newLimit(b, 1, minute)
	var s fixed.State
	limit.Charge(&s, start, 1)
	value := s.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		command(limit, &s, value, nil, start+1)
	}
}
