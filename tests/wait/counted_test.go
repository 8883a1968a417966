package wait_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
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
	ways := map[string]func(t *testing.T, admin, c *resp.Conn, id int64, k kit.KindOfWait){
		"let in": func(t *testing.T, admin, _ *resp.Conn, _ int64, k kit.KindOfWait) { kit.Do(t, admin, "%s", k.GiveBack) },
		"key of another type": func(t *testing.T, admin, _ *resp.Conn, _ int64, _ kit.KindOfWait) {
			kit.Do(t, admin, "RPUSH list 1")
			kit.Do(t, admin, "RENAME list k")
		},
		"disconnect": func(t *testing.T, _, c *resp.Conn, _ int64, _ kit.KindOfWait) { assert.NoError(t, c.Close()) },
		"CLIENT KILL": func(t *testing.T, admin, _ *resp.Conn, id int64, _ kit.KindOfWait) {
			kit.Do(t, admin, "CLIENT KILL ID %d", id)
		},
		"CLIENT UNBLOCK": func(t *testing.T, admin, _ *resp.Conn, id int64, _ kit.KindOfWait) {
			kit.Do(t, admin, "CLIENT UNBLOCK %d", id)
		},
		"CLIENT UNBLOCK ERROR": func(t *testing.T, admin, _ *resp.Conn, id int64, _ kit.KindOfWait) {
			kit.Do(t, admin, "CLIENT UNBLOCK %d ERROR", id)
		},
		"REPLICAOF": func(t *testing.T, admin, _ *resp.Conn, _ int64, _ kit.KindOfWait) {
			kit.Do(t, admin, "REPLICAOF 127.0.0.1 1")
		},
		"no permission any more": func(t *testing.T, admin, _ *resp.Conn, _ int64, k kit.KindOfWait) {
			kit.Do(t, admin, "ACL SETUSER default -cl.wait -cl.lease")
			kit.Do(t, admin, "%s", k.GiveBack)
		},
	}
	for name, kind := range kit.WaitsOfAllKinds() {
		for way, leave := range ways {
			hasUnits := way == "let in"
			if needsTurn := hasUnits || way == "key of another type" || way == "no permission any more"; needsTurn && name == "rate" {
				continue // it has a slot, and no turn
			}
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				s := server.Start(t, topology.QuietLinks())
				admin, c := s.Raw(), s.Raw()
				id := kit.Do(t, c, "CLIENT ID").Int
				require.False(t, kit.Do(t, admin, "%s", kind.Take).IsError())
				kind.WaitAs(t, s, c, 1)
				leave(t, admin, c, id, kind)
				kit.AwaitField(t, admin, kind.Field, 0)
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
	for name, kind := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := neighbour.Start(t)
			admin, c := s.Raw(), s.Raw()
			id := kit.Do(t, c, "CLIENT ID").Int
			require.False(t, kit.Do(t, admin, "%s", kind.Take).IsError())
			kit.Do(t, admin, "NEIGHBOUR.ON limited k CLIENT UNBLOCK %d", id)
			kit.Send(t, c, strings.Replace(kind.Wait, "TIMEOUT 0", "TIMEOUT 100ms", 1))
			v, err := c.ReceiveWithin(kit.Patience)
			require.NoError(t, err)
			require.False(t, v.IsError(), "%v", v)
			assert.NotZero(t, kit.Do(t, admin, "NEIGHBOUR.SEEN").Elems[0].Int, "it may hear of both that the caller was told, and that it had to go")
			kit.AwaitField(t, admin, kind.Field, 0)
			assert.EqualValues(t, 1, s.InfoInt("throttle", "throttle_limited"))
		})
	}
}
