package line_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
)

// errnos are those that tell why the server would refuse a command, and one that it never sets.
var errnos = []syscall.Errno{syscall.EINVAL, syscall.ENOENT, syscall.EPERM, syscall.EROFS, syscall.ENETDOWN, syscall.EACCES, syscall.ENOSPC, syscall.ESPIPE, syscall.EAGAIN, syscall.EBADF}

// The filters of other modules run in the middle of the question whether the server takes a write, and may leave any errno behind. It is
// not taken for the server's answer.
func TestAnErrnoThatAnotherModuleLeavesHoldsUpNoLine(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := neighbour.Start(t)
			admin := s.Raw()
			for _, errno := range errnos {
				t.Run(errno.Error(), func(t *testing.T) {
					kit.Do(t, admin, "NEIGHBOUR.ERRNO zadd %d", errno)
					kind.GoesOn(t, s)
					kit.Do(t, admin, "FLUSHALL")
				})
			}
		})
	}
}

// Nor where ZADD is renamed, so that the server can only be asked with EXISTS.
func TestAnErrnoHoldsUpNoLineWhereZADDIsRenamed(t *testing.T) {
	t.Parallel()
	kind := kit.WaitsInTurn["lease"]
	s := neighbour.Start(t, server.Config(`rename-command ZADD ""`))
	admin := s.Raw()
	for _, errno := range errnos {
		kit.Do(t, admin, "NEIGHBOUR.ERRNO exists %d", errno)
		kind.GoesOn(t, s)
		kit.Do(t, admin, "FLUSHALL")
	}
}

// Nor when the question itself finds that the key has expired, which other modules are told.
func TestAnErrnoAtTheEndOfALeaseHoldsUpNoLine(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	admin := s.Raw()
	kit.Do(t, admin, "DEBUG SET-ACTIVE-EXPIRE 0") // a key that has expired stays until somebody asks for it
	for _, errno := range errnos {
		kit.Do(t, admin, "NEIGHBOUR.ERRNO expired %d", errno)
		kit.AskLease(t, admin, "CL.LEASE k SLOTS 1 TTL 50ms ID holder")
		kit.RequireAdmitted(t, kit.StartWaiting(t, s, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 0"))
		kit.Do(t, admin, "FLUSHALL")
	}
}

// A key that holds something else is no reason to refuse a write, whatever errno is left behind then: its callers are told.
func TestAnErrnoDoesNotHideThatAKeyHoldsSomethingElse(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := neighbour.Start(t)
			admin := s.Raw()
			for _, errno := range errnos {
				kit.Do(t, admin, "NEIGHBOUR.ERRNO zadd %d", errno)
				waiting := kind.Begin(t, s)
				kit.Do(t, admin, "RPUSH list 1")
				kit.Do(t, admin, "RENAME list k")
				v := kit.ReceiveSoon(t, waiting)
				assert.True(t, strings.HasPrefix(v.Text, "WRONGTYPE "), "%v", v)
				kit.Do(t, admin, "FLUSHALL")
			}
		})
	}
}

// Nor one that is left behind before the question. A server that can be asked without running a command runs none then, either.
func TestAnErrnoOfACommandBeforeHoldsUpNoLine(t *testing.T) {
	t.Parallel()
	kind := kit.WaitsInTurn["lease"]
	s := neighbour.Start(t)
	admin := s.Raw()
	for _, errno := range errnos {
		kit.Do(t, admin, "NEIGHBOUR.ERRNO cl.release %d", errno)
		kind.GoesOn(t, s)
		// Valkey 9 could be asked, but crashes beside a module that leaves an errno behind meanwhile.
		if s.Program.AtLeast(7, 2) && !(s.Program.IsValkey() && s.Program.Major >= 9) {
			assert.NotContains(t, s.Info("commandstats"), "cmdstat_zadd", errno.Error())
		}
		kit.Do(t, admin, "FLUSHALL")
	}
}
