package process_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/older"
	"redis-throttle/tests/server"
)

// The module tries whether the server has the commands that its changes are replicated as. What an operator has renamed
// to one of them may answer, with as much as it likes.
func TestLoadingBesideRenamedCommandsLeavesNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Config(`rename-command DEL ""`, "rename-command COMMAND DEL"))
	path, err := server.ModulePath()
	require.NoError(t, err)
	c := s.Raw()
	answer := len(kit.Do(t, c, "DEL").String())
	require.Greater(t, answer, 20_000, "all commands")
	grown := kit.Growth(t, c, func() { kit.MustDoAll(t, c, "MODULE UNLOAD throttle", "MODULE LOAD "+path) })
	assert.Less(t, grown, int64(answer/2))
}

// On a server without configurations of modules, the module reads its load arguments itself.
func TestLoadArgumentsLeaveNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.WithoutModule(), server.Config("enable-module-command yes"))
	if !s.Program.AtLeast(7, 0) {
		t.Skip("the option is older")
	}
	module, err := server.CheckModulePath()
	require.NoError(t, err)
	c := s.Raw()
	const times, length = 10, 1000
	load := append(older.Load(older.Library(t), module, "RegisterNumericConfig"), "zones", "/"+strings.Repeat("x", length))
	grown := kit.Growth(t, c, func() {
		for range times {
			v, err := c.Do(load...)
			require.NoError(t, err)
			require.True(t, v.IsError())
		}
	})
	assert.Less(t, grown, int64(times*length/2))
}

// The log gives the reason for which the module was not loaded now, not one of an earlier time.
func TestTheReasonOfAnEarlierLoadIsForgotten(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.WithoutModule())
	if !s.Program.AtLeast(7, 0) {
		t.Skip("MODULE LOADEX came with Redis 7.0")
	}
	path, err := server.ModulePath()
	require.NoError(t, err)
	require.True(t, s.Do("MODULE", "LOAD", path, "zones", "/absent").IsError())
	assert.Len(t, s.LogLines("not loaded: throttle.zones: the file /absent cannot be used"), 1)
	require.True(t, s.Do("MODULE", "LOADEX", path, "CONFIG", "throttle.top", fmt.Sprint(1<<30)).IsError())
	assert.Len(t, s.LogLines("not loaded: bad configuration: throttle.top must be an integer"), 1)
}
