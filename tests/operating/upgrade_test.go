package operating_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// pair is a master and its replica that load the module from one path, as docs/operating.md has them upgraded.
type pair struct {
	t               *testing.T
	installed       string
	master, replica *server.Server
}

func newPair(t *testing.T, module string) *pair {
	p := &pair{t: t, installed: filepath.Join(t.TempDir(), "throttle.so")}
	p.install(module)
	p.master = server.Start(t, server.Module(p.installed), topology.QuietLinks())
	p.replica = server.Start(t, server.Module(p.installed), topology.QuietLinks(), server.ReplicaOf(p.master))
	topology.AwaitReplicas(t, p.master, p.replica)
	return p
}

// install moves a build to the path.
func (p *pair) install(module string) {
	p.t.Helper()
	code, err := os.ReadFile(module)
	require.NoError(p.t, err)
	next := p.installed + ".new"
	require.NoError(p.t, os.WriteFile(next, code, 0o755))
	require.NoError(p.t, os.Rename(next, p.installed))
}

// roll restarts both with what is installed, and each takes the other's part.
func (p *pair) roll() {
	p.t.Helper()
	p.replica.MustDo("CONFIG", "REWRITE")
	p.replica.Configure(server.KeepConfig())
	p.replica.Restart()
	topology.AwaitReplicas(p.t, p.master, p.replica)
	p.master.MustDo("FAILOVER")
	p.master, p.replica = p.replica, p.master
	topology.AwaitRole(p.t, p.master, "master")
	topology.AwaitRole(p.t, p.replica, "slave")
	for _, s := range []*server.Server{p.master, p.replica} {
		s.MustDo("CONFIG", "REWRITE")
	}
	p.replica.Configure(server.KeepConfig())
	p.replica.Restart()
	topology.AwaitReplicas(p.t, p.master, p.replica)
}

// first returns the first integers of a COMPACT reply: limited, limits, limit, remaining.
func (p *pair) first(call string) (limited, remaining int64) {
	p.t.Helper()
	v := p.master.MustDo(strings.Fields(call)...)
	require.Greater(p.t, len(v.Elems), 3, "%s: %v", call, v)
	return v.Elems[0].Int, v.Elems[3].Int
}

func (p *pair) has(call string, limited, remaining int64) {
	p.t.Helper()
	gotLimited, got := p.first(call)
	assert.Equal(p.t, [2]int64{limited, remaining}, [2]int64{gotLimited, got}, call)
}

// From version 0.2.0 to this one and back again, by the steps of docs/operating.md, with limits, leases and bans that
// live on. The rates get no unit back while the test runs.
func TestFromTheOlderVersionAndBackAgain(t *testing.T) {
	t.Parallel()
	older := kit.OlderBuild(t, "0.2.0")
	present, err := server.ModulePath()
	require.NoError(t, err)
	p := newPair(t, older)
	p.has("CL.LIMIT user FIXED 100/y RATE 10/100d COST 3 COMPACT", 0, 7)
	p.master.MustDo("CL.LEASE", "jobs", "SLOTS", "2", "TTL", "1d", "ID", "a")
	p.master.MustDo("CL.BAN", "bad", "1d")
	p.has("CL.LIMIT unit RATE 30/8640000 COMPACT", 0, 29)

	p.install(present)
	p.roll()
	p.has("CL.PEEK user FIXED 100/y RATE 10/100d COMPACT", 0, 7)
	p.has("CL.PEEK bad RATE 5/s COMPACT", 1, 0)
	v := p.master.Do("CL.LIMIT", "unit", "RATE", "30/8640000")
	assert.Contains(t, v.Text, "8640000 needs a unit")
	p.has("CL.PEEK unit RATE 30/8640000s COMPACT", 0, 29)
	p.has("CL.LIMIT user WINDOW 5/100d COMPACT", 0, 4)
	p.has("CL.PEEK user FIXED 100/y COMPACT", 0, 97)
	limited, _ := p.first("CL.MLIMIT 2 tokens jobs RATE 100/100d TAKE 10 NEXT SLOTS 2 TTL 1d ID b COMPACT")
	assert.Zero(t, limited)
	limited, _ = p.first("CL.MLIMIT 2 tokens jobs RATE 100/100d TAKE 10 NEXT SLOTS 2 TTL 1d ID c COMPACT")
	assert.EqualValues(t, 1, limited, "the lease that the older version gave counts")

	p.install(older)
	p.roll()
	p.has("CL.PEEK user FIXED 100/y COMPACT", 0, 97)
	p.has("CL.PEEK bad RATE 5/s COMPACT", 1, 0)
	p.has("CL.PEEK tokens RATE 100/100d COMPACT", 0, 90)
	assert.Contains(t, p.master.Do("CL.SETTLE", "1", "jobs", "SLOTS", "ID", "b").Text, "unknown command")
	assert.EqualValues(t, 1, p.master.MustDo("CL.RELEASE", "jobs", "ID", "b").Int)
	assert.Contains(t, p.master.Do("CL.THROTTLE", "user", "9", "1", "60").Text, "WRONGTYPE")
	p.has("CL.LIMIT user WINDOW 5/100d COMPACT", 0, 3)
	p.has("CL.PEEK user FIXED 100/y COMPACT", 0, 100)
}

