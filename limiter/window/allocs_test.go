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
