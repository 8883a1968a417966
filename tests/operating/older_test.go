package operating_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/older"
	"redis-throttle/tests/server"
)

// What the module uses where it is there, and Redis 6.2 does not have.
var sinceRedis62 = []string{
	"GetCommand", "SetCommandInfo", "AddACLCategory", "SetCommandACLCategories", "RegisterNumericConfig", "LoadConfigs",
	"ReplyWithMap", "CachedMicroseconds", "AvoidReplicaTraffic",
}

// Every command works where the module API is as old as that of Redis 6.2, and where any one of the functions that came
// later is missing.
func TestNewerFunctionsOfTheServerMayBeMissing(t *testing.T) {
	t.Parallel()
	sets := [][]string{sinceRedis62}
	for _, name := range sinceRedis62 {
		sets = append(sets, []string{name})
	}
	for _, missing := range sets {
		t.Run(strings.Join(missing, " "), func(t *testing.T) {
			t.Parallel()
			s := older.Start(t, missing, "top", "10")
			c := s.Raw()
			for i, call := range append([]string{"CL.BAN %s 1h", "CL.LEASE %s SLOTS 1 TTL 1h ID a", "CL.LEASES %s", "CL.INSPECT %s", "CL.MLIMIT 1 %s RATE 5/s"}, kit.CallsOfAll...) {
				v := kit.Do(t, c, call, fmt.Sprint("key", i))
				assert.False(t, v.IsError(), "%s answers %v", call, v)
			}
			assert.EqualValues(t, 1, kit.Ask(t, c, "CL.LIMIT denied RATE 1/h COST 2").Limited)
			assert.Len(t, kit.Do(t, c, "CL.TOP").Elems, 1, "the load argument")
			assert.Equal(t, `*["a" "b" "c"]`, kit.Do(t, c, "COMMAND GETKEYS CL.MLIMIT 3 a b c RATE 5/s").String())
			if s.Program.AtLeast(7, 2) && !slices.Contains(missing, "SetCommandACLCategories") && !slices.Contains(missing, "GetCommand") &&
				!slices.Contains(missing, "SetCommandInfo") {
				assert.Subset(t, sortedTexts(s.MustDo("COMMAND", "INFO", "cl.throttle").Elems[0].Elems[6]), []string{"@fast", "@write"})
			}
			// The server does not know how many arguments there must be.
			for _, call := range []string{"CL.THROTTLE", "CL.LIMIT", "CL.PEEK", "CL.LEASES", "CL.MLIMIT", "CL.MLIMIT 1", "CL.LIMIT key", "CL.LEASES k COUNT"} {
				assert.True(t, kit.Do(t, c, "%s", call).IsError(), call)
			}
			if len(missing) > 1 {
				assert.Equal(t, "ERR wrong number of arguments for 'cl.leases' command", kit.Do(t, c, "CL.LEASES").Text)
				before := s.InfoInt("throttle", "throttle_errors_arity")
				kit.Do(t, c, "CL.PEEK")
				assert.Equal(t, before+1, s.InfoInt("throttle", "throttle_errors_arity"))
				kit.Do(t, c, "HELLO 3")
				assert.Equal(t, "*", string(kit.Do(t, c, "CL.PEEK key RATE 5/s").Kind), "there are no maps")
			}
		})
	}
}

// Where a function is missing that the module needs, it is not loaded, and the log says why.
func TestAMissingFunctionIsNamed(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.WithoutModule(), server.Config("enable-module-command yes"))
	if !s.Program.AtLeast(7, 0) {
		t.Skip("the option is older")
	}
	module, err := server.ModulePath()
	require.NoError(t, err)
	library := older.Library(t)
	for _, name := range []string{"CreateCommand", "StringDMA", "ZsetAdd", "ServerInfoGetFieldC", "ReplyWithStringBuffer"} {
		require.True(t, s.Do(older.Load(library, module, name)...).IsError(), name)
		assert.Len(t, s.LogLines("not loaded: this server has no RedisModule_"+name+". Use Redis 6.2.2 or later, or Valkey"), 1)
	}
	assert.Empty(t, kit.ThrottleModules(s))
	s.MustDo("MODULE", "LOAD", module)
	assert.False(t, s.Do(kit.RawCallOf("key", "15 30 60 1")...).IsError())
}
