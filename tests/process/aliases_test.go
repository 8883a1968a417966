package process_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/sharedlib"
)

// A name that is taken stays whose it is, and the log says so once. It may be the server's own after an upgrade, which must not keep it from starting.
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

// A name that is none is refused, with those that there are.
func TestAWrongAliasIsNoAlias(t *testing.T) {
	t.Parallel()
	path, err := server.ModulePath()
	require.NoError(t, err)
	s := server.Start(t, server.WithoutModule())
	for args, says := range map[string]string{
		"aliases yes":   `not loaded: throttle.aliases: "yes" is no other name of CL.THROTTLE: there are RL.THROTTLE and GCRA, separated by a comma`,
		"aliases":       "not loaded: load argument aliases: the names are missing, such as RL.THROTTLE,GCRA",
		"aliasses gcra": `not loaded: unknown load argument "aliasses": there are "top"`,
	} {
		require.True(t, s.Do(append([]string{"MODULE", "LOAD", path}, strings.Fields(args)...)...).IsError(), args)
		assert.Len(t, s.LogLines(says), 1, args)
	}
	assert.Contains(t, s.Do("GCRA", "k", "15", "30", "60").Text, "unknown command")
}
