package neighbours_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// lendID makes the server keep the id of a connection for calls of modules: it lends the id to a context of a thread,
// and such contexts are used again. The connection stays open.
func lendID(t *testing.T, c *resp.Conn) {
	t.Helper()
	for range 3 {
		require.Equal(t, "OK", kit.Do(t, c, "NEIGHBOUR.THREAD").Text)
	}
}

// withLentIDs starts a server on which calls of modules have the ids of connections that call the module, too.
func withLentIDs(t *testing.T, opts ...server.Option) (s *server.Server, c *resp.Conn) {
	t.Helper()
	s = neighbour.Start(t, opts...)
	c = s.Raw()
	kit.MustDoAll(t, c, "CL.LIMIT other RATE 5/h", "CL.LIMIT other RATE 5/h")
	lendID(t, c)
	return s, c
}

// A call of another module may have the id of a connection, and no user. A caller of it waits, as nobody.
func TestACallUnderTheIDOfAConnectionHasNoUser(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		for name, waits := range kit.WaitsInTurn {
			s, c := withLentIDs(t, opts...)
			if !s.Program.AtLeast(7, 2) {
				t.Skip("calls of modules that may block")
			}
			kit.Do(t, c, "NEIGHBOUR.FORMAT !Kv")
			kit.Do(t, c, "%s", waits.Take)
			for _, call := range []string{"CL.PEEK k RATE 5/h", "CL.PEEK other RATE 5/h", waits.Wait} {
				kit.Do(t, c, "NEIGHBOUR.CALL %s", call)
				assert.EqualValues(t, 1, kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int, "%s, %s", name, call)
			}
			kit.AwaitField(t, c, waits.Field, 1)
			kit.Do(t, c, "%s", waits.GiveBack)
			kit.AwaitField(t, c, waits.Field, 0)
		}
	})
}

// formatsOfModules are what a module may ask for when it calls.
func formatsOfModules(s *server.Server) (formats []string) {
	formats = []string{"!v"}
	if s.Program.AtLeast(7, 0) {
		formats = append(formats, "!Cv")
	}
	if s.Program.AtLeast(7, 2) {
		formats = append(formats, "!Kv", "!KCv")
	}
	return formats
}

// Nothing that a module called before, under whatever id and as whatever user, makes its calls those of a client.
func TestCallsOfModulesStayNestedWhateverTheirIDs(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		for name, start := range map[string]func(*testing.T, ...server.Option) (*server.Server, *resp.Conn){
			"lent ids": withLentIDs,
			"ids of their own": func(t *testing.T, opts ...server.Option) (*server.Server, *resp.Conn) {
				s := neighbour.Start(t, opts...)
				return s, s.Raw()
			},
		} {
			s, c := start(t, opts...)
			if !s.Program.AtLeast(7, 0) {
				t.Skip("event new, and calls as a user")
			}
			kit.Do(t, c, "NEIGHBOUR.USER default")
			kit.MustDoAll(t, c, "SET never 1700000000000000000")
			for _, before := range formatsOfModules(s) {
				for range 5 {
					kit.Do(t, c, "NEIGHBOUR.FORMAT %s", before)
					kit.Do(t, c, "NEIGHBOUR.CALL CL.PEEK never RATE 5/h")
				}
				for _, format := range formatsOfModules(s) {
					if strings.Contains(format, "KC") && name == "lent ids" {
						continue // nothing tells it from a client
					}
					kit.Do(t, c, "NEIGHBOUR.FORMAT %s", format)
					for _, add := range []string{"INCRBYFLOAT b 1.5", "SET b 5", "SET b text", "APPEND b 1700000000000000000", "INCR b", "COPY never b"} {
						for _, call := range []string{"CL.PEEK b RATE 5/h", "CL.LIMIT b RATE 5/h", "CL.BAN b 1h", "CL.LEASE b SLOTS 1 TTL 1h ID x"} {
							what := fmt.Sprintf("%s: %s by %s in %s, after %s", name, call, format, add, before)
							kit.MustDoAll(t, c, "NEIGHBOUR.DO", "DEL b", add)
							want := kit.Do(t, c, "DUMP b")
							kit.MustDoAll(t, c, "DEL b", "NEIGHBOUR.ON new b "+call, add)
							assert.EqualValues(t, 1, kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int, what)
							kit.Do(t, c, "NEIGHBOUR.DO")
							assert.Equal(t, want, kit.Do(t, c, "DUMP b"), what)
						}
					}
				}
			}
		}
	})
}