// From version 0.3.0 to this one and back again. What 0.3.0 admitted is settled by this version, and the other way
// round.
func TestFromVersion03AndBackAgain(t *testing.T) {
	t.Parallel()
	older := kit.OlderBuild(t, "0.3.0")
	present, err := server.ModulePath()
	require.NoError(t, err)
	p := newPair(t, older)
	p.has("CL.LIMIT user FIXED 100/y RATE 10/100d COST 3 COMPACT", 0, 7)
	p.has("CL.LIMIT user WINDOW 5/100d COMPACT", 0, 4)
	p.master.MustDo("CL.BAN", "bad", "1d")
	admitted, _ := p.first("CL.MLIMIT 2 tokens jobs RATE 100/100d TAKE 10 NEXT SLOTS 2 TTL 1d ID a COMPACT")
	assert.Zero(t, admitted)
	assert.Contains(t, p.master.Do("CL.LIMIT", "closed", "FIXED", "0/1d").Text, "ERR")

	p.install(present)
	p.roll()
	p.has("CL.PEEK user FIXED 100/y RATE 10/100d COMPACT", 0, 7)
	p.has("CL.PEEK user WINDOW 5/100d COMPACT", 0, 4)
	p.has("CL.PEEK bad RATE 5/s COMPACT", 1, 0)
	p.has("CL.LIMIT closed FIXED 0/1d COMPACT", 1, 0)
	settled, _ := p.first("CL.SETTLE 2 tokens jobs RATE 100/100d TAKE 10 USED 4 NEXT SLOTS ID a COMPACT")
	assert.EqualValues(t, 1, settled, "the older version admitted it")
	p.has("CL.PEEK tokens RATE 100/100d COMPACT", 0, 96)
	admitted, _ = p.first("CL.MLIMIT 2 tokens jobs RATE 100/100d TAKE 10 NEXT SLOTS 2 TTL 1d ID b COMPACT")
	assert.Zero(t, admitted)
	for _, limited := range []int64{0, 1} {
		p.has("CL.LIMIT login RATE 1/100d BAN 1h AFTER 5/1d COMPACT", limited, 0)
	}

	p.install(older)
	p.roll()
	p.has("CL.PEEK user FIXED 100/y RATE 10/100d COMPACT", 0, 7)
	p.has("CL.PEEK user WINDOW 5/100d COMPACT", 0, 4)
	p.has("CL.PEEK bad RATE 5/s COMPACT", 1, 0)
	settled, _ = p.first("CL.SETTLE 2 tokens jobs RATE 100/100d TAKE 10 USED 4 NEXT SLOTS ID b COMPACT")
	assert.EqualValues(t, 1, settled, "the newer version admitted it")
	p.has("CL.PEEK tokens RATE 100/100d COMPACT", 0, 92)
	assert.Contains(t, p.master.Do("CL.PEEK", "login", "RATE", "1/100d").Text, "WRONGTYPE")
	p.master.MustDo("DEL", "login")
	p.has("CL.LIMIT login RATE 1/100d COMPACT", 0, 0)
	for call, near := range map[string]string{
		"CL.LIMIT closed FIXED 0/1d":                                     "0/1d",
		"CL.LIMIT login RATE 1/100d BAN 1h AFTER 5/1d":                   "AFTER",
		"CL.LEASE jobs SLOTS 2 TTL 1d ID c TIMEOUT 1s GROUP a WEIGHT 10": "WEIGHT",
	} {
		assert.Contains(t, p.master.Do(strings.Fields(call)...).Text, "syntax error near '"+near+"'", call)
	}
}

