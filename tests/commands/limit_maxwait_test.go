package commands_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// A hundred callers at once on ten a second: they are told to hold their requests for
// 0, 100, ... 5000 ms, and who would have to wait longer is limited and charged nothing.
func TestCallersAtOnceAreSpacedOut(t *testing.T) {
	t.Parallel()
	const callers, spacing, most = 100, 100 * time.Millisecond, 5 * time.Second
	s := server.Start(t)
	c := s.Raw()
	from := kit.NowIn(t, c) - int64(kit.ClockSkew)
	commands := [][]string{{"MULTI"}}
	for range callers {
		commands = append(commands, strings.Fields("CL.LIMIT key RATE 10/s BURST 1 MAXWAIT 5s"))
	}
	replies, err := c.Pipeline(append(commands, []string{"EXEC"})...)
	require.NoError(t, err)
	to := kit.NowIn(t, c) + 999 + int64(kit.ClockSkew)
	elapsed := time.Duration(to - from)
	if s.Program.AtLeast(7, 2) {
		elapsed = 0 // the clock stands still in a transaction
	}
	var granted, limited int64
	for i, v := range replies[callers+1].Elems {
		a, err := kit.StandingIn(v)
		require.NoError(t, err)
		slot := time.Duration(granted) * spacing
		if a.Limited == 1 {
			limited++
			assert.Zero(t, a.Granted)
			// The next one's slot comes within the 5 s once so much has passed.
			require.Greater(t, slot, most, "caller %d", i)
			assert.LessOrEqual(t, a.RetryAfterMs, kit.CeilMs(int64(slot-most)))
			assert.GreaterOrEqual(t, a.RetryAfterMs, kit.CeilMs(int64(slot-most-elapsed)))
			continue
		}
		require.Less(t, slot-elapsed, most+1, "caller %d", i)
		assert.EqualValues(t, 1, a.Granted)
		assert.LessOrEqual(t, a.WaitMs, kit.CeilMs(int64(slot)), "caller %d", i)
		assert.GreaterOrEqual(t, a.WaitMs, kit.CeilMs(int64(slot-elapsed)), "caller %d", i)
		granted++
	}
	assert.GreaterOrEqual(t, granted, int64(51))
	if elapsed == 0 {
		assert.EqualValues(t, 51, granted)
	}
	assert.EqualValues(t, callers, granted+limited)

	// Each was charged once: so long it takes until all are through.
	peek, peekFrom, peekTo := kit.Timed(t, c, "CL.PEEK key RATE 10/s BURST 1")
	a, err := kit.StandingIn(peek[0])
	require.NoError(t, err)
	all := granted * int64(spacing)
	assert.LessOrEqual(t, a.ResetAfterMs, kit.CeilMs(all-(peekFrom-to)))
	assert.GreaterOrEqual(t, a.ResetAfterMs, kit.CeilMs(all-(peekTo-from)))
}
