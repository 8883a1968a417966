package kit

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// StartCheckBuild starts a server with the module's test build, in which a key that
// begins with fault:panic makes the decision panic.
func StartCheckBuild(t *testing.T, opts ...server.Option) *server.Server {
	t.Helper()
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	return server.Start(t, append(opts, server.Module(path))...)
}

// OlderBuild is the path of a build of an older version, which a variable such as THROTTLE_SO_0_2_0 names.
func OlderBuild(t *testing.T, version string) string {
	t.Helper()
	name := "THROTTLE_SO_" + strings.ReplaceAll(version, ".", "_")
	path := os.Getenv(name)
	if path == "" {
		t.Skip(name + " names no build of the older version")
	}
	return path
}

// OnSanitizedToo runs a test on the server under test and on one that was built with AddressSanitizer, which ends at
// the first use of freed memory. THROTTLE_ASAN_SERVER is its path.
func OnSanitizedToo(t *testing.T, f func(t *testing.T, opts ...server.Option)) {
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		f(t)
	})
	t.Run("sanitized", func(t *testing.T) {
		t.Parallel()
		path := os.Getenv("THROTTLE_ASAN_SERVER")
		if path == "" {
			t.Skip("THROTTLE_ASAN_SERVER names no server that was built with AddressSanitizer")
		}
		program, err := server.FindProgram(path)
		require.NoError(t, err)
		f(t, server.Run(program))
	})
}

// StartWithSteps starts a server whose wall clock runs, and returns what makes it step.
func StartWithSteps(t *testing.T, opts ...server.Option) (s *server.Server, stepBy func(time.Duration)) {
	t.Helper()
	s, c := StartWithClock(t, opts...)
	return s, func(d time.Duration) { c.SetAhead(0, int64(d)) }
}

// StartWithClock is startWithSteps, with all that can be done to the clock.
func StartWithClock(t *testing.T, opts ...server.Option) (*server.Server, *clock.Clock) {
	t.Helper()
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	c := clock.Running(t)
	return c.Start(append(opts, server.Module(path))...), c
}

// ThrottleModules are the rows of MODULE LIST called throttle. Servers list modules of
// their own beside it.
func ThrottleModules(s *server.Server) (rows []map[string]resp.Value) {
	for _, module := range s.MustDo("MODULE", "LIST").Elems {
		row := Pairs(module)
		if row["name"].Text == "throttle" {
			rows = append(rows, row)
		}
	}
	return rows
}

// RequireReplica waits for a replica without the module to have the same bytes and expiries.
func RequireReplica(t *testing.T, master, replica *server.Server, keys ...string) {
	t.Helper()
	state := func(s *server.Server) (all []string) {
		for _, key := range keys {
			all = append(all, key, s.Do("DUMP", key).String(), s.Do("PEXPIRETIME", key).String())
		}
		return all
	}
	want := state(master)
	require.Eventually(t, func() bool { return assert.ObjectsAreEqual(want, state(replica)) }, 60*time.Second, 5*time.Millisecond, "%v", want)
}

// LinkIsUp says whether a replica has its master.
func LinkIsUp(s *server.Server) bool { return s.Info("replication")["master_link_status"] == "up" }

// StartCarrying starts a server with the test build, whose test.carry does to several keys what it is told, and a
// replica without the module.
func StartCarrying(t *testing.T, opts ...server.Option) (master, replica *server.Server) {
	t.Helper()
	master = StartCheckBuild(t, opts...)
	master.Program.NeedsCountedKeys(t)
	replica = server.Start(t, server.WithoutModule(), server.ReplicaOf(master))
	require.Eventually(t, func() bool { return replica.Info("replication")["master_link_status"] == "up" }, 60*time.Second, 5*time.Millisecond)
	return master, replica
}

// AwaitCron waits until the server's cron has run, which alone removes a key that nobody asks for.
func AwaitCron(t *testing.T, s *server.Server) {
	t.Helper()
	s.MustDo("SET", "brief", "x", "PX", "1")
	require.Eventually(t, func() bool { return s.MustDo("DBSIZE").Int == 0 }, 60*time.Second, 5*time.Millisecond)
}

// StartKeepingExpired starts a server beside another module, on which keys that have expired stay until somebody opens
// them.
func StartKeepingExpired(t *testing.T, opts ...server.Option) (s *server.Server, c *resp.Conn) {
	t.Helper()
	s = neighbour.Start(t, opts...)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("DEBUG keeps expired keys since Redis 7.0")
	}
	c = s.Raw()
	Do(t, c, "DEBUG SET-ACTIVE-EXPIRE 0")
	return s, c
}

// Forget ends what the other module does and removes all keys.
func Forget(t *testing.T, c *resp.Conn) {
	t.Helper()
	MustDoAll(t, c, "NEIGHBOUR.DO", "NEIGHBOUR.EXPIRED b 0", "FLUSHALL", "CONFIG RESETSTAT")
}

// Refused is the error of a call on a key that another call is just adding.
const Refused = "ERR key is being created by the command that this call is nested in"

// StartConfigurable starts a server on which modules have configurations.
func StartConfigurable(t *testing.T, opts ...server.Option) *server.Server {
	t.Helper()
	s := server.Start(t, opts...)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("modules have configurations since Redis 7.0")
	}
	return s
}

// TopOf is how many keys throttle.top counts.
func TopOf(s *server.Server) string {
	return Pairs(s.MustDo("CONFIG", "GET", "throttle.*"))["throttle.top"].Text
}

// LimitedOf is how often CL.TOP says that a key was limited.
func LimitedOf(s *server.Server, key string) int64 {
	for _, row := range s.MustDo("CL.TOP", "100000").Elems {
		if fields := Pairs(row); fields["key"].Text == key {
			return fields["limited"].Int
		}
	}
	return 0
}
