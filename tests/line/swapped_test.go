package line_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// A replica that takes writes and loads a data set of its master beside its own puts it in its place all at once.
// Callers who wait for what the new one does not have are let in then, whether the replica knows the history of the
// master or not.
func TestALineGoesOnWhenAReplicaSwapsInANewDataSet(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsInTurn {
		for _, knows := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", of the same history", false: ", of another history"}[knows], func(t *testing.T) {
				t.Parallel()
				master := server.Start(t, server.Config("repl-diskless-sync yes", "repl-diskless-sync-delay 0", "repl-backlog-size 16kb"))
				s := server.Start(t, server.ReplicaOf(master), server.Config("replica-read-only no", "repl-diskless-load swapdb"))
				if !s.Program.AtLeast(7, 0) {
					t.Skip("an older server does not tell of it")
				}
				require.Eventually(t, func() bool { return kit.LinkIsUp(s) }, 60*time.Second, kit.Tick)
				waiting := kind.Begin(t, s)
				syncs := master.InfoInt("stats", "sync_full")
				if knows {
					// The replica falls behind what the master still knows of its history.
					s.Pause()
					kit.Do(t, master.Raw(), "CLIENT KILL TYPE replica")
					kit.Do(t, master.Raw(), "SET big %s", strings.Repeat("x", 100_000))
					s.Resume()
				} else {
					kit.Do(t, master.Raw(), "DEBUG CHANGE-REPL-ID")
					kit.Do(t, master.Raw(), "CLIENT KILL TYPE replica")
				}
				require.Eventually(t, func() bool { return master.InfoInt("stats", "sync_full") > syncs && kit.LinkIsUp(s) }, 60*time.Second, kit.Tick)
				kit.RequireAdmitted(t, waiting)
			})
		}
	}
}
