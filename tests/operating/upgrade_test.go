package operating_test

import (
	"fmt"
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

// answers makes a call: it answers the first integer of a COMPACT reply and what remains, or what it has said.
func (p *pair) answers(call string) string {
	v := p.master.Do(strings.Fields(call)...)
	if strings.HasSuffix(call, "COMPACT") && len(v.Elems) > 3 {
		return fmt.Sprint([]int64{v.Elems[0].Int, v.Elems[3].Int})
	}
	return v.String()
}

// What each version goes on from that the other wrote, in three parts: calls on an older version, on this one after the
// upgrade, and on the older one again. The rates get no unit back meanwhile.
var upgrades = [3][]struct{ versions, call, want string }{{
	{"0.2.0 0.3.0 0.4.0", "CL.LIMIT user FIXED 100/y RATE 10/100d COST 3 COMPACT", "[0 7]"},
	{"0.2.0 0.3.0 0.4.0", "CL.LIMIT windows WINDOW 5/100d COMPACT", "[0 4]"},
	{"0.2.0 0.3.0 0.4.0", "CL.BAN bad 1d", "86400000"},
	{"0.2.0", "CL.LIMIT unit RATE 30/8640000 COMPACT", "[0 29]"},
	{"0.2.0", "CL.LEASE leases SLOTS 2 TTL 1d ID a COMPACT", "[0 -1]"},
	{"0.2.0", "CL.LIMIT forgets FIXED 100/y COST 3 COMPACT", "[0 97]"},
	{"0.3.0 0.4.0", "CL.MLIMIT 2 tokens jobs RATE 100/100d TAKE 10 NEXT SLOTS 2 TTL 1d ID a COMPACT", "[0 1]"},
	{"0.3.0", "CL.LIMIT closed FIXED 0/1d", "ERR"},
	{"0.4.0", "HSET throttle:policies api RATE-5/s", "1"},
	{"0.4.0", login, "[0 0]"}, {"0.4.0", login, "[1 0]"}, {"0.4.0", login, "[1 0]"}, {"0.4.0", login, "[1 0]"},
	{"0.4.0", "CL.INSPECT user", "unknown command"},
}, {
	{"0.2.0 0.3.0 0.4.0", "CL.PEEK user FIXED 100/y RATE 10/100d COMPACT", "[0 7]"},
	{"0.2.0 0.3.0 0.4.0", "CL.PEEK windows WINDOW 5/100d COMPACT", "[0 4]"},
	{"0.2.0 0.3.0 0.4.0", "CL.PEEK bad RATE 5/s COMPACT", "[1 0]"},
	{"0.2.0", "CL.LIMIT unit RATE 30/8640000", "8640000 needs a unit"},
	{"0.2.0", "CL.PEEK unit RATE 30/8640000s COMPACT", "[0 29]"},
	{"0.2.0", "CL.MLIMIT 2 taken leases RATE 100/100d TAKE 10 NEXT SLOTS 2 TTL 1d ID b COMPACT", "[0 0]"},
	{"0.2.0", "CL.MLIMIT 2 taken leases RATE 100/100d TAKE 10 NEXT SLOTS 2 TTL 1d ID c COMPACT", "[1 0]"}, // the lease of before counts
	{"0.2.0", "CL.LIMIT forgets WINDOW 5/100d COMPACT", "[0 4]"},
	{"0.2.0", "CL.PEEK forgets FIXED 100/y COMPACT", "[0 97]"},
	{"0.3.0 0.4.0", "CL.SETTLE 2 tokens jobs RATE 100/100d TAKE 10 USED 4 NEXT SLOTS ID a COMPACT", "[1 96]"}, // what the other admitted
	{"0.3.0 0.4.0", "CL.MLIMIT 2 tokens jobs RATE 100/100d TAKE 10 NEXT SLOTS 2 TTL 1d ID b COMPACT", "[0 1]"},
	{"0.3.0", "CL.LIMIT closed FIXED 0/1d COMPACT", "[1 0]"},
	{"0.3.0", login, "[0 0]"}, {"0.3.0 0.4.0", login, "[1 0]"},
	{"0.4.0", "CL.LIMIT kept RATE 10/100d COST 3 COMPACT", "[0 7]"}, {"0.4.0", "CL.LIMIT kept RATE 10/100d COMPACT", "[0 6]"},
	{"0.4.0", "CL.INSPECT kept", "RATE"},
}, {
	{"0.2.0 0.3.0 0.4.0", "CL.PEEK user FIXED 100/y RATE 10/100d COMPACT", "[0 7]"},
	{"0.2.0 0.3.0 0.4.0", "CL.PEEK windows WINDOW 5/100d COMPACT", "[0 4]"},
	{"0.2.0 0.3.0 0.4.0", "CL.PEEK bad RATE 5/s COMPACT", "[1 0]"},
	{"0.2.0", "CL.PEEK taken RATE 100/100d COMPACT", "[0 90]"},
	{"0.2.0", "CL.SETTLE 1 leases SLOTS ID b", "unknown command"},
	{"0.2.0", "CL.RELEASE leases ID b", "1"},
	{"0.2.0", "CL.THROTTLE user 9 1 60", "WRONGTYPE"},
	{"0.2.0", "CL.LIMIT forgets WINDOW 5/100d COMPACT", "[0 3]"}, {"0.2.0", "CL.PEEK forgets FIXED 100/y COMPACT", "[0 100]"},
	{"0.3.0 0.4.0", "CL.SETTLE 2 tokens jobs RATE 100/100d TAKE 10 USED 4 NEXT SLOTS ID b COMPACT", "[1 92]"},
	{"0.3.0", "CL.PEEK login RATE 1/100d", "WRONGTYPE"},
	{"0.3.0", "DEL login", "1"}, {"0.3.0", "CL.LIMIT login RATE 1/100d COMPACT", "[0 0]"},
	{"0.3.0", "CL.LIMIT closed FIXED 0/1d", "syntax error near '0/1d'"},
	{"0.3.0", login, "syntax error near 'AFTER'"},
	{"0.3.0", "CL.LEASE jobs SLOTS 2 TTL 1d ID c TIMEOUT 1s GROUP a WEIGHT 10", "syntax error near 'WEIGHT'"},
	{"0.4.0", "CL.LIMIT kept RATE 10/100d COMPACT", "[0 5]"},
	{"0.4.0", "HGET throttle:policies api", "RATE-5/s"},
	{"0.4.0", "CL.PEEK login RATE 9/1d COMPACT", "[0 9]"}, {"0.4.0", login, "[1 0]"}, // the fifth denial, of which this version saw one
	{"0.4.0", "CL.PEEK login RATE 9/1d COMPACT", "[1 0]"},
	{"0.4.0", "CL.DENIED user 1", "unknown command"}, {"0.4.0", "CL.TOP 5 SHADOW", "wrong number of arguments"},
}}

const login = "CL.LIMIT login RATE 1/100d BAN 1h AFTER 5/1d COMPACT"

// By the steps of docs/operating.md. A key that this version keeps longer goes on as it is.
func TestFromEachOlderVersionAndBackAgain(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"0.2.0", "0.3.0", "0.4.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			older := kit.OlderBuild(t, version)
			present, err := server.ModulePath()
			require.NoError(t, err)
			p, expires := newPair(t, older), ""
			for part, module := range []string{"", present, older} {
				if module != "" {
					p.install(module)
					p.roll()
				}
				if part == 2 {
					assert.Equal(t, expires, p.answers("PEXPIRETIME kept"))
				}
				for _, u := range upgrades[part] {
					if strings.Contains(u.versions, version) {
						assert.Contains(t, p.answers(u.call), u.want, "part %d: %s", part, u.call)
					}
				}
				expires = p.answers("PEXPIRETIME kept")
			}
		})
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
