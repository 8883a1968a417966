package process_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Unloading and loading again, ten times, while callers call. A bucket does not notice: its state is a string of the
// server's.
func TestUnloadAndLoadUnderLoad(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	path, err := server.ModulePath()
	require.NoError(t, err)
	l := startLoadThatReconnects(t, s)
	var threads int
	for round := range int64(10) {
		a, err := kit.AnswerIn(s.Do(kit.RawCallOf("bucket", "99 1 1d 1")...))
		require.NoError(t, err)
		assert.Equal(t, 99-round, a.Remaining)
		s.MustDo("MODULE", "UNLOAD", "throttle")
		v := s.Do(kit.RawCallOf("bucket", "99 1 1d 1")...)
		require.Contains(t, v.Text, "unknown command")
		calls := l.Calls.Load()
		require.Eventually(t, func() bool { return l.Calls.Load() > calls }, 60*time.Second, time.Millisecond)
		s.MustDo("MODULE", "LOAD", path)
		if round == 0 {
			threads = threadsOf(t, s)
		}
		calls = l.Calls.Load()
		require.Eventually(t, func() bool { return l.Calls.Load() > calls }, 60*time.Second, time.Millisecond)
	}
	l.Stop()
	assert.LessOrEqual(t, threadsOf(t, s), threads+2, "threads are not left behind by each load")
	assert.Len(t, s.LogLines("<throttle>"), 11)
}

// startLoadThatReconnects is startLoad for callers whose connections are closed now and then.
func startLoadThatReconnects(t *testing.T, s *server.Server) *kit.Load {
	t.Helper()
	l := &kit.Load{}
	for worker := range 4 {
		random := rand.New(rand.NewPCG(uint64(worker), 0))
		l.Wg.Go(func() {
			for !l.Stopped.Load() && !t.Failed() {
				c, err := resp.Dial(s.Addr())
				if !assert.NoError(t, err) {
					return
				}
				_ = l.KeepBusy(t, c, random, kit.LoadCommand, func(command []string, v resp.Value) bool {
					gone := command[0] == "CL.THROTTLE" && strings.HasPrefix(v.Text, "ERR unknown command")
					return !v.IsError() || gone
				})
				_ = c.Close()
			}
		})
	}
	t.Cleanup(l.Stop)
	return l
}

// Servers keep a pointer to the last command of each connection and to those that are queued, also when they free the
// command with its module. CLIENT LIST reads it, EXEC runs it, and Redis 8.0 runs it when a connection repeats the
// command.
func TestNoConnectionKeepsACommandOfAModuleThatIsUnloaded(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	const throttle = "CL.THROTTLE key 15 30 60 1"
	var using []*resp.Conn
	for _, calls := range [][]string{{throttle}, {"cl.limit l RATE 1/s"}, {"CL.LEASES j"}, {"MULTI", throttle, "SET k v"}} {
		c := s.Raw()
		for _, call := range calls {
			require.False(t, kit.Do(t, c, "%s", call).IsError(), call)
		}
		using = append(using, c)
	}
	others := []*resp.Conn{s.Raw(), s.Raw(), s.Raw()}
	kit.Do(t, others[0], "SET name CL.THROTTLE")
	kit.Do(t, others[2], "MULTI")  // and nothing queued
	kit.Do(t, others[1], throttle) // forgotten with the next command
	require.Equal(t, "OK", kit.Do(t, others[1], "CLIENT SETNAME cmd=cl.throttle").Text)

	s.MustDo("MODULE", "UNLOAD", "throttle")
	clients := s.MustDo("CLIENT", "LIST").Text
	assert.NotContains(t, clients, " cmd=cl.")
	for i, c := range using {
		_, err := c.Do("PING")
		assert.Error(t, err, "connection %d is closed", i)
	}
	for _, c := range others {
		assert.Contains(t, kit.Do(t, c, throttle).Text, "unknown command")
	}
}

// A connection may have used a command by another name (throttle.aliases), which only the registration shows.
func TestNoConnectionKeepsAnAliasOfAModuleThatIsUnloaded(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("aliases", "GCRA,RL.THROTTLE"))
	for _, call := range []string{"GCRA key 15 30 60", "rl.throttle key 15 30 60"} {
		for range 30 {
			require.False(t, kit.Do(t, s.Raw(), "%s", call).IsError(), call)
		}
	}
	s.MustDo("MODULE", "UNLOAD", "throttle")
	clients := s.MustDo("CLIENT", "LIST").Text
	assert.Equal(t, 1, strings.Count(clients, "\n"), "the connections that used a command are closed:\n%s", clients)
	assert.Contains(t, clients, " cmd=client|list ")
}

