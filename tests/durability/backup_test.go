package durability

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/functions"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// A backup of a running server holds all limits, and starts another one, which then writes an append-only file of its
// own.
func TestABackupIsRestored(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "snapshots")
	s := server.Start(t)
	for i := range 5 {
		s.MustDo("CL.LIMIT", "user:42", "RATE", "10/365d", "FIXED", "8/365d", "FIRST", "COMPACT")
		s.MustDo("CL.LEASE", "jobs", "SLOTS", "9", "TTL", "365d", "ID", strconv.Itoa(i))
	}
	s.MustDo("CL.BAN", "user:13", "365d")
	s.MustDo("FUNCTION", "LOAD", functions.Library)
	want := topology.Read(t, s)

	dir := t.TempDir()
	cli, err := server.CLIPath()
	require.NoError(t, err)
	printed, err := exec.Command(cli, "-h", s.Host, "-p", strconv.Itoa(s.Port), "--rdb", filepath.Join(dir, "throttle.rdb")).CombinedOutput()
	require.NoError(t, err, "%s", printed)
	s.MustDo("CL.LIMIT", "user:42", "RATE", "10/365d", "FIXED", "8/365d", "FIRST", "COMPACT") // after the backup

	restored := server.Start(t, server.Dir(dir), server.Config("dbfilename throttle.rdb", "appendonly no"))
	assert.Equal(t, want, topology.Read(t, restored))
	assert.EqualValues(t, functions.Version(), restored.MustDo("FCALL_RO", "cl_version", "0").Int)
	restored.MustDo("CONFIG", "SET", "appendonly", "yes")
	topology.AwaitNoRewrite(t, restored)
	assert.Equal(t, want, topology.Read(t, restored))
	found, err := os.ReadDir(filepath.Join(dir, "appendonlydir"))
	require.NoError(t, err)
	assert.NotEmpty(t, found)
}
