package line_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// errnos are those that tell why the server would refuse a command, and one that it never sets.
var errnos = []syscall.Errno{syscall.EINVAL, syscall.ENOENT, syscall.EPERM, syscall.EROFS, syscall.ENETDOWN, syscall.EACCES, syscall.ENOSPC,
	syscall.ESPIPE, syscall.EAGAIN, syscall.EBADF}

// The filters and events of other modules run in the middle of the question whether the server takes a write, and may
// leave any errno behind. It is not taken for the server's answer.
func TestAnErrnoThatAnotherModuleLeavesHoldsUpNoLine(t *testing.T) {
	t.Parallel()
	lease := map[string]kit.KindOfWait{"lease": kit.WaitsInTurn["lease"]}
	goesOn := func(t *testing.T, s *server.Server, _ *resp.Conn, kind kit.KindOfWait) { kind.GoesOn(t, s) }
	for name, test := range map[string]struct {
		leaves string // the command or event after which the errno is left behind
		config string
		kinds  map[string]kit.KindOfWait
		line   func(t *testing.T, s *server.Server, admin *resp.Conn, kind kit.KindOfWait)
	}{
		"in the question": {"zadd", "", kit.WaitsInTurn, goesOn},
		"where the server can only be asked with EXISTS": {"exists", `rename-command ZADD ""`, lease, goesOn},
		"before the question": {"cl.release", "", lease, func(t *testing.T, s *server.Server, admin *resp.Conn, kind kit.KindOfWait) {
			kind.GoesOn(t, s)
			// A server that can be asked without running a command runs none. Valkey 9 could be asked, but crashes
			// beside a module that leaves an errno behind meanwhile.
			if s.Program.AtLeast(7, 2) && !(s.Program.IsValkey() && s.Program.Major >= 9) {
				assert.NotContains(t, s.Info("commandstats"), "cmdstat_zadd")
			}
		}},
		"where the question finds that the key has expired": {"expired", "", lease, func(t *testing.T, s *server.Server, admin *resp.Conn, kind kit.KindOfWait) {
			kit.MustDoAll(t, admin, "DEBUG SET-ACTIVE-EXPIRE 0", "CL.LEASE k SLOTS 1 TTL 50ms ID holder") // it stays until somebody asks for it
			kit.RequireAdmitted(t, kit.StartWaiting(t, s, kind.Wait))
		}},
		// Which is no reason to refuse a write: callers are told.
		"where the key holds something else": {"zadd", "", kit.WaitsInTurn, func(t *testing.T, s *server.Server, admin *resp.Conn, kind kit.KindOfWait) {
			waiting := kind.Begin(t, s)
			kit.MustDoAll(t, admin, "RPUSH list 1", "RENAME list k")
			v := kit.ReceiveSoon(t, waiting)
			require.True(t, strings.HasPrefix(v.Text, "WRONGTYPE "), "%v", v)
		}},
	} {
		for kindName, kind := range test.kinds {
			t.Run(name+", "+kindName, func(t *testing.T) {
				t.Parallel()
				s := neighbour.Start(t, server.Config(test.config))
				admin := s.Raw()
				for _, errno := range errnos {
					t.Run(errno.Error(), func(t *testing.T) {
						kit.Do(t, admin, "NEIGHBOUR.ERRNO %s %d", test.leaves, errno)
						test.line(t, s, admin, kind)
						kit.Do(t, admin, "FLUSHALL")
					})
				}
			})
		}
	}
}
