package hosts_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/hosts"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// Two servers on two hosts: a cut, a full disk and a slow disk affect the hosts they are meant for and no others, until
// they are undone.
func TestHostsFailOneByOne(t *testing.T) {
	t.Parallel()
	if !hosts.Inside(t) {
		return
	}
	network := hosts.New(t, 2, 8<<20)
	c := clock.New(t, time.Now().UnixNano())
	p, err := server.DefaultProgram()
	require.NoError(t, err)
	var servers []*server.Server
	for i, h := range network.Hosts {
		on := c.ProgramOn(i, p, []string{network.Preload()}, h.Words()...)
		servers = append(servers, server.Start(t, server.WithoutModule(), server.Run(on), server.Host(h.Addr),
			server.AppendOnly("always"), server.Config("dir "+h.Disk)))
	}
	ping := func(s *server.Server, within time.Duration) error {
		conn, err := resp.DialWithin(s.Addr(), within)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	// reaches says whether one server becomes a replica of the other.
	reaches := func(from, to *server.Server) func() bool {
		from.MustDo("REPLICAOF", to.Host, strconv.Itoa(to.Port))
		return func() bool { return from.Info("replication")["master_link_status"] == "up" }
	}
	const soon, patience = 100 * time.Millisecond, 60 * time.Second
	a, b := network.Hosts[0], network.Hosts[1]

	network.Cut(network.Here, b)
	require.NoError(t, ping(servers[0], patience))
	require.Error(t, ping(servers[1], soon))
	network.Heal(b)
	require.NoError(t, ping(servers[1], patience))

	network.Cut(b, a) // the answers alone
	linked := reaches(servers[0], servers[1])
	for range 5 {
		require.False(t, linked())
		time.Sleep(soon) // a while in which nothing must happen
	}
	network.Join(b, a)
	require.Eventually(t, linked, patience, 10*time.Millisecond)
	servers[0].MustDo("REPLICAOF", "NO", "ONE")

	// What a server deletes after it has rewritten its file would make room on the full disk.
	topology.AwaitNoRewrite(t, servers[0])
	a.FillDisk()
	require.ErrorIs(t, os.WriteFile(filepath.Join(a.Disk, "another"), []byte("x"), 0o600), unix.ENOSPC)
	require.NoError(t, os.WriteFile(filepath.Join(b.Disk, "another"), []byte("x"), 0o600))
	a.FreeDisk()
	require.NoError(t, os.WriteFile(filepath.Join(a.Disk, "another"), []byte("x"), 0o600))

	const slow = 200 * time.Millisecond
	a.SlowDown(slow)
	begun := time.Now()
	servers[0].MustDo("SET", "key", "value")
	assert.GreaterOrEqual(t, time.Since(begun), slow, "answered when it is on the disk")
	a.SlowDown(0)

	for i, s := range servers {
		appended, err := filepath.Glob(filepath.Join(network.Hosts[i].Disk, "appendonly*"))
		require.NoError(t, err)
		assert.NotEmpty(t, appended, "the server on port %d has its file on its host's disk", s.Port)
	}
}
