package line_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Thousands of lines whose turn has come, but that nobody may be let in from, do not keep the server busy: it looks
// again for all of them at once. When it may write again, all of them go on.
func TestManyLinesThatAreHeldUpCostLittle(t *testing.T) {
	watched := size.Of(time.Second, 3*time.Second) // not in parallel: it measures time of the processor
	var files syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	lines := int(min(uint64(size.Of(1000, 4000)), files.Max-1000))
	for name, test := range map[string]struct{ hold, release string }{
		"a pause":          {"CLIENT PAUSE 100000000 WRITE", "CLIENT UNPAUSE"},
		"no memory":        {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
		"too few replicas": {"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := server.Start(t, server.Config("maxclients 4100"))
			if !s.Program.AtLeast(7, 0) {
				t.Skip("an older server cannot be asked")
			}
			admin := s.Raw()
			conns := make([]*resp.Conn, lines)
			var take [][]string
			for i := range conns {
				conns[i] = s.Raw()
				take = append(take, strings.Fields(fmt.Sprintf("CL.LIMIT k%d FIXED 1/1h FIRST", i)))
			}
			_, err := admin.Pipeline(take...)
			require.NoError(t, err)
			for i, c := range conns {
				require.NoError(t, c.Send(strings.Fields(fmt.Sprintf("CL.WAIT k%d FIXED 1/1h FIRST TIMEOUT 0", i))...))
				require.NoError(t, c.Flush())
			}
			kit.AwaitField(t, admin, "waiting", lines)
			waiting := kit.CPUOver(t, s, watched)
			// The turn of all of them has come, but the server may not write when it lets them in.
			// From Redis 8.0 on a client waits for FLUSHALL, during which the server goes on; not with ASYNC.
			replies, err := admin.Pipeline([]string{"FLUSHALL", "ASYNC"}, strings.Fields(test.hold), []string{"GET", "some"})
			require.NoError(t, err)
			require.Equal(t, "OK OK", replies[0].Text+" "+replies[1].Text)
			held := kit.CPUOver(t, s, watched)
			t.Logf("CPU over %v: %d lines that wait %v, lines that are held up %v", watched, lines, waiting, held)
			kit.AwaitField(t, admin, "waiting", lines)
			kit.Do(t, admin, "%s", test.release)
			assert.LessOrEqual(t, held, 2*waiting+watched/20, "CPU while %d lines are held up", lines)
			for _, c := range conns {
				kit.RequireAdmitted(t, c)
			}
			kit.AwaitField(t, admin, "waiting", 0)
		})
	}
}
