package process_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/sharedlib"
)

// A name that is taken stays whose it is, and the log says so once. It may be the server's own after an upgrade, which
// must not keep it from starting.
func TestANameThatIsTakenIsLeftAlone(t *testing.T) {
	t.Parallel()
	path, err := server.ModulePath()
	require.NoError(t, err)
	other := sharedlib.Build(t, "other", []byte(strings.ReplaceAll(otherThrottle, "cl.throttle", "gcra")))
	s := server.Start(t, server.WithoutModule(), server.Config("loadmodule "+other), server.Config("loadmodule "+path+" aliases GCRA,RL.THROTTLE"))
	assert.Len(t, s.LogLines("throttle.aliases: the server or another module has a command GCRA, which is called instead"), 1)
	assert.Empty(t, s.LogLines("a command RL.THROTTLE"))
	assert.Len(t, s.MustDo("RL.THROTTLE", "k", "15", "30", "60").Elems, 5)
	assert.EqualValues(t, 16, s.MustDo("CL.THROTTLE", "l", "15", "30", "60").Elems[1].Int)
	s.MustDo("MODULE", "UNLOAD", "throttle")
	s.MustDo("MODULE", "UNLOAD", "other")
	s.MustDo("MODULE", "LOAD", path, "aliases", "gcra")
	assert.Len(t, s.MustDo("GCRA", "k", "15", "30", "60").Elems, 5)
	assert.Contains(t, s.Do("RL.THROTTLE", "k", "15", "30", "60").Text, "unknown command")
}
