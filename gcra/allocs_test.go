// The price of one decision: time, and no allocation.
package gcra_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/gcra"
)

// sink keeps the compiler from dropping the work.
var sink gcra.Decision

func TestTakeAllocatesNothing(t *testing.T) {
	limit := throttle(t, 15, 30, 60)
	empty := uint64(start + tolerance(limit))
	for _, tt := range []struct {
		name     string
		tat      uint64
		quantity int64
	}{
		{"allowed", 0, 1},
		{"denied", empty, 1},
		{"denied and corrected", empty + 1, 1},
		{"never", 0, 17},
		{"peek", 0, 0},
	} {
		assert.Zero(t, testing.AllocsPerRun(100, func() { sink = take(limit, tt.tat, start, tt.quantity) }), tt.name)
	}
}
