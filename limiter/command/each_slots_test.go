package command_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

// Groups of SLOTS have an array like limits, in their place.
func TestEachGroupOfSlots(t *testing.T) {
	const s = time.Second
	var h embedded.Host
	now := start
	for _, step := range []struct {
		after time.Duration
		line  string
		want  [][command.EachFields]int64 // nil: not looked at
	}{
		{0, admit + "a EACH", [][5]int64{{0, 10, 9, -1, 60000}, {0, 3600, 3500, -1, 100000}, {0, 2, 1, -1, 30000}}},
		{10 * s, admit + "a EACH", [][5]int64{{0, 10, 9, -1, 50000}, {0, 3600, 3510, -1, 90000}, {0, 2, 1, -1, 30000}}},
		{0, admit + "b EACH COMPACT", [][5]int64{{0, 10, 8, -1, 110000}, {0, 3600, 3410, -1, 190000}, {0, 2, 0, -1, 30000}}},
		{0, admit + "c EACH", [][5]int64{{0, 10, 8, -1, 110000}, {0, 3600, 3410, -1, 190000}, {1, 2, 0, 30000, 30000}}},
		{0, "CL.MLIMIT 2 run req SLOTS 0 TTL 1s NEXT RATE 60/h BURST 10 ID x EACH", [][5]int64{{1, 0, 0, -1, 30000}, {0, 10, 8, -1, 110000}}},
		{0, "CL.RELEASE run ID b", nil},
		{0, "CL.MLIMIT 2 req run RATE 60/h BURST 10 TAKE 10 NEXT SLOTS 2 TTL 1m ID d EACH", [][5]int64{{1, 10, 8, 110000, 110000}, {0, 2, 1, -1, 30000}}},
		{0, "CL.BAN req 1h", nil},
		{0, "CL.MLIMIT 2 req run RATE 60/h BURST 10 NEXT SLOTS 2 TTL 1m ID d EACH", [][5]int64{{0, 10, 8, -1, 110000}, {0, 2, 1, -1, 30000}}},
		{0, "CL.SETTLE 2 tok run RATE 3600/h TAKE 100 USED 40 NEXT SLOTS ID d EACH", [][5]int64{{0, 3600, 3410, -1, 190000}, {1, -1, -1, -1, 30000}}},
		{0, settle + "40" + slots + "a EACH", [][5]int64{{0, 3600, 3470, -1, 130000}, {0, -1, -1, -1, 0}}},
		{0, settle + "40" + slots + "a EACH", [][5]int64{{0, 3600, 3470, -1, 130000}, {1, -1, -1, -1, 0}}},
	} {
		now = now.Add(step.after)
		r := do(&h, now, step.line)
		require.Empty(t, r.Error, step.line)
		if step.want != nil {
			assert.Equal(t, step.want, r.Each, step.line)
		}
	}
}
