package operating_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/zonefile"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
)

// allocatedBy is how much memory a server has, also of malloc, which is what the module's own files take. Some servers
// replace malloc and tell what it has given out, as of their latest cron; others leave it to the C library, whose heap
// grows.
func allocatedBy(t *testing.T, s *server.Server) (bytes int64) {
	t.Helper()
	kit.AwaitCron(t, s)
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", s.Pid()))
	require.NoError(t, err)
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to int64
		if strings.HasSuffix(lines.Text(), "[heap]") {
			_, err := fmt.Sscanf(lines.Text(), "%x-%x", &from, &to)
			require.NoError(t, err)
			bytes += to - from
		}
	}
	return bytes + s.InfoInt("memory", "allocator_allocated")
}

// withoutModule is a server that keeps nothing of commands that take their time, as loading does.
func withoutModule(t *testing.T, opts ...server.Option) *server.Server {
	t.Helper()
	return server.Start(t, append(opts, server.WithoutModule(), server.Config("slowlog-log-slower-than -1"))...)
}

// A file that is refused is given back, and so is the text that says why. It quotes a name in the file, which may be
// long.
func TestARefusedFileOfZonesLeavesNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s := withoutModule(t)
	if s.Program.IsDev() {
		t.Skip("throttle-dev loads no modules")
	}
	module, err := server.ModulePath()
	require.NoError(t, err)
	const length, loads = 50_000, 20
	path := filepath.Join(t.TempDir(), "zones.zip")
	require.NoError(t, os.WriteFile(path, zonefile.Pack("", kit.Noon, map[string][]byte{"../" + strings.Repeat("x", length): zonefile.Fixed(3600)}), 0o644))
	load := func() int64 {
		for range loads {
			require.True(t, s.Do("MODULE", "LOAD", module, "zones", path).IsError())
		}
		return allocatedBy(t, s)
	}
	load()
	before := load()
	grown := load() - before
	t.Logf("%d bytes more", grown)
	assert.Less(t, grown, int64(loads*length/2))
}

// Loading, beside another module and with a file of zones whose path is long, leaves nothing behind once the module is
// unloaded.
func TestLoadingWithZonesBesideANeighbourLeavesNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s := withoutModule(t, neighbour.Beside(t))
	module, err := server.ModulePath()
	require.NoError(t, err)
	dir, file := filepath.Split(writeZones(t, "2027c", kit.Noon, 3))
	path := dir + strings.Repeat("/", 1000-len(dir)) + file
	const loads = 20
	grown := kit.Growth(t, s.Raw(), func() {
		for range loads {
			s.MustDo("MODULE", "LOAD", module, "zones", path)
			s.MustDo("MODULE", "UNLOAD", "throttle")
		}
	})
	assert.Less(t, grown, int64(loads*300))
}
