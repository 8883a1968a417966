package examples

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// key is the one of requests from this machine.
const key = "http:127.0.0.1"

// plenty is an hourly count that no test uses up.
const plenty = 1_000_000

// fault is a state in which Redis does not decide.
type fault struct {
	name       string
	begin, end func()
	outage     bool // requests are let through; otherwise they are answered 500
}

const withoutModule = "a server without the module that refuses scripts, too"

// An outage lets requests through, a mistake never does, and both are over when their
// cause is.
func TestOnlyAnOutageLetsRequestsThrough(t *testing.T) {
	for _, name := range names(t) {
		t.Run(name+"/server", func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			page := serve(t, name, onServer(s), plenty)
			page.requireFaults(t, faultsOfServer(t, s))
		})
		if name == knowsNoCluster {
			continue
		}
		t.Run(name+"/cluster", func(t *testing.T) {
			t.Parallel()
			size.NeedsFull(t)
			c := topology.StartCluster(t)
			page := serve(t, name, onCluster(c), plenty)
			page.requireFaults(t, faultsOfCluster(t, c))
			if name != crashesWithoutSlot {
				page.requireFaults(t, []fault{slotWithoutOwner(c)})
			}
		})
	}
}

// The packages call functions while a server has no module; the other examples send its commands only.
func TestFunctionsLimitWhereTheModuleIsNot(t *testing.T) {
	for _, name := range names(t) {
		if !callsFunctions[name] {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			page := serve(t, name, onServer(s), plenty)
			page.awaitLimit(t, "with the module")
			s.MustDo("MODULE", "UNLOAD", "throttle")
			page.awaitLimit(t, "without the module")
			loadModule(t, s)
			page.awaitLimit(t, "with the module again")
		})
	}
}

// callsFunctions are the examples of packages of this project.
var callsFunctions = map[string]bool{"go-redis": true, "node-redis": true, "python-redis-py": true}

// A limit that the server refuses, and a client for a single server in a cluster, show at
// once: either nothing is served, or no request is let through unlimited.
func TestMistakesShow(t *testing.T) {
	c := topology.StartCluster(t)
	masters, owner := c.Masters(), c.Owner(c.Slot(key))
	elsewhere := masters[0]
	if owner == elsewhere {
		elsewhere = masters[1]
	}
	inCluster := onCluster(c)
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, mistake := range []struct {
				name  string
				env   []string
				count int
			}{
				{"a bad limit on a server", onServer(server.Start(t)), 0},
				{"a bad limit on a cluster", inCluster, 0},
				{"a client for one server in a cluster", onServer(elsewhere), plenty},
				{"a client for clusters on one server", append(onServer(server.Start(t)), "REDIS_CLUSTER=1"), plenty},
			} {
				page := tryServe(t, name, mistake.env, mistake.count)
				if page.url == "" {
					require.NotEmpty(t, page.stderr.String(), mistake.name)
					continue
				}
				status, limited := page.get(t)
				require.True(t, limited || status == http.StatusInternalServerError, "%s\n%s", mistake.name, &page.stderr)
			}
		})
	}
}

// page is a page that an example serves.
type page struct {
	url    string // "" when the example ended instead
	stderr kit.Log
}

func serve(t *testing.T, name string, env []string, count int) *page {
	p := tryServe(t, name, env, count)
	require.NotEmpty(t, p.url, p.stderr.String())
	return p
}

