package line_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// twoNodes is a cluster of two masters, the first of which has all slots. The key k is about to move to the other.
type twoNodes struct {
	t        *testing.T
	from, to *server.Server
	slot     string
}

func startTwoNodes(t *testing.T, more ...string) twoNodes {
	t.Helper()
	config := server.Config(append(more, "cluster-require-full-coverage no", "cluster-node-timeout 60000")...)
	n := twoNodes{t: t, from: kit.StartCheckBuild(t, server.Cluster(), config), to: kit.StartCheckBuild(t, server.Cluster(), config)}
	if !n.from.Program.AtLeast(7, 0) {
		t.Skip("CLUSTER ADDSLOTSRANGE came with Redis 7.0")
	}
	n.from.MustDo("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	n.to.MustDo("CLUSTER", "SET-CONFIG-EPOCH", "2") // or they would settle it between them, in the middle of the test
	n.from.MustDo("CLUSTER", "SET-CONFIG-EPOCH", "1")
	n.slot = fmt.Sprint(n.from.MustDo("CLUSTER", "KEYSLOT", "k").Int)
	n.to.MustDo("CLUSTER", "MEET", n.from.Host, fmt.Sprint(n.from.Port))
	require.Eventually(t, func() bool {
		return server.ParseInfo(n.to.MustDo("CLUSTER", "INFO").Text)["cluster_slots_ok"] == "16384" &&
			server.ParseInfo(n.from.MustDo("CLUSTER", "INFO").Text)["cluster_known_nodes"] == "2" &&
			strings.HasPrefix(n.to.Do("GET", "k").Text, "MOVED ")
	}, time.Minute, kit.Tick, "they do not know each other")
	return n
}

func (n twoNodes) setSlot(s *server.Server, words ...string) {
	n.t.Helper()
	s.MustDo(append([]string{"CLUSTER", "SETSLOT", n.slot}, words...)...)
}

func (n twoNodes) id(s *server.Server) string { return s.MustDo("CLUSTER", "MYID").Text }

// beginMove marks the slot as moving.
func (n twoNodes) beginMove() {
	n.t.Helper()
	n.setSlot(n.to, "IMPORTING", n.id(n.from))
	n.setSlot(n.from, "MIGRATING", n.id(n.to))
}

// endMove gives the slot to the second node.
func (n twoNodes) endMove() {
	n.t.Helper()
	n.setSlot(n.to, "NODE", n.id(n.to))
	n.setSlot(n.from, "NODE", n.id(n.to))
}

// asking sends a call as a client does that was answered ASK, and receives the answer.
func asking(t *testing.T, c *resp.Conn, call string) resp.Value {
	t.Helper()
	replies, err := c.Pipeline([]string{"ASKING"}, strings.Fields(call))
	require.NoError(t, err)
	require.False(t, replies[1].IsError(), "%s answers %v", call, replies[1])
	return replies[1]
}

// startAsking is startWaiting for such a client.
func startAsking(t *testing.T, s *server.Server, call string) *resp.Conn {
	t.Helper()
	c := s.Raw()
	require.NoError(t, c.Send("ASKING"))
	require.NoError(t, c.Send(strings.Fields(call)...))
	require.NoError(t, c.Flush())
	v, err := c.Receive()
	require.NoError(t, err)
	require.Equal(t, "OK", v.Text)
	return c
}

// longerThanALook is longer than a line of a cluster goes without looking whether its slot is still the node's.
const longerThanALook = 2500 * time.Millisecond

// requireStillWaiting fails if an answer comes within so much time.
func requireStillWaiting(t *testing.T, c *resp.Conn, d time.Duration) {
	t.Helper()
	v, err := c.ReceiveWithin(d)
	require.Error(t, err, "%v", v)
}

// While a slot moves, clients are sent to the node that imports it. They can wait there, as with BLPOP, and are let in
// there.
func TestCallersWaitOnTheNodeThatImportsTheirSlot(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startTwoNodes(t)
			n.beginMove()
			admin := n.to.Raw()
			asking(t, admin, kind.Take)
			first := startAsking(t, n.to, kind.Wait)
			kit.AwaitField(t, admin, kind.Field, 1)
			second := startAsking(t, n.to, strings.Replace(kind.Wait, "ID w", "ID w2", 1))
			kit.AwaitField(t, admin, kind.Field, 2)
			requireStillWaiting(t, first, longerThanALook)
			asking(t, admin, kind.GiveBack)
			kit.RequireAdmitted(t, first)
			n.endMove()
			requireStillWaiting(t, second, longerThanALook)
			kit.Do(t, admin, "%s", strings.Replace(kind.GiveBack, "ID holder", "ID w", 1))
			kit.RequireAdmitted(t, second)
		})
	}
}

