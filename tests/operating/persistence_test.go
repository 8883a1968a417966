package operating_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
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
	want := contents(t, s)
	s.MustDo("DEBUG", "RELOAD")
	assert.Equal(t, want, contents(t, s))
}

// A value that was loaded from a file may be encoded as a number inside the server.
func TestBucketGoesOnAfterAReload(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := kit.LimitOf(15, 1, 24*time.Hour)
	c := s.Raw()
	for remaining := int64(15); remaining >= 0; remaining-- {
		p := kit.Probes(t, c, 1, "key", "15 1 1d 1")[0]
		l.Judge(t, p, 1)
		require.Equal(t, remaining, p.Remaining)
		s.MustDo("DEBUG", "RELOAD")
		peek := kit.Probes(t, c, 1, "key", "15 1 1d 0")[0]
		l.Judge(t, peek, 0)
		require.Equal(t, p.TATAfter, peek.TATBefore)
		require.Equal(t, remaining, peek.Remaining)
	}
}