// Redis 8.0 and Valkey 8.0 apply the rules of all users again when a module goes, and abort at a rule that names a
// command that is gone.
func TestUnloadIsRefusedWhileAUserNamesACommand(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("aliases", "GCRA"))
	if s.Program.IsDev() {
		t.Skip("throttle-dev unloads no modules")
	}
	// The last ones are selectors, which came with Redis 7.0.
	rules := []string{"+cl.limit", "-CL.THROTTLE", "+gcra", "+cl.limit|first"}
	if !s.Do("ACL", "SETUSER", "app", "(+cl.peek ~x)").IsError() {
		rules = append(rules, "(~* +cl.limit)", "(+cl.limit ~*)", "(~x -@all +cl.peek +get)")
	}
	for _, rule := range rules {
		s.MustDo("ACL", "DELUSER", "app")
		others := "-@all"
		if rule[0] == '-' {
			others = "+@all"
		}
		if s.Do("ACL", "SETUSER", "app", "on", ">password", "~*", others, rule).IsError() {
			continue // this server knows no rules about first arguments of such a command
		}
		require.True(t, s.Do("MODULE", "UNLOAD", "throttle").IsError(), rule)
		if len(s.LogLines("unload blocked: An ACL user")) > 0 {
			continue // Valkey 9.1 looks by itself
		}
		lines := s.LogLines("of user app names a command of the module")
		require.NotEmpty(t, lines, rule)
		assert.Regexp(t, `MODULE UNLOAD is refused: the rule [+-](cl\.|gcra)[a-z|]* of user app`, lines[len(lines)-1], rule)
	}
	s.MustDo("ACL", "SETUSER", "app", "reset", "on", "~+cl.limit", "+@all", "-set", "-cluster")
	s.MustDo("ACL", "SETUSER", "+cl.limit", "on", "~cl.limit", "+@write")
	s.MustDo("MODULE", "UNLOAD", "throttle")
	s.MustDo("ACL", "SETUSER", "other", "on", "+@all")
	assert.Len(t, s.MustDo("ACL", "LIST").Elems, 4)
}

// Where ACL is renamed, the module cannot see rules, so it stays.
func TestUnloadWithoutACLIsRefused(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Config(`rename-command ACL ""`))
	if s.Program.IsDev() {
		t.Skip("throttle-dev renames no commands")
	}
	require.True(t, s.Do("MODULE", "UNLOAD", "throttle").IsError())
	assert.Len(t, s.LogLines("MODULE UNLOAD is refused: ACL LIST is refused or renamed"), 1)
}

// Where CLIENT is renamed, the module cannot see who has sent its commands, and says so.
func TestUnloadWithoutCLIENTIsLogged(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Config(`rename-command CLIENT ""`))
	if s.Program.IsDev() {
		t.Skip("throttle-dev renames no commands")
	}
	s.MustDo("MODULE", "UNLOAD", "throttle")
	assert.Len(t, s.LogLines("CLIENT LIST is refused or renamed: disconnect all clients"), 1)
}

// What the server answers while the module is unloaded is freed: the list of all connections, and the number of those
// that were closed.
func TestUnloadingLeavesNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	if s.Program.IsDev() {
		t.Skip("throttle-dev unloads no modules")
	}
	path, err := server.ModulePath()
	require.NoError(t, err)
	const rounds, connections = 10, 100
	// The server makes the buffers of its connections larger and smaller, and frees those of closed ones a little
	// later.
	usedMemory := func() int64 {
		lowest := int64(math.MaxInt64)
		for range 20 {
			lowest = min(lowest, s.InfoInt("memory", "used_memory"))
		}
		return lowest
	}
	reload := func() int64 {
		for range rounds {
			for range connections {
				require.False(t, kit.Do(t, s.Raw(), "CL.THROTTLE key 15 30 60 1").IsError())
			}
			s.MustDo("MODULE", "UNLOAD", "throttle")
			require.Eventually(t, func() bool { return s.InfoInt("clients", "connected_clients") < connections }, 60*time.Second, time.Millisecond)
			s.MustDo("MODULE", "LOAD", path)
		}
		return usedMemory()
	}
	reload()
	before := reload()
	grown := reload() - before
	t.Logf("%d connections closed: %d bytes", rounds*connections, grown)
	// A number takes more than 64 bytes, and a list of connections more than 64 for each.
	assert.Less(t, grown, int64(rounds*connections*64), "used_memory")
}

// A command that is queued behind MODULE UNLOAD in one transaction would crash the server.
func TestUnloadInATransactionIsRefused(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	if s.Program.IsDev() {
		t.Skip("throttle-dev unloads no modules")
	}
	c := s.Raw()
	kit.Do(t, c, "MULTI")
	kit.Do(t, c, "MODULE UNLOAD throttle")
	kit.Do(t, c, "CL.THROTTLE key 15 30 60 1")
	replies := kit.Do(t, c, "EXEC").Elems
	require.Len(t, replies, 2)
	assert.True(t, replies[0].IsError())
	assert.Equal(t, "*[0 16 15 -1 2]", replies[1].String())
	assert.Len(t, s.LogLines("MODULE UNLOAD is refused in a transaction"), 1)
	assert.Len(t, kit.ThrottleModules(s), 1)
}