// A move that is given up takes the slot away from the node that imported it. Those in line there are told.
func TestCallersAreSentAwayWhenAMoveIsGivenUp(t *testing.T) {
	t.Parallel()
	n := startTwoNodes(t)
	for name, kind := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			n.to.MustDo("FLUSHALL")
			n.beginMove()
			admin := n.to.Raw()
			asking(t, admin, kind.Take)
			waiting := startAsking(t, n.to, kind.Wait)
			kit.AwaitField(t, admin, kind.Field, 1)
			n.setSlot(n.to, "STABLE")
			n.setSlot(n.from, "STABLE")
			v := kit.ReceiveSoon(t, waiting)
			assert.True(t, strings.HasPrefix(v.Text, "TRYAGAIN "), "%v", v)
			kit.AwaitField(t, admin, kind.Field, 0)
		})
	}
}

// When the key moves away, nobody in line for it is let in on the node that it has left: the key would be there twice.
// So it is where the server can only be asked with EXISTS whether it has the slot.
func TestNobodyIsLetInOnTheNodeThatAKeyHasLeft(t *testing.T) {
	t.Parallel()
	for how, config := range map[string][]string{"a server": nil, "ZADD is renamed": {`rename-command ZADD ""`}} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			n := startTwoNodes(t, config...)
			for name, kind := range kit.WaitsInTurn {
				if config != nil && name != "window" {
					continue // a sorted set is moved with ZADD
				}
				t.Run(name, func(t *testing.T) {
					waiting := kind.Begin(t, n.from)
					n.beginMove()
					requireStillWaiting(t, waiting, longerThanALook)
					n.from.MustDo("MIGRATE", n.to.Host, fmt.Sprint(n.to.Port), "k", "0", "10000")
					v := kit.ReceiveSoon(t, waiting)
					assert.Equal(t, "TRYAGAIN The slot of this key has moved to another node while the caller waited", v.Text)
					assert.Zero(t, n.from.MustDo("DBSIZE").Int)
					kit.AwaitField(t, n.from.Raw(), kind.Field, 0)
					// It may wait again where the key is now.
					again := startAsking(t, n.to, kind.Wait)
					kit.AwaitField(t, n.to.Raw(), kind.Field, 1)
					asking(t, n.to.Raw(), kind.GiveBack)
					kit.RequireAdmitted(t, again)
					n.to.MustDo("FLUSHALL")
					n.setSlot(n.to, "STABLE")
					n.setSlot(n.from, "STABLE")
				})
			}
		})
	}
}

// A line that waits runs no commands that anybody sees: not in MONITOR, nor in the server's counts of calls and errors.
func TestALineThatWaitsRunsNoCommands(t *testing.T) {
	t.Parallel()
	s := startTwoNodes(t).from
	if !s.Program.AtLeast(7, 2) {
		t.Skip("an older server tells whether it would run a command only by running it")
	}
	for name, kind := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			s.MustDo("FLUSHALL")
			waiting := kind.Begin(t, s)
			admin, monitor := s.Raw(), s.Raw()
			kit.Do(t, admin, "CONFIG RESETSTAT")
			kit.Do(t, monitor, "MONITOR")
			requireStillWaiting(t, waiting, longerThanALook)
			kit.Do(t, admin, "ECHO end")
			for {
				v, err := monitor.Receive()
				require.NoError(t, err)
				if strings.Contains(v.Text, `"ECHO"`) {
					break
				}
				assert.NotContains(t, v.Text, `"k"`)
			}
			kit.Do(t, admin, "%s", kind.GiveBack)
			kit.RequireAdmitted(t, waiting)
			require.NoError(t, monitor.Close())
			for command, stats := range s.Info("commandstats") {
				assert.Contains(t, stats, "rejected_calls=0,failed_calls=0", command)
			}
			assert.Empty(t, s.Info("errorstats"))
		})
	}
}
