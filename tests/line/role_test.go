package line_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// Nobody stays in line on a server that has become a replica, whatever the connection can do: some servers redirect
// a client that says so, and leave those that a module has blocked where they are (Valkey 9).
func TestCallersLeaveTheLineOfAServerThatBecomesAReplica(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsOfAllKinds() {
		for _, how := range []string{"FAILOVER", "REPLICAOF"} {
			for _, redirect := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, redirect %t", name, how, redirect), func(t *testing.T) {
					t.Parallel()
					program, err := server.DefaultProgram()
					require.NoError(t, err)
					if redirect && (!program.IsValkey() || program.Major < 8) {
						t.Skip("CLIENT CAPA came with Valkey 8.0")
					}
					old := server.Start(t, topology.QuietLinks())
					next := server.Start(t, topology.QuietLinks(), server.ReplicaOf(old))
					topology.AwaitReplicas(t, old, next)
					admin := old.Raw()
					kit.MustDoAll(t, admin, kind.Take)
					first, second := old.Raw(), old.Raw()
					if redirect {
						require.False(t, kit.Do(t, first, "CLIENT CAPA redirect").IsError())
					}
					kind.WaitAs(t, old, first, 1)
					kind.WaitAs(t, old, second, 2)
					taken := old.MustDo("DUMP", "k").String()
					if how == "FAILOVER" {
						require.False(t, kit.Do(t, admin, "FAILOVER").IsError())
					} else {
						require.False(t, kit.Do(t, admin, "REPLICAOF %s %d", next.Host, next.Port).IsError())
					}
					v := kit.ReceiveSoon(t, first)
					assert.True(t, v.IsError(), "%v", v)
					assert.True(t, strings.HasPrefix(v.Text, "UNBLOCKED ") || redirect && strings.HasPrefix(v.Text, "REDIRECT "), "%v", v)
					v = kit.ReceiveSoon(t, second)
					assert.True(t, strings.HasPrefix(v.Text, "UNBLOCKED "), "%v", v)
					kit.AwaitField(t, old.Raw(), kind.Field, 0)
					assert.Zero(t, old.InfoInt("clients", "blocked_clients"))
					if name != "lease" {
						assert.EqualValues(t, 2, old.InfoInt("throttle", "throttle_wait_left"))
					}
					if how == "REPLICAOF" {
						next.MustDo("REPLICAOF", "NO", "ONE")
					}
					topology.AwaitRole(t, next, "master")
					topology.AwaitReplicas(t, next, old)
					for _, s := range []*server.Server{next, old} {
						assert.Equal(t, taken, s.MustDo("DUMP", "k").String(), "nobody has given a slot back")
					}
				})
			}
		}
	}
}

// Callers that come to a server that was a replica for a while find no trace of the line that was there before.
func TestALineBeginsAnewWhenAServerIsAMasterAgain(t *testing.T) {
	server.NeedsServer(t, "replication")
	t.Parallel()
	for name, kind := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			gone := kind.Begin(t, s)
			admin := s.Raw()
			if s.Program.IsValkey() && s.Program.Major >= 8 {
				redirected := s.Raw()
				kit.Do(t, redirected, "CLIENT CAPA redirect")
				kind.WaitAs(t, s, redirected, 2)
			}
			kit.Do(t, admin, "REPLICAOF 127.0.0.1 1") // where nobody listens
			assert.True(t, kit.ReceiveSoon(t, gone).IsError())
			kit.AwaitField(t, admin, kind.Field, 0)
			kit.Do(t, admin, "REPLICAOF NO ONE")
			waiting := s.Raw()
			kind.WaitAs(t, s, waiting, 1)
			kit.StillWaits(t, waiting)
			kit.Do(t, admin, "%s", kind.GiveBack)
			kit.RequireAdmitted(t, waiting)
			require.Eventually(t, func() bool { return !kit.Do(t, admin, "MODULE UNLOAD throttle").IsError() }, kit.Patience, kit.Tick)
		})
	}
}

// Another module may make the server a replica when it hears that a caller was let in. Those behind are sent away, and
// the line is gone, with all that was to wake it.
func TestAServerBecomesAReplicaAsACallerIsLetIn(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]string{"lease": "leased", "window": "set", "fixed": "set"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := neighbour.Start(t)
			admin, second := s.Raw(), s.Raw()
			kind := kit.WaitsInTurn[name]
			first := kind.Begin(t, s)
			kind.WaitAs(t, s, second, 2)
			_, err := admin.Pipeline(strings.Fields("NEIGHBOUR.ON "+event+" k REPLICAOF 127.0.0.1 1"), []string{"DEL", "k"}) // where nobody listens
			require.NoError(t, err)
			kit.ReceiveSoon(t, first)
			assert.True(t, kit.ReceiveSoon(t, second).IsError())
			kit.AwaitField(t, admin, kind.Field, 0)
			assert.EqualValues(t, 1, kit.Do(t, admin, "NEIGHBOUR.SEEN").Elems[0].Int)
			kit.MustDoAll(t, admin, "NEIGHBOUR.DO", "REPLICAOF NO ONE", "DEL k")
			kind.GoesOn(t, s)
			require.Eventually(t, func() bool { return !kit.Do(t, admin, "MODULE UNLOAD throttle").IsError() }, kit.Patience, kit.Tick)
		})
	}
}
