package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// SCRIPT DEBUG YES runs the next script in a forked child, where Go has no thread but the one
// that forked. A decision needs no other.
func TestScriptDebuggerRunsCommandsInAForkedChild(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	require.False(t, s.Do(rawCallOf("key", "15 1 1h 1")...).IsError())
	for range 20 {
		c := s.Raw()
		require.Equal(t, "OK", do(t, c, "SCRIPT DEBUG YES").Text)
		require.NoError(t, c.Send("EVAL", `for i = 1, 1000 do redis.call('CL.LIMIT', KEYS[1], 'RATE', '1/h', 'BURST', '16', 'WINDOW', '9/s') end
return {'remaining', redis.call('CL.THROTTLE', KEYS[2], 15, 1, 3600)[3]}`, "2", "other", "key"))
		require.NoError(t, c.Flush())
		_, err := c.Receive() // stopped at the first line; what comes from here on the child reads
		require.NoError(t, err)
		require.NoError(t, c.Send("continue"))
		require.NoError(t, c.Flush())
		end, err := c.Receive()
		require.NoError(t, err)
		assert.Equal(t, `*["<endsession>"]`, end.String())
		result, err := c.Receive()
		require.NoError(t, err)
		assert.Equal(t, `*["remaining" 14]`, result.String())
		require.NoError(t, c.Close())
	}
	a, err := answerIn(s.Do(rawCallOf("key", "15 1 1h 0")...))
	require.NoError(t, err)
	assert.EqualValues(t, 15, a.Remaining, "the child's changes went with it")
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "other").Int)
}
