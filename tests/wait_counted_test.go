package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// A caller that waits for units is counted once when it leaves, by whether it has them, whatever it waits for and however it leaves.
// Those that wait for leases are counted by what they are told.
func TestACallerThatWaitsIsCountedOnceWhenItLeaves(t *testing.T) {
	t.Parallel()
	// Each of them makes the caller leave whose connection and id it is given.
	ways := map[string]func(t *testing.T, admin, c *resp.Conn, id int64, k kindOfWait){
		"let in": func(t *testing.T, admin, _ *resp.Conn, _ int64, k kindOfWait) { do(t, admin, "%s", k.giveBack) },
		"key of another type": func(t *testing.T, admin, _ *resp.Conn, _ int64, _ kindOfWait) {
			do(t, admin, "RPUSH list 1")
			do(t, admin, "RENAME list k")
		},
		"disconnect":     func(t *testing.T, _, c *resp.Conn, _ int64, _ kindOfWait) { assert.NoError(t, c.Close()) },
		"CLIENT KILL":    func(t *testing.T, admin, _ *resp.Conn, id int64, _ kindOfWait) { do(t, admin, "CLIENT KILL ID %d", id) },
		"CLIENT UNBLOCK": func(t *testing.T, admin, _ *resp.Conn, id int64, _ kindOfWait) { do(t, admin, "CLIENT UNBLOCK %d", id) },
		"CLIENT UNBLOCK ERROR": func(t *testing.T, admin, _ *resp.Conn, id int64, _ kindOfWait) {
			do(t, admin, "CLIENT UNBLOCK %d ERROR", id)
		},
		"REPLICAOF": func(t *testing.T, admin, _ *resp.Conn, _ int64, _ kindOfWait) { do(t, admin, "REPLICAOF 127.0.0.1 1") },
		"no permission any more": func(t *testing.T, admin, _ *resp.Conn, _ int64, k kindOfWait) {
			do(t, admin, "ACL SETUSER default -cl.wait -cl.lease")
			do(t, admin, "%s", k.giveBack)
		},
	}
	for name, kind := range waitsOfAllKinds() {
		for way, leave := range ways {
			hasUnits := way == "let in"
			if needsTurn := hasUnits || way == "key of another type" || way == "no permission any more"; needsTurn && name == "rate" {
				continue // it has a slot, and no turn
			}
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				s := server.Start(t, topology.QuietLinks())
				admin, c := s.Raw(), s.Raw()
				id := do(t, c, "CLIENT ID").Int
				require.False(t, do(t, admin, "%s", kind.take).IsError())
				kind.waitAs(t, s, c, 1)
				leave(t, admin, c, id, kind)
				awaitField(t, admin, kind.field, 0)
				want := []string{"0", "1"}
				if hasUnits {
					want = []string{"1", "0"}
				}
				if name == "lease" {
					want = []string{"0", "0"}
				}
				info := s.Info("throttle")
				assert.Equal(t, want, []string{info["throttle_waited"], info["throttle_wait_left"]})
			})
		}
	}
}

// Another module may send a caller away when it hears that the caller is limited, because its time in line is over.
func TestACallerThatIsSentAwayAsItsTimeIsOverIsCountedOnce(t *testing.T) {
	t.Parallel()
	for name, kind := range waitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := neighbour.Start(t)
			admin, c := s.Raw(), s.Raw()
			id := do(t, c, "CLIENT ID").Int
			require.False(t, do(t, admin, "%s", kind.take).IsError())
			do(t, admin, "NEIGHBOUR.ON limited k CLIENT UNBLOCK %d", id)
			send(t, c, strings.Replace(kind.wait, "TIMEOUT 0", "TIMEOUT 100ms", 1))
			v, err := c.ReceiveWithin(patience)
			require.NoError(t, err)
			require.False(t, v.IsError(), "%v", v)
			assert.NotZero(t, do(t, admin, "NEIGHBOUR.SEEN").Elems[0].Int, "it may hear of both that the caller was told, and that it had to go")
			awaitField(t, admin, kind.field, 0)
			assert.EqualValues(t, 1, s.InfoInt("throttle", "throttle_limited"))
		})
	}
}
