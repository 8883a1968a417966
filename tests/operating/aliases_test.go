package operating_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// Without the setting there are no other names.
func TestThereAreNoOtherNamesUnlessTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, name := range []string{"RL.THROTTLE", "GCRA"} {
		assert.Contains(t, s.Do(name, "k", "15", "30", "60").Text, "unknown command", name)
	}
	if s.Program.AtLeast(7, 0) {
		assert.Empty(t, kit.Pairs(s.MustDo("CONFIG", "GET", "throttle.aliases"))["throttle.aliases"].Text)
	}
}

// The other names are CL.THROTTLE in all that there is: state, reply, counters, permissions, where the key is, what
// replicas get.
func TestOtherNamesOfCLThrottle(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("aliases", "RL.THROTTLE,gcra"), topology.QuietLinks())
	c := s.Raw()
	for i, call := range []string{"CL.THROTTLE k 15 30 86400", "RL.THROTTLE k 15 30 1d 2", "GCRA k 15 30 86400", "gcra k 15 30 86400.0 TOKENS 3"} {
		v := kit.Do(t, c, "%s", call)
		require.Len(t, v.Elems, 5, "%s: %v", call, v)
		assert.EqualValues(t, []int64{0, 16, []int64{15, 13, 12, 9}[i], -1}, []int64{v.Elems[0].Int, v.Elems[1].Int, v.Elems[2].Int, v.Elems[3].Int}, call)
	}
	assert.EqualValues(t, 9, kit.Do(t, c, "CL.THROTTLE k 15 30 86400 0").Elems[2].Int)
	info := s.Info("throttle")
	assert.Equal(t, []string{"5", "5", "5"}, []string{info["throttle_calls"], info["throttle_calls_throttle"], info["throttle_allowed"]})
	assert.NotContains(t, info, "throttle_calls_gcra")
	if !s.Program.AtLeast(7, 0) {
		return
	}
	assert.Equal(t, "RL.THROTTLE,gcra", kit.Pairs(s.MustDo("CONFIG", "GET", "throttle.aliases"))["throttle.aliases"].Text)
	assert.Contains(t, s.Do("CONFIG", "SET", "throttle.aliases", "").Text, "immutable")
	all := s.MustDo("COMMAND", "INFO", "cl.throttle", "rl.throttle", "gcra").Elems
	for _, alias := range all[1:] {
		for i, field := range all[0].Elems {
			if i == 0 || i == 9 { // the name, and subcommands
				continue
			}
			assert.Equal(t, field, alias.Elems[i], alias.Elems[0].Text)
		}
	}
	assert.Equal(t, "k", s.MustDo("COMMAND", "GETKEYS", "GCRA", "k", "1", "1", "1").Elems[0].Text)

	replica := server.Start(t, topology.QuietLinks(), server.ReplicaOf(s)) // which knows no other names
	topology.AwaitReplicas(t, s, replica)
	kit.Do(t, c, "GCRA replicated 15 30 86400")
	kit.Do(t, c, "RL.THROTTLE replicated 15 30 86400")
	topology.AwaitReplicas(t, s, replica)
	assert.Equal(t, s.MustDo("GET", "replicated").Text, replica.MustDo("GET", "replicated").Text)
	assert.NotEmpty(t, replica.MustDo("GET", "replicated").Text)
}

// The setting also stands in the configuration file, and CONFIG REWRITE keeps it.
func TestOtherNamesAreASettingOfTheFile(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("aliases", "RL.THROTTLE"))
	if !s.Program.AtLeast(7, 0) {
		t.Skip("the server has no configurations of modules")
	}
	byFile := server.Start(t, server.Config("throttle.aliases GCRA"))
	for s, name := range map[*server.Server]string{s: "RL.THROTTLE", byFile: "GCRA"} {
		s.Configure(server.KeepConfig())
		s.MustDo("CONFIG", "REWRITE")
		s.Restart()
		assert.Len(t, s.MustDo(name, "k", "15", "30", "60").Elems, 5)
	}
	wrong := server.Start(t)
	wrong.Configure(server.Config("throttle.aliases GCRE"))
	require.Error(t, wrong.TryRestart())
	assert.Contains(t, wrong.Log(), `"GCRE" is no other name of CL.THROTTLE`)
}
