package operating_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// quota is a limit that gets nothing back while a test runs.
const quota = "FIXED 10000000/y"

// callers take from the quota, of whichever of two servers takes writes, as programs do whose client finds the master.
type callers struct {
	servers  [2]*server.Server
	admitted atomic.Int64
	lost     atomic.Int64 // calls whose connection broke: charged or not
	stopped  atomic.Bool
	wg       sync.WaitGroup
}

func startCallers(t *testing.T, a, b *server.Server) *callers {
	c := &callers{servers: [2]*server.Server{a, b}}
	for range 4 {
		c.wg.Go(func() {
			for at := 0; !c.stopped.Load(); at++ {
				c.callAt(c.servers[at%2].Addr())
			}
		})
	}
	t.Cleanup(c.stop)
	c.await(t, 100)
	return c
}

// callAt calls a server until it takes no writes or the connection breaks.
func (c *callers) callAt(addr string) {
	conn, err := resp.Dial(addr)
	if err != nil {
		return
	}
	defer conn.Close()
	for !c.stopped.Load() {
		v, err := conn.Do(strings.Fields("CL.LIMIT quota " + quota + " COMPACT")...)
		switch {
		case err != nil:
			c.lost.Add(1)
			return
		case v.IsError(): // READONLY, LOADING
			time.Sleep(time.Millisecond)
			return
		}
		c.admitted.Add(1)
	}
}

func (c *callers) stop() {
	c.stopped.Store(true)
	c.wg.Wait()
}

// await returns when so many more calls were let through.
func (c *callers) await(t *testing.T, more int64) {
	t.Helper()
	goal := c.admitted.Load() + more
	require.Eventually(t, func() bool { return c.admitted.Load() >= goal }, time.Minute, 5*time.Millisecond, "nobody is let through")
}

// requireCharged: both servers have charged what was let through, once.
func (c *callers) requireCharged(t *testing.T) {
	t.Helper()
	for _, s := range c.servers {
		left := s.MustDo(strings.Fields("CL.PEEK quota " + quota + " COMPACT")...).Elems[3].Int
		charged := 10_000_000 - left
		assert.GreaterOrEqual(t, charged, c.admitted.Load(), "units are forgotten by %s", s.Addr())
		assert.LessOrEqual(t, charged, c.admitted.Load()+c.lost.Load(), "units are charged twice by %s", s.Addr())
	}
}

// handOver runs the script of the page.
func handOver(t *testing.T, env []string, args ...string) (said string, status int) {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	cli, err := server.CLIPath()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), filepath.Join(root, "packaging", "failover"), args...)
	command.Env = append(append(os.Environ(), "CLI="+cli), env...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err = command.Run()
	t.Log("failover " + strings.Join(args, " ") + "\n" + out.String())
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return out.String(), failed.ExitCode()
	}
	require.NoError(t, err)
	return out.String(), 0
}

// requireParts: one master, and all others are replicas.
func requireParts(t *testing.T, master *server.Server, replicas ...*server.Server) {
	t.Helper()
	require.Equal(t, "master", role(master))
	for _, r := range replicas {
		require.Equal(t, "slave", role(r))
	}
}

func role(s *server.Server) string { return s.Info("replication")["role"] }

func TestTheFailoverOfThePage(t *testing.T) {
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "operating.md"))
	require.NoError(t, err)
	script, err := os.ReadFile(filepath.Join(root, "packaging", "failover"))
	require.NoError(t, err)
	for text, in := range map[string]string{
		"packaging/failover 10.0.0.1:6379 10.0.0.2:6379 ":        string(page),
		"packaging/failover --sentinel 10.0.0.3:26379 limits ":   string(page),
		"is the master and 10.0.0.1:6379 its replica, in their ": string(page),
		`is the master and $old its replica, in their `:          string(script),
	} {
		assert.Contains(t, in, text)
	}
}