// From version 0.4.0 to this one and back again. A key that this version
// keeps longer goes on as it is, and so do a count of denials and the hash of policies.
func TestFromVersion04AndBackAgain(t *testing.T) {
	t.Parallel()
	older := kit.OlderBuild(t, "0.4.0")
	present, err := server.ModulePath()
	require.NoError(t, err)
	p := newPair(t, older)
	p.has("CL.LIMIT user FIXED 100/y RATE 10/100d COST 3 COMPACT", 0, 7)
	p.master.MustDo("CL.BAN", "bad", "1d")
	p.master.MustDo("HSET", "throttle:policies", "api", "RATE 5/s")
	admitted, _ := p.first("CL.MLIMIT 2 tokens jobs RATE 100/100d TAKE 10 NEXT SLOTS 2 TTL 1d ID a COMPACT")
	assert.Zero(t, admitted)
	for _, limited := range []int64{0, 1, 1, 1} {
		p.has("CL.LIMIT login RATE 1/100d BAN 1h AFTER 5/1d COMPACT", limited, 0)
	}
	assert.Contains(t, p.master.Do("CL.INSPECT", "user").Text, "unknown command")

	p.install(present)
	p.roll()
	p.has("CL.PEEK user FIXED 100/y RATE 10/100d COMPACT", 0, 7)
	p.has("CL.PEEK bad RATE 5/s COMPACT", 1, 0)
	settled, _ := p.first("CL.SETTLE 2 tokens jobs RATE 100/100d TAKE 10 USED 4 NEXT SLOTS ID a COMPACT")
	assert.EqualValues(t, 1, settled, "the older version admitted it")
	p.has("CL.PEEK tokens RATE 100/100d COMPACT", 0, 96)
	admitted, _ = p.first("CL.MLIMIT 2 tokens jobs RATE 100/100d TAKE 10 NEXT SLOTS 2 TTL 1d ID b COMPACT")
	assert.Zero(t, admitted)
	p.has("CL.LIMIT login RATE 1/100d BAN 1h AFTER 5/1d COMPACT", 1, 0)
	for remaining := int64(9); remaining > 5; remaining-- {
		p.has("CL.LIMIT kept RATE 10/100d COMPACT", 0, remaining)
	}
	assert.Contains(t, p.master.MustDo("CL.INSPECT", "kept").String(), "RATE")
	expires := p.master.MustDo("PEXPIRETIME", "kept").Int

	p.install(older)
	p.roll()
	assert.Equal(t, expires, p.master.MustDo("PEXPIRETIME", "kept").Int)
	p.has("CL.LIMIT kept RATE 10/100d COMPACT", 0, 5)
	p.has("CL.PEEK user FIXED 100/y RATE 10/100d COMPACT", 0, 7)
	p.has("CL.PEEK bad RATE 5/s COMPACT", 1, 0)
	settled, _ = p.first("CL.SETTLE 2 tokens jobs RATE 100/100d TAKE 10 USED 4 NEXT SLOTS ID b COMPACT")
	assert.EqualValues(t, 1, settled, "the newer version admitted it")
	p.has("CL.PEEK tokens RATE 100/100d COMPACT", 0, 92)
	assert.Equal(t, "RATE 5/s", p.master.MustDo("HGET", "throttle:policies", "api").Text)
	p.has("CL.PEEK login RATE 9/1d COMPACT", 0, 9)
	p.has("CL.LIMIT login RATE 1/100d BAN 1h AFTER 5/1d COMPACT", 1, 0) // the fifth denial, of which this version saw one
	p.has("CL.PEEK login RATE 9/1d COMPACT", 1, 0)
	for call, near := range map[string]string{"CL.DENIED user 1": "unknown command", "CL.TOP 5 SHADOW": "wrong number of arguments"} {
		assert.Contains(t, p.master.Do(strings.Fields(call)...).Text, near, call)
	}
}

// Settings to take out of the configuration first: with them a server with the older version does not start.
func TestTheOlderVersionDoesNotStartWithNewerSettings(t *testing.T) {
	t.Parallel()
	for version, lines := range map[string]map[string]string{
		"0.2.0": {
			`throttle.zones ""`: "Module Configuration detected",
			"user app on nopass ~* -@all +cl.limit +cl.settle": "Unknown command",
		},
		"0.3.0": {
			"throttle.aliases GCRA": "Module Configuration detected",
		},
		"0.4.0": {
			"throttle.max-waiting 100":                          "Module Configuration detected",
			"user app on nopass ~* -@all +cl.limit +cl.denied":  "Unknown command",
			"user app on nopass ~* -@all +cl.limit +cl.inspect": "Unknown command",
		},
	} {
		t.Run(version, func(t *testing.T) {
			older := kit.OlderBuild(t, version)
			for line, says := range lines {
				s := server.Start(t, server.Config(line))
				s.Configure(server.Module(older))
				require.Error(t, s.TryRestart(), line)
				assert.Contains(t, s.Log(), says, line)
			}
		})
	}
}
