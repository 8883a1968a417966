package operating_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

func TestDebugReloadUnderLoad(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := kit.StartLoad(t, s, kit.LoadCommand, nil)
	for range size.Of(2, 5) {
		calls := l.Calls.Load()
		require.Eventually(t, func() bool { return l.Calls.Load() > calls+1000 }, 60*time.Second, time.Millisecond)
		s.MustDo("DEBUG", "RELOAD")
	}
	l.Stop()
	want := topology.Read(t, s)
	s.MustDo("DEBUG", "RELOAD")
	topology.RequireEqual(t, want, topology.Read(t, s), "a server that has reloaded")
}
