package window_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/limiter/window"
)

func TestADeniedChargeLeavesSpareUnitsBehind(t *testing.T) {
	for _, tt := range []struct {
		rule                  string
		used, quantity, spare int64
		charged, left         int64
	}{
		{"all but the spare ones", 4, 8, 3, 7, 3},
		{"the oldest make room, none to spare", 10, 1, 0, 1, 0},
		{"the last unit that is not to spare", 0, 1, 9, 1, 9},
		{"nothing where all are to spare", 4, 8, 10, 0, 6},
		{"nothing where nothing is asked for", 4, 0, 3, 0, 6},
	} {
		w := window.Window{Limit: newLimit(t, 10, minute)}
		w.Charge(start, tt.used, 0)
		assert.Equal(t, tt.charged, w.ChargeDenied(start+1, tt.quantity, tt.spare), tt.rule)
		assert.Equal(t, tt.left, w.Available(start+1), tt.rule)
	}
}