// linked starts a master and a replica that reaches it through a link.
func linked(t *testing.T) (master, replica *server.Server, link *topology.Link) {
	master = server.Start(t)
	link = topology.LinkTo(t, master)
	replica = server.Start(t, server.Config(fmt.Sprintf("replicaof 127.0.0.1 %d", link.Port)))
	require.Eventually(t, func() bool { return replica.Info("replication")["master_link_status"] == "up" }, time.Minute, 5*time.Millisecond)
	return master, replica, link
}

// The steps of docs/operating.md, under load: one master at the end, the same count on both, and no unit forgotten or
// charged twice.
func TestTheStepsOfAnUpgradeEndInOneMaster(t *testing.T) {
	t.Parallel()
	for name, watched := range map[string]bool{"plain": false, "under a Sentinel": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := server.Start(t)
			promoted := server.Start(t, server.ReplicaOf(old))
			topology.AwaitReplicas(t, old, promoted)
			args := []string{old.Addr(), promoted.Addr()}
			if watched {
				args = []string{"--sentinel", topology.Watch(t, 1, old, 1).Addrs()[0], topology.MasterName}
			}
			load := startCallers(t, old, promoted)

			promoted.MustDo("CONFIG", "REWRITE") // Restart writes the file anew but for KeepConfig
			promoted.Configure(server.KeepConfig())
			promoted.Restart()
			_, status := handOver(t, nil, args...)
			require.Zero(t, status)
			requireParts(t, promoted, old)
			old.Configure(server.KeepConfig())
			old.Restart()
			load.await(t, 100)
			load.stop()

			topology.AwaitReplicas(t, promoted, old)
			requireParts(t, promoted, old)
			load.requireCharged(t)
		})
	}
}

// With a password that Sentinels do not ask for, three of them, a file and two replicas, of which the one that is not
// promoted follows, too.
func TestAMasterOfSeveralReplicasIsHandedOver(t *testing.T) {
	t.Parallel()
	cli, err := server.CLIPath()
	require.NoError(t, err)
	secret := []string{"REDISCLI_AUTH=secret", "CLI=" + cli + " --user operator", "SENTINEL_CLI=" + cli}
	start := func(t *testing.T, right string, opts ...server.Option) *server.Server {
		return server.Start(t, append(opts, server.Password("secret"), server.AppendOnly("everysec"), server.Config("masterauth secret",
			"user operator on >secret resetkeys allchannels -@all +auth +info +command +config|get +config|rewrite +pubsub|numsub "+right))...)
	}
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		old := start(t, "+failover")
		promoted, other := start(t, "+failover", server.ReplicaOf(old)), start(t, "+failover", server.ReplicaOf(old))
		topology.AwaitReplicas(t, old, promoted, other)
		said, status := handOver(t, secret, old.Addr(), promoted.Addr())
		require.Zero(t, status)
		requireParts(t, promoted, old, other)
		assert.Contains(t, said, "still behind "+old.Addr())
		assert.Contains(t, said, other.Addr())
		topology.AwaitReplicas(t, promoted, old, other)
	})
	t.Run("under Sentinels", func(t *testing.T) {
		t.Parallel()
		const rights = "+replicaof +client|pause +client|unpause"
		old := start(t, rights)
		a, b := start(t, rights, server.ReplicaOf(old)), start(t, rights, server.ReplicaOf(old))
		topology.AwaitReplicas(t, old, a, b)
		sentinels := topology.Watch(t, 3, old, 2, "sentinel auth-pass "+topology.MasterName+" secret")
		_, status := handOver(t, secret, "--sentinel", sentinels.Addrs()[1], topology.MasterName)
		require.Zero(t, status)
		promoted, other := a, b
		if role(b) == "master" {
			promoted, other = b, a
		}
		requireParts(t, promoted, old, other)
		topology.AwaitReplicas(t, promoted, old, other)
	})
}