// Clients change keys that never expire, in transactions, too, whatever ids and users the calls of modules had before.
func TestClientsStayClientsWhateverTheIDsOfModules(t *testing.T) {
	t.Parallel()
	s, c := withLentIDs(t)
	if s.Program.AtLeast(7, 0) {
		kit.Do(t, c, "NEIGHBOUR.USER default")
	}
	for _, format := range formatsOfModules(s) {
		kit.MustDoAll(t, c, "NEIGHBOUR.FORMAT "+format, "NEIGHBOUR.CALL CL.PEEK other RATE 5/h")
		requireCharged(t, s, chargeKey, "MULTI", chargeKey, "EXEC", chargeKey)
		requireCharged(t, s, "MULTI", chargeKey, "EXEC", chargeKey)
	}
}

// A module may call as a user, under the id of the connection in whose transaction it is, or in a way in which its call
// may block. Then only the database that a connection is in shows that it is not the connection's call. INCRBYFLOAT
// uses its value after the event.
func TestACallAsAUserUnderTheIDOfAConnectionIsNested(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		s, c := withLentIDs(t, opts...)
		if s.Program.IsValkey() && s.Program.Major >= 9 {
			t.Skip("Valkey 9.1 does not tell in which database a connection is")
		}
		kit.MustDoAll(t, c, "NEIGHBOUR.USER default")
		for _, format := range formatsOfModules(s) {
			for _, set := range []string{"SET k 17", "SET k 17 EX 1000"} {
				for _, calls := range [][]string{{"INCRBYFLOAT k 1.5"}, {"MULTI", "INCRBYFLOAT k 1.5", "EXEC"}} {
					kit.MustDoAll(t, c, set, "NEIGHBOUR.FORMAT "+format, "NEIGHBOUR.ON incrbyfloat k CL.PEEK k RATE 1/1h")
					kit.MustDoAll(t, c, calls...)
					v := kit.Do(t, c, "NEIGHBOUR.SEEN")
					assert.Contains(t, v.Elems[1].Text, "WRONGTYPE", "%s, %s, %q", format, set, calls)
					assert.Equal(t, "18.5", kit.Do(t, c, "GET k").Text, "%s, %s, %q", format, set, calls)
					kit.Do(t, c, "NEIGHBOUR.DO")
				}
			}
		}
	})
}

// A command that was held back runs no filters when it is processed at last, and what is nested in it is judged like
// any other nested call.
func TestACallNestedInACommandThatWasHeldBackIsNested(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		s, c := withLentIDs(t, opts...)
		if !s.Program.AtLeast(7, 0) {
			t.Skip("event new")
		}
		held := s.Raw()
		kit.Do(t, c, "NEIGHBOUR.USER default")
		for _, format := range formatsOfModules(s) {
			if strings.Contains(format, "KC") {
				continue // nothing tells it from a client
			}
			kit.MustDoAll(t, c, "DEL b", "NEIGHBOUR.FORMAT "+format, "NEIGHBOUR.ON new b CL.LIMIT b RATE 5/h", "CL.LIMIT other RATE 5/h", "CLIENT PAUSE 600000 WRITE")
			require.NoError(t, held.Send("SET", "b", "1700000000000000000"))
			require.NoError(t, held.Flush())
			require.Eventually(t, func() bool { return s.Info("clients")["blocked_clients"] == "1" }, kit.Patience, kit.Tick, format)
			kit.MustDoAll(t, c, "CL.PEEK other RATE 5/h", "CLIENT UNPAUSE")
			v, err := held.Receive()
			require.NoError(t, err)
			require.Equal(t, "OK", v.Text)
			seen := kit.Do(t, c, "NEIGHBOUR.SEEN")
			assert.EqualValues(t, 1, seen.Elems[0].Int, format)
			assert.Contains(t, seen.Elems[1].Text, "key is being created", format)
			assert.Equal(t, "1700000000000000000", kit.Do(t, c, "GET b").Text, format)
			kit.Do(t, c, "NEIGHBOUR.DO")
		}
	})
}
