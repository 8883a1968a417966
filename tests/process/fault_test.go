package process_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

func TestPanicIsAnErrorAndALogLineAndNoMore(t *testing.T) {
	t.Parallel()
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	w := kit.StartWatched(t, server.Module(path))
	const key = "fault:panic%s%n"
	call := kit.RawCallOf(key, "15 30 60 1")
	before := w.Traces(t, key)
	errorLine := func(text string) {
		t.Helper()
		assert.True(t, strings.HasPrefix(text, "ERR internal error"), text)
	}

	errorLine(w.Call(t, call...).Text)
	require.Len(t, w.LogLines("panic"), 1, "one line in the log")

	replies, err := w.Raw().Pipeline([]string{"MULTI"}, call, kit.RawCallOf("other", "15 30 60 0"), []string{"EXEC"})
	require.NoError(t, err)
	require.Len(t, replies[3].Elems, 2)
	errorLine(replies[3].Elems[0].Text)
	assert.False(t, replies[3].Elems[1].IsError())

	caught := w.Call(t, "EVAL", "return redis.pcall('CL.THROTTLE', KEYS[1], 15, 30, 60).err", "1", key)
	assert.Contains(t, caught.Text, "internal error")

	const storm = 10_000
	commands := make([][]string, storm)
	for i := range commands {
		commands[i] = call
	}
	replies, err = w.Raw().Pipeline(commands...)
	require.NoError(t, err)
	for _, v := range replies {
		errorLine(v.Text)
	}
	assert.Len(t, w.LogLines("panic"), 3+storm)
	assert.Equal(t, before, w.Traces(t, key), "a call that panicked changes nothing")

	a, err := kit.AnswerIn(w.Call(t, kit.RawCallOf("healthy", "15 30 60 1")...))
	require.NoError(t, err)
	assert.Equal(t, kit.NewAnswer(0, 16, 15, -1, 2), a)
}

func TestShippedModuleHasNoFaultToInject(t *testing.T) {
	t.Parallel()
	a, err := kit.Throttle(t.Context(), server.Start(t).Client(), "fault:panic", "15 30 60 1")
	require.NoError(t, err)
	assert.Equal(t, kit.NewAnswer(0, 16, 15, -1, 2), a)
}

// A fault when it is a caller's turn is that caller's error, and those behind have their turn.
func TestAPanicInTurnIsTheCallersError(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	kit.AskLease(t, c, "CL.LEASE fault:turn SLOTS 1 TTL 1h ID a")
	first := kit.WaitForLease(t, s, 1, "CL.LEASE fault:turn SLOTS 1 TTL 1h ID first TIMEOUT 0")
	second := kit.WaitForLease(t, s, 2, "CL.LEASE fault:turn SLOTS 1 TTL 1h ID second TIMEOUT 0")
	assert.EqualValues(t, 1, kit.Do(t, c, "CL.RELEASE fault:turn ID a").Int)
	for _, waiting := range []*resp.Conn{first, second} {
		v, err := waiting.Receive()
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(v.Text, "ERR internal error"), v.Text)
	}
	assert.Len(t, s.LogLines("panic"), 2)
	assert.Equal(t, "2", s.Info("throttle")["throttle_errors_internal"])
	assert.Equal(t, []string{"0", "1"}, kit.LeasesOf(s, "waiting", "granted"))
	assert.EqualValues(t, 0, kit.Do(t, c, "EXISTS fault:turn").Int)
}