func TestAFailoverIsRefusedWhereItCannotEnd(t *testing.T) {
	t.Parallel()
	pair := func(t *testing.T) (master, replica *server.Server) {
		master = server.Start(t)
		replica = server.Start(t, server.ReplicaOf(master))
		topology.AwaitReplicas(t, master, replica)
		return master, replica
	}
	for name, tc := range map[string]struct {
		says string
		args func(t *testing.T) (args []string, stays *server.Server)
	}{
		"the replica hangs": {"does not answer INFO within 5 seconds", func(t *testing.T) ([]string, *server.Server) {
			master, replica := pair(t)
			replica.Pause()
			t.Cleanup(replica.Resume)
			return []string{master.Addr(), replica.Addr()}, master
		}},
		"the replica hangs under a Sentinel": {"does not answer INFO within 5 seconds", func(t *testing.T) ([]string, *server.Server) {
			master, replica := pair(t)
			s := topology.Watch(t, 1, master, 1)
			replica.Pause()
			t.Cleanup(replica.Resume)
			return []string{"--sentinel", s.Addrs()[0], topology.MasterName}, master
		}},
		"the link stands still": {"which stays the master", func(t *testing.T) ([]string, *server.Server) {
			master, replica, link := linked(t)
			link.Hold()
			master.MustDo("SET", "not", "there")
			return []string{master.Addr(), replica.Addr()}, master
		}},
		"a Sentinel watches": {"use --sentinel", func(t *testing.T) ([]string, *server.Server) {
			master, replica := pair(t)
			topology.Watch(t, 1, master, 1)
			return []string{master.Addr(), replica.Addr()}, master
		}},
		"the wrong way round": {"is no master", func(t *testing.T) ([]string, *server.Server) {
			master, replica := pair(t)
			return []string{replica.Addr(), master.Addr()}, master
		}},
		"another master's replica": {"is no replica of", func(t *testing.T) ([]string, *server.Server) {
			master := server.Start(t)
			_, replica := pair(t)
			return []string{master.Addr(), replica.Addr()}, master
		}},
		"a replica without the module": {"has no CL.THROTTLE", func(t *testing.T) ([]string, *server.Server) {
			master := server.Start(t)
			return []string{master.Addr(), server.Start(t, server.WithoutModule(), server.ReplicaOf(master)).Addr()}, master
		}},
		"a server without a file": {"without a configuration file", func(t *testing.T) ([]string, *server.Server) {
			master := server.Start(t, server.NoConfigFile())
			return []string{master.Addr(), server.Start(t, server.ReplicaOf(master)).Addr()}, master
		}},
		"a name that the Sentinel does not know": {"knows no master", func(t *testing.T) ([]string, *server.Server) {
			master, _ := pair(t)
			return []string{"--sentinel", topology.Watch(t, 1, master, 1).Addrs()[0], "other"}, master
		}},
		"a node of a cluster": {"CLUSTER FAILOVER", func(t *testing.T) ([]string, *server.Server) {
			node := server.Start(t, server.Cluster())
			return []string{node.Addr(), node.Addr()}, node
		}},
		"a password that is not given": {"NOAUTH", func(t *testing.T) ([]string, *server.Server) {
			s := server.Start(t, server.Password("secret"))
			return []string{s.Addr(), s.Addr()}, s
		}},
		"a user without PUBSUB": {"does not say whether a Sentinel watches", func(t *testing.T) ([]string, *server.Server) {
			master, replica := pair(t)
			master.MustDo("ACL", "SETUSER", "default", "-pubsub")
			return []string{master.Addr(), replica.Addr()}, master
		}},
		"no arguments": {"usage:", func(t *testing.T) ([]string, *server.Server) { return nil, server.Start(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args, stays := tc.args(t)
			said, status := handOver(t, []string{"PATIENCE=8"}, args...)
			assert.Equal(t, 1, status)
			assert.Contains(t, said, tc.says)
			assert.Equal(t, "master", role(stays))
			assert.Equal(t, "0", stays.MustDo("PUBLISH", "a", "b").String(), "callers are held back no longer")
		})
	}
}
