package line_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
)

// While the server has no memory for a write, nobody is let in. When memory is free again the line goes on by itself,
// also when no client sends a command: some servers look at their memory only when one does.
func TestALineGoesOnWhenMemoryIsFreeAgain(t *testing.T) {
	t.Parallel()
	const size, lifetime = 16 << 20, 3 * time.Second
	for name, kind := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t)
			if !s.Program.AtLeast(7, 0) {
				t.Skip("an older server cannot be asked")
			}
			waiting := kind.Begin(t, s)
			admin := s.Raw()
			begun := time.Now()
			// Made by the server: what a client sends would stay in its buffers for a while.
			kit.Do(t, admin, "SETRANGE big %d x", size)
			kit.Do(t, admin, "PEXPIRE big %d", lifetime.Milliseconds())
			used := s.InfoInt("memory", "used_memory")
			kit.Do(t, admin, "CONFIG SET maxmemory %d", used-size/2)
			require.True(t, strings.HasPrefix(kit.Do(t, admin, "SET other value").Text, "OOM "))
			kit.Do(t, admin, "%s", kind.GiveBack)
			kit.StillWaits(t, waiting)
			kit.RequireAdmitted(t, waiting) // no command is sent meanwhile
			assert.GreaterOrEqual(t, time.Since(begun), lifetime, "big was still there")
		})
	}
}

// A server whose memory fills up while it runs no command lets nobody in who would have to be refused.
func TestNobodyIsLetInWhenMemoryFillsUp(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t)
			if !s.Program.AtLeast(7, 0) {
				t.Skip("an older server cannot be asked")
			}
			waiting := kind.Begin(t, s)
			admin := s.Raw()
			replies, err := admin.Pipeline(strings.Fields("CONFIG SET maxmemory 1"), strings.Fields(kind.GiveBack), strings.Fields("CONFIG SET maxmemory 0"),
				strings.Fields("CONFIG SET maxmemory 1"))
			require.NoError(t, err)
			for _, v := range replies {
				require.False(t, v.IsError(), "%v", v)
			}
			kit.StillWaits(t, waiting)
			kit.Do(t, admin, "CONFIG SET maxmemory 0")
			kit.RequireAdmitted(t, waiting)
			assert.Equal(t, fmt.Sprint(0), s.Info("throttle")["throttle_errors_internal"])
		})
	}
}
