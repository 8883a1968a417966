package line_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/older"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// waitAsUser makes a user wait, as number n in line.
func waitAsUser(t *testing.T, s *server.Server, kind kit.KindOfWait, user string, n int) *resp.Conn {
	t.Helper()
	c := s.Raw()
	require.Equal(t, "OK", kit.Do(t, c, "AUTH %s secret", user).Text)
	kind.WaitAs(t, s, c, n)
	return c
}

// A caller whose user has lost the permission while it waited is told so in its turn, as in BLPOP, and takes nothing.
// Those behind it are let in. What a user lost and got back in time is no matter, nor is what it never needed.
func TestACallerIsLetInIfItStillHasItsPermission(t *testing.T) {
	t.Parallel()
	const back = "resetkeys ~k* +cl.lease +cl.wait"
	for name, kind := range kit.WaitsInTurn {
		for _, rules := range [][]string{
			{"-@all"}, {"-@all resetkeys"}, {"resetkeys"}, {"resetkeys ~other*"}, {"-cl.lease -cl.wait"}, {"resetkeys %R~*"},
			{"-@all", back}, {"resetkeys", back}, {"-get -@admin", back},
		} {
			t.Run(name+", "+strings.Join(rules, ", then "), func(t *testing.T) {
				t.Parallel()
				s := kit.StartCheckBuild(t)
				if !s.Program.AtLeast(7, 0) {
					t.Skip("the module API knows no users' permissions")
				}
				admin := s.Raw()
				kit.MustDoAll(t, admin, "ACL SETUSER u on >secret ~* +@all", kind.Take)
				waiting, behind := waitAsUser(t, s, kind, "u", 1), s.Raw()
				kit.Send(t, behind, strings.Replace(kind.Wait, "ID w", "ID behind", 1))
				kit.AwaitField(t, admin, kind.Field, 2)
				for _, rule := range rules {
					kit.MustDoAll(t, admin, "ACL SETUSER u "+rule)
				}
				before := s.InfoInt("throttle", "throttle_allowed")
				kit.MustDoAll(t, admin, kind.GiveBack)
				if len(rules) > 1 {
					kit.RequireAdmitted(t, waiting)
					kit.StillWaits(t, behind)
					return
				}
				v := kit.ReceiveSoon(t, waiting)
				assert.True(t, strings.HasPrefix(v.Text, "NOPERM "), "%v", v)
				kit.RequireAdmitted(t, behind)
				assert.Equal(t, before+1, s.InfoInt("throttle", "throttle_allowed"), "one of the two")
				kit.AwaitField(t, admin, kind.Field, 0)
				if kind.Field == "waiting" { // those that wait for leases are counted by what they are told
					assert.EqualValues(t, 1, s.InfoInt("throttle", "throttle_wait_left"))
				}
			})
		}
	}
}

// A user that is gone takes its callers along, and they leave the line.
func TestCallersOfADeletedUserLeaveTheLine(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsOfAllKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t)
			admin := s.Raw()
			kit.Do(t, admin, "ACL SETUSER u on >secret ~* +@all")
			kit.Do(t, admin, "%s", kind.Take)
			waiting := waitAsUser(t, s, kind, "u", 1)
			assert.EqualValues(t, 1, kit.Do(t, admin, "ACL DELUSER u").Int)
			_, err := waiting.Receive()
			require.Error(t, err, "it was cut off")
			kit.AwaitField(t, admin, kind.Field, 0)
			require.Eventually(t, func() bool { return !kit.Do(t, admin, "MODULE UNLOAD throttle").IsError() }, kit.Patience, kit.Tick)
		})
	}
}

// A server that cannot tell the user of a call, or what a user may do (Redis 6.2), lets callers in without asking.
func TestCallersAreLetInWhereNobodyKnowsTheirPermissions(t *testing.T) {
	t.Parallel()
	for _, lacks := range []string{"GetCurrentUserName", "GetModuleUserFromUserName", "ACLCheckCommandPermissions"} {
		t.Run(lacks, func(t *testing.T) {
			t.Parallel()
			s := older.Start(t, []string{lacks})
			for _, kind := range kit.WaitsInTurn {
				kind.GoesOn(t, s)
				kit.Do(t, s.Raw(), "DEL k")
			}
		})
	}
}
