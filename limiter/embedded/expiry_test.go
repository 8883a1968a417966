package embedded_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
)

// A key never expires before its limits are full. In use it stays up to a quarter longer, so fewer calls move its
// expiry. The figures are in docs/internals/speed.md.
func TestTheExpiryOfAKeyInUseIsSeldomMoved(t *testing.T) {
	r := chance.New(t)
	for _, tt := range []struct {
		limit string
		every time.Duration // the mean between two calls of a key
		most  float64       // of the allowed calls on a key that is there, those that move its expiry
	}{
		{"RATE 30/m", 2 * time.Second, 0.7},
		{"RATE 30/m BURST 600", 1900 * time.Millisecond, 0.6},
		{"RATE 1000/d", 90 * time.Second, 0.8},
		{"WINDOW 100/m", time.Second, 0.2},
		{"RATE 10/d", 5 * time.Hour, 1},
	} {
		h := newHost()
		var calls, moves, second, due, stays float64
		expires := map[string]int64{}
		for range 20_000 {
			h.now = h.now.Add(time.Duration(r.ExpFloat64() * float64(tt.every) / 50))
			key := fmt.Sprint(r.IntN(50))
			before := h.get(key) != nil
			reply := h.do("CL.LIMIT " + key + " " + tt.limit)
			if reply.Integers[0] == 1 {
				continue
			}
			full, now := h.now.Add(time.Duration(reply.Integers[5])*time.Millisecond), h.now.UnixMilli()
			at := h.get(key).ExpireAtMs
			require.GreaterOrEqual(t, at, full.UnixMilli()-1, tt.limit)
			least := full.UnixMilli() - now
			require.LessOrEqual(t, at-now, least+1000+min((least+2000)/4, 3_600_000), tt.limit)
			due, stays = due+float64(least), stays+float64(at-now)
			if !before {
				continue
			}
			calls++
			if at != expires[key] {
				moves++
			}
			if (full.UnixMilli()+999)/1000 != expires[key+" second"] {
				second++
			}
			expires[key], expires[key+" second"] = at, (full.UnixMilli()+999)/1000
		}
		t.Logf("%s: %.0f %% of allowed calls move the expiry, %.0f %% if it were rounded to a second; keys stay %.0f %% longer than they have to",
			tt.limit, 100*moves/calls, 100*second/calls, 100*(stays/due-1))
		assert.LessOrEqual(t, moves/calls, tt.most, tt.limit)
	}
}
