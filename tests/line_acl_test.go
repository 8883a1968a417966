package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/older"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// waitAsUser makes a user wait, as number n in line.
func waitAsUser(t *testing.T, s *server.Server, kind kindOfWait, user string, n int) *resp.Conn {
	t.Helper()
	c := s.Raw()
	require.Equal(t, "OK", do(t, c, "AUTH %s secret", user).Text)
	kind.waitAs(t, s, c, n)
	return c
}

// A caller whose user has lost the permission while it waited is told so in its turn, as in BLPOP, and takes nothing.
// Those behind it are let in.
func TestACallerThatLostItsPermissionIsNotLetIn(t *testing.T) {
	t.Parallel()
	for name, kind := range waitsInTurn {
		for _, rules := range []string{"-@all", "-@all resetkeys", "resetkeys", "resetkeys ~other*", "-cl.lease -cl.wait", "resetkeys %R~*"} {
			t.Run(name+", "+rules, func(t *testing.T) {
				t.Parallel()
				s := startCheckBuild(t)
				if !s.Program.AtLeast(7, 0) {
					t.Skip("the module API knows no users' permissions")
				}
				admin := s.Raw()
				do(t, admin, "ACL SETUSER u on >secret ~* +@all")
				do(t, admin, "%s", kind.take)
				waiting := waitAsUser(t, s, kind, "u", 1)
				behind := s.Raw()
				kind.wait = strings.Replace(kind.wait, "ID w", "ID behind", 1)
				kind.waitAs(t, s, behind, 2)
				require.Equal(t, "OK", do(t, admin, "ACL SETUSER u %s", rules).Text)
				before := s.InfoInt("throttle", "throttle_allowed")
				do(t, admin, "%s", kind.giveBack)
				v := receiveSoon(t, waiting)
				assert.True(t, strings.HasPrefix(v.Text, "NOPERM "), "%v", v)
				requireAdmitted(t, behind)
				assert.Equal(t, before+1, s.InfoInt("throttle", "throttle_allowed"), "one of the two")
				awaitField(t, admin, kind.field, 0)
			})
		}
	}
}

// What a user lost and got back in time is no matter, nor is what it never needed.
func TestACallerThatHasItsPermissionIsLetIn(t *testing.T) {
	t.Parallel()
	for name, kind := range waitsInTurn {
		for _, rules := range []string{"-@all", "resetkeys", "-get ~other* -@admin"} {
			t.Run(name+", "+rules, func(t *testing.T) {
				t.Parallel()
				s := startCheckBuild(t)
				if !s.Program.AtLeast(7, 0) {
					t.Skip("the module API knows no users' permissions")
				}
				admin := s.Raw()
				do(t, admin, "ACL SETUSER u on >secret ~* +@all")
				do(t, admin, "%s", kind.take)
				waiting := waitAsUser(t, s, kind, "u", 1)
				do(t, admin, "ACL SETUSER u %s", rules)
				do(t, admin, "ACL SETUSER u resetkeys ~k* +cl.lease +cl.wait")
				stillWaits(t, waiting)
				do(t, admin, "%s", kind.giveBack)
				requireAdmitted(t, waiting)
			})
		}
	}
}

// A user that is gone takes its callers along, and they leave the line.
func TestCallersOfADeletedUserLeaveTheLine(t *testing.T) {
	t.Parallel()
	for name, kind := range waitsOfAllKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startCheckBuild(t)
			admin := s.Raw()
			do(t, admin, "ACL SETUSER u on >secret ~* +@all")
			do(t, admin, "%s", kind.take)
			waiting := waitAsUser(t, s, kind, "u", 1)
			assert.EqualValues(t, 1, do(t, admin, "ACL DELUSER u").Int)
			_, err := waiting.Receive()
			require.Error(t, err, "it was cut off")
			awaitField(t, admin, kind.field, 0)
			require.Eventually(t, func() bool { return !do(t, admin, "MODULE UNLOAD throttle").IsError() }, patience, tick)
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
			for _, kind := range waitsInTurn {
				kind.goesOn(t, s)
				do(t, s.Raw(), "DEL k")
			}
		})
	}
}