// tryServe starts an example that serves its page until the test ends.
func tryServe(t *testing.T, name string, env []string, count int) *page {
	p := &page{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := command(ctx, t, name, env, "serve", strconv.Itoa(count))
	cmd.Stderr = &p.stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if text := p.stderr.String(); t.Failed() {
			t.Logf("%s complained:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
	began := time.AfterFunc(patience, cancel)
	defer began.Stop()
	line, _ := bufio.NewReader(stdout).ReadString('\n') // "" at its end
	if p.url = strings.TrimSpace(line); p.url == "" {
		_ = cmd.Wait() // for all that it has to say
	}
	return p
}

// get is the status of the response to a request, and whether a limit was asked.
func (p *page) get(t *testing.T) (status int, limited bool) {
	response, err := http.Get(p.url)
	require.NoError(t, err)
	defer response.Body.Close()
	return response.StatusCode, response.Header.Get("RateLimit") != ""
}

// getUnlessBusy is get, again where the example says that it was too busy to see a reply, on a machine with other work.
func (p *page) getUnlessBusy(t *testing.T) (status int, limited bool) {
	said := func() int { return strings.Count(p.stderr.String(), "this process was too busy") }
	for range 20 {
		before := said()
		if status, limited = p.get(t); status != http.StatusServiceUnavailable {
			break
		}
		require.Eventually(t, func() bool { return said() > before }, patience/5, time.Millisecond, "it is busy, and does not say so")
	}
	return status, limited
}

// awaitLimit returns when requests are limited.
func (p *page) awaitLimit(t *testing.T, when string) {
	require.Eventually(t, func() bool {
		status, limited := p.get(t)
		return status == http.StatusOK && limited
	}, patience/5, 20*time.Millisecond, "%s: requests are not limited", when)
}

func (p *page) requireFaults(t *testing.T, faults []fault) {
	p.awaitLimit(t, "at the beginning")
	for _, f := range faults {
		want := http.StatusInternalServerError
		if f.outage {
			want = http.StatusOK
		}
		f.begin()
		if f.name == withoutModule { // unloading closes connections, which is an outage until there are others
			require.Eventually(t, func() bool {
				status, limited := p.get(t)
				return status != http.StatusOK || limited
			}, patience/5, 20*time.Millisecond, "%s: it is not connected again", f.name)
		}
		for range 3 {
			status, limited := p.getUnlessBusy(t)
			if limited || status != want {
				f.end()
			}
			require.False(t, limited, "%s: a limit was asked", f.name)
			require.Equal(t, want, status, f.name)
		}
		f.end()
		p.awaitLimit(t, "after "+f.name)
	}
}

func faultsOfServer(t *testing.T, s *server.Server) []fault {
	var script, reload *endless
	return append(mistakes(s, []*server.Server{s}),
		fault{withoutModule,
			func() { s.MustDo("ACL", "SETUSER", "default", "-@scripting"); s.MustDo("MODULE", "UNLOAD", "throttle") },
			func() { loadModule(t, s); s.MustDo("ACL", "SETUSER", "default", "+@all") }, false},
		fault{"READONLY",
			func() { s.MustDo("REPLICAOF", "127.0.0.1", "1") },
			func() { s.MustDo("REPLICAOF", "NO", "ONE") }, true},
		fault{"MASTERDOWN",
			func() {
				s.MustDo("CONFIG", "SET", "replica-read-only", "no")
				s.MustDo("CONFIG", "SET", "replica-serve-stale-data", "no")
				s.MustDo("REPLICAOF", "127.0.0.1", "1")
			},
			func() {
				s.MustDo("REPLICAOF", "NO", "ONE")
				s.MustDo("CONFIG", "SET", "replica-serve-stale-data", "yes")
			}, true},
		set(s, "OOM", "maxmemory", "1", "0"),
		set(s, "NOREPLICAS", "min-replicas-to-write", "1", "0"),
		fault{"BUSY",
			func() {
				s.MustDo("CONFIG", "SET", "lua-time-limit", "1") // ms
				script = begin(t, s, "BUSY", "EVAL", "while true do end", "0")
			},
			func() { s.MustDo("SCRIPT", "KILL"); <-script.ended }, true},
		fault{"LOADING",
			func() {
				loadSlowly(s)
				reload = begin(t, s, "LOADING", "DEBUG", "RELOAD")
			},
			func() { s.MustDo("CONFIG", "SET", "key-load-delay", "0"); <-reload.ended }, true},
		fault{"a server that hangs", s.Pause, s.Resume, true},
		fault{"a server that is down", s.Kill, s.Restart, true})
}

func faultsOfCluster(t *testing.T, c *topology.Cluster) []fault {
	slot := c.Slot(key)
	owner := c.Owner(slot)
	other := strconv.Itoa(slices.DeleteFunc(c.Slots(owner), func(s int) bool { return s == slot })[0])
	all := func(do func(*server.Server)) func() {
		return func() {
			for _, n := range c.Nodes {
				do(n)
			}
		}
	}
	return append(mistakes(owner, c.Nodes),
		set(owner, "OOM", "maxmemory", "1", "0"),
		fault{"CLUSTERDOWN",
			func() {
				owner.MustDo("CONFIG", "SET", "cluster-require-full-coverage", "yes")
				owner.MustDo("CLUSTER", "DELSLOTS", other)
				require.Eventually(t, func() bool { return down(owner) }, patience, time.Millisecond)
			},
			func() {
				owner.MustDo("CLUSTER", "ADDSLOTS", other)
				owner.MustDo("CONFIG", "SET", "cluster-require-full-coverage", "no")
			}, true},
		fault{"a node that hangs", owner.Pause, owner.Resume, true},
		fault{"a node that is down", owner.Kill, func() { owner.Restart(); c.AwaitAgreement() }, true},
		fault{"a cluster that is down", all((*server.Server).Kill), func() {
			for _, n := range c.Nodes {
				n.Restart()
			}
			c.AwaitAgreement()
		}, true})
}

func down(s *server.Server) bool {
	return server.ParseInfo(s.MustDo("CLUSTER", "INFO").Text)["cluster_state"] == "fail"
}

// crashesWithoutSlot is the example whose library ends the PHP process when asked for a key
// that no node has (phpredis 5.3.7, rawCommand). That lets nobody
// through either.
const crashesWithoutSlot = "php"

func slotWithoutOwner(c *topology.Cluster) fault {
	slot := c.Slot(key)
	owner := c.Owner(slot)
	return fault{"CLUSTERDOWN for a slot",
		func() { owner.MustDo("CLUSTER", "DELSLOTS", strconv.Itoa(slot)) },
		func() { owner.MustDo("CLUSTER", "ADDSLOTS", strconv.Itoa(slot)) }, true}
}

// mistakes are those that show in how a server replies.
func mistakes(owner *server.Server, nodes []*server.Server) []fault {
	acl := func(rules ...string) func() {
		return func() {
			for _, n := range nodes {
				n.MustDo(append([]string{"ACL", "SETUSER", "default"}, rules...)...)
			}
		}
	}
	return []fault{
		{"a key of another type",
			func() { owner.MustDo("DEL", key); owner.MustDo("RPUSH", key, "1") },
			func() { owner.MustDo("DEL", key) }, false},
		{"no permission", acl("-cl.limit", "-cl.throttle", "-@scripting"), acl("+@all"), false},
	}
}

// set is an outage that a setting of the server makes.
func set(s *server.Server, name, setting, bad, good string) fault {
	return fault{name,
		func() { s.MustDo("CONFIG", "SET", setting, bad) },
		func() { s.MustDo("CONFIG", "SET", setting, good) }, true}
}

func loadModule(t *testing.T, s *server.Server) {
	path, err := server.ModulePath()
	require.NoError(t, err)
	s.MustDo("MODULE", "LOAD", path)
}

// endless is a command that goes on until it is ended.
type endless struct{ ended chan struct{} }

// begin sends a command, and returns when the server answers others with state.
func begin(t *testing.T, s *server.Server, state string, command ...string) *endless {
	e := &endless{make(chan struct{})}
	c := s.Raw()
	go func() {
		defer close(e.ended)
		_, _ = c.Do(command...) // a script ends with an error
	}()
	require.Eventually(t, func() bool { return strings.HasPrefix(s.Do("PING").Text, state) }, patience, time.Millisecond)
	return e
}

// loadSlowly makes loading take a minute, in which the server answers after each key.
func loadSlowly(s *server.Server) {
	const keys, bytes, delayMicroseconds = 600, 4096, 100_000
	s.MustDo("CONFIG", "SET", "rdbcompression", "no")
	s.MustDo("CONFIG", "SET", "loading-process-events-interval-bytes", "1024")
	s.MustDo("DEBUG", "POPULATE", strconv.Itoa(keys), "load", strconv.Itoa(bytes))
	s.MustDo("CONFIG", "SET", "key-load-delay", strconv.Itoa(delayMicroseconds))
}
