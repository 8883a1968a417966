package commands_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
)

// A reservation of CL.WAIT neither forgets other limits nor is forgotten by calls that name others. A caller that
// leaves gives its slot back, and everything else stays.
func TestAReservationAndOtherLimitsLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	kit.Ask(t, c, "CL.LIMIT k WINDOW 5/100d COST 5")
	require.EqualValues(t, 0, kit.Ask(t, c, "CL.LIMIT k RATE 1/h").Limited)
	first := kit.StartWaiting(t, s, "CL.WAIT k RATE 1/h TIMEOUT 0")
	kit.AwaitWaiting(t, c, 1)
	second := kit.StartWaiting(t, s, "CL.WAIT k RATE 1/h TIMEOUT 0")
	kit.AwaitWaiting(t, c, 2)
	kit.Ask(t, c, "CL.LIMIT k FIXED 5/36500d COST 5")
	reset := kit.Ask(t, c, "CL.PEEK k RATE 1/h").ResetAfterMs
	require.Greater(t, reset, int64(2*3_600_000))
	require.NoError(t, first.Close())
	kit.AwaitWaiting(t, c, 1)
	require.Eventually(t, func() bool {
		return kit.Ask(t, c, "CL.PEEK k RATE 1/h").ResetAfterMs <= reset-3_500_000
	}, 30*time.Second, time.Millisecond, "one slot is given back")
	require.NoError(t, second.Close())
	kit.AwaitWaiting(t, c, 0)
	require.Eventually(t, func() bool {
		return kit.Ask(t, c, "CL.PEEK k RATE 1/h").ResetAfterMs <= 3_600_000
	}, 30*time.Second, time.Millisecond, "and the other one")
	for _, quota := range []string{"WINDOW 5/100d", "FIXED 5/36500d", "RATE 1/h"} {
		assert.EqualValues(t, 1, kit.Ask(t, c, "CL.PEEK k %s", quota).Limited, quota)
	}
}
