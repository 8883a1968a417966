// The price of one command's share: read the bytes, decide, write the bytes. And no allocation.
package fixed_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/fixed"
)

// command does what CL.LIMIT needs of a calendar window, and returns the bytes to store.
func command(w *fixed.Window, value, out []byte, nowNs int64) []byte {
	if w.Decode(value) != nil {
		return value
	}
	changed := w.BringTo(nowNs)
	if w.Available(nowNs) < 1 {
		_, _, reset, next := w.Standing(nowNs)
		sink = w.RetryAfter(nowNs, 1) + reset + next
		if !changed {
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

// windows are what gets measured, each with a limit of count units.
func windows(t testing.TB, count int64) map[string]*fixed.Window {
	berlin, err := calendar.LookupZone([]byte("Europe/Berlin"))
	require.NoError(t, err)
	months, err := calendar.Calendar(1, calendar.Month, berlin, 0)
	require.NoError(t, err)
	inBerlin, err := fixed.NewIn(months, count)
	require.NoError(t, err)
	windows := map[string]*fixed.Window{"minutes": {}, "months in Berlin": {}}
	minutes := newLimit(t, count, minute)
	windows["minutes"].Set(&minutes, &calendar.Cache{})
	windows["months in Berlin"].Set(&inBerlin, &calendar.Cache{})
	return windows
}

func TestNothingAllocates(t *testing.T) {
	for name, w := range windows(t, 5) {
		w.Charge(start, 4, 0)
		roomy := w.Append(nil)
		w.Charge(start, 1, 0)
		full := w.Append(nil)
		out := make([]byte, 0, fixed.MaxEncodedLen)
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			command(w, roomy, out, start)
			command(w, full, out, start)
			command(w, full, out, start-minute)
			command(w, full, out, start+100*24*60*minute)
			w.Refund(start, 1)
		}), name)
	}
}
