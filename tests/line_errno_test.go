package tests

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/neighbour"
)

// errnos are those that tell why the server would refuse a command, and one that it never sets.
var errnos = []syscall.Errno{syscall.EINVAL, syscall.ENOENT, syscall.EPERM, syscall.EROFS, syscall.ENETDOWN, syscall.EACCES, syscall.ENOSPC, syscall.ESPIPE, syscall.EAGAIN, syscall.EBADF}

// The filters of other modules run in the middle of the question whether the server takes a write, and may leave any errno behind. It is
// not taken for the server's answer.
func TestAnErrnoThatAnotherModuleLeavesHoldsUpNoLine(t *testing.T) {
	t.Parallel()
	for name, kind := range waitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := neighbour.Start(t)
			admin := s.Raw()
			for _, errno := range errnos {
				t.Run(errno.Error(), func(t *testing.T) {
					do(t, admin, "NEIGHBOUR.ERRNO zadd %d", errno)
					waiting := kind.begin(t, s)
					do(t, admin, "%s", kind.giveBack)
					requireAdmitted(t, waiting)
					require.NoError(t, waiting.Close())
					do(t, admin, "FLUSHALL")
				})
			}
		})
	}
}
