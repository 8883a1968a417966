package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// limited is a server on which somebody was limited.
func limited(t testing.TB) *server.Server {
	t.Helper()
	s := server.Start(t, server.ModuleArgs("top", "100"))
	for range 5 {
		s.MustDo("CL.LIMIT", "user:42", "RATE", "1/h")
	}
	return s
}

func TestItShowsWhoIsLimited(t *testing.T) {
	t.Parallel()
	s := limited(t)
	p := show(t, "redis://"+s.Addr())
	got := p.state()
	assert.True(t, got.Redis.Up)
	assert.Equal(t, "master", got.Redis.Role)
	assert.Contains(t, got.Redis.Door, "module ")
	require.Len(t, got.Top.Rows, 1)
	assert.Equal(t, "user:42", got.Top.Rows[0].Key.Text)
	assert.EqualValues(t, 4, got.Top.Rows[0].Count)
	p.await("a pace", func(got state) bool {
		s.MustDo("CL.LIMIT", "user:42", "RATE", "1/h")
		return got.Pace.Now.Denied > 0
	})
}

func TestItShowsAServerWithTheFunctionLibraryOnly(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.WithoutModule())
	p := show(t, "redis://"+s.Addr())
	got := p.state()
	assert.Equal(t, "CL.TOP needs the module.", got.Top.Why)
	assert.Equal(t, "scripts", got.Redis.Door, "nothing is loaded by reading")
	kit.LoadFunctions(t, s)
	p.await("the library", func(got state) bool { return strings.HasPrefix(got.Redis.Door, "function library ") })
	require.Empty(t, p.act(map[string]any{"act": "ban", "key": []byte("k"), "for": "1h"}))
	assert.EqualValues(t, 1, s.MustDo(kit.AsFunction([]string{"CL.LIMIT", "k", "RATE", "5/s", "COMPACT"})...).Elems[0].Int)
	got = p.await("the ban", func(got state) bool { return len(got.Bans.Rows) == 1 })
	assert.Equal(t, "k", got.Bans.Rows[0].Key.Text)
	require.Empty(t, p.act(map[string]any{"act": "lift", "key": []byte("k")}))
	p.await("the end of the ban", func(got state) bool { return len(got.Bans.Rows) == 0 })
	s.MustDo("SET", "other", "x")
	assert.Contains(t, p.act(map[string]any{"act": "reset", "key": []byte("other")}), "no limiter wrote")
	require.Empty(t, p.act(map[string]any{"act": "reset", "key": []byte("k")}))
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "k").Int)
}

// No server lists bans, leases and lines: the page finds them among all keys.
func TestItFindsBansLeasesAndLines(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for i := range 3000 {
		s.MustDo("SET", fmt.Sprintf("other:%d", i), "x")
	}
	s.MustDo("CL.BAN", "user:bad", "1h")
	s.MustDo("CL.LEASE", "jobs", "SLOTS", "1", "TTL", "1h", "ID", "worker")
	waits := s.Raw()
	require.NoError(t, waits.Send("CL.LEASE", "jobs", "SLOTS", "1", "TTL", "1h", "ID", "next", "TIMEOUT", "0", "GROUP", "acme", "WEIGHT", "3"))
	require.NoError(t, waits.Flush())
	p := show(t, "redis://"+s.Addr())
	got := p.await("all of them", func(got state) bool {
		return len(got.Bans.Rows) == 1 && len(got.Leases.Rows) == 1 && len(got.Leases.Rows[0].Leases.Groups) == 1
	})
	assert.Equal(t, "user:bad", got.Bans.Rows[0].Key.Text)
	jobs := got.Leases.Rows[0]
	assert.Equal(t, "jobs", jobs.Key.Text)
	assert.EqualValues(t, 1, jobs.Leases.Held)
	assert.Equal(t, "acme", jobs.Leases.Groups[0].Name)
	assert.EqualValues(t, 3, jobs.Leases.Groups[0].Weight)

	var one struct{ State *inspected }
	p.ask("key", map[string]any{"key": []byte("user:bad")}, &one)
	assert.Equal(t, "ban", one.State.Kind)
	require.Empty(t, p.act(map[string]any{"act": "lift", "key": []byte("user:bad")}))
	require.Empty(t, p.act(map[string]any{"act": "reset", "key": []byte("jobs")}))
	p.await("that they are gone", func(got state) bool { return len(got.Bans.Rows) == 0 })
}

// In a cluster the key and the log may be on two masters: the entry is written first.
func TestItShowsAndActsOnACluster(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	p := show(t, "cluster+redis://"+c.Nodes[0].Addr())
	for i := range 6 {
		require.Empty(t, p.act(map[string]any{"act": "ban", "key": fmt.Appendf(nil, "user:%d", i), "for": "1h"}))
	}
	require.Empty(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "RATE 5/s"}))
	got := p.await("all bans", func(got state) bool { return len(got.Bans.Rows) == 6 && got.Policies.Count == 1 })
	assert.Equal(t, 3, got.Redis.Masters)
	assert.Len(t, got.Log, 7)
	for i := range 6 {
		require.Empty(t, p.act(map[string]any{"act": "reset", "key": fmt.Appendf(nil, "user:%d", i)}))
	}
	assert.Equal(t, "console: act reset key user:5", p.state().Log[0].By+": "+p.state().Log[0].What)
	assert.EqualValues(t, 0, p.state().Redis.Keys-2, "none but the hash and the log")
}

func TestItShowsThrottleDev(t *testing.T) {
	t.Parallel()
	p := started(t, "--port", "0", "--console", "127.0.0.1:0", "--console-token", token)
	got := p.state()
	assert.Contains(t, got.Redis.Server, "throttle-dev ")
	assert.Empty(t, got.Top.Why, "CL.TOP is on")
	require.Empty(t, p.act(map[string]any{"act": "ban", "key": []byte("k"), "for": "1h"}))
	require.Empty(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "RATE 5/s"}))
	p.await("the policy", func(got state) bool { return got.Policies.Count == 1 && len(got.Log) == 2 })
}

func TestItSaysThatCLTOPIsOff(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	assert.Contains(t, show(t, "redis://"+s.Addr()).state().Top.Why, "CONFIG SET throttle.top 1000")
}

// The log has one entry for each act, with who did it and what.
func TestAnActIsWrittenDown(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	p := show(t, "redis://"+s.Addr())
	key := []byte("user:42")
	require.Empty(t, p.act(map[string]any{"act": "ban", "key": key, "for": "1h", "by": "anna"}))
	assert.EqualValues(t, 1, s.MustDo("CL.LIMIT", "user:42", "RATE", "5/s", "COMPACT").Elems[0].Int)
	require.Empty(t, p.act(map[string]any{"act": "lift", "key": key, "by": "anna"}))
	assert.EqualValues(t, 0, s.MustDo("CL.LIMIT", "user:42", "FIXED", "1/d", "COMPACT").Elems[0].Int)
	require.Empty(t, p.act(map[string]any{"act": "reset", "key": key}))
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "user:42").Int)
	require.Empty(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "RATE 30/m", "by": "anna"}))
	require.Empty(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "", "was": "RATE 30/m", "by": "anna"}))
	var said []string
	for _, e := range p.state().Log {
		said = append(said, e.By+": "+e.What)
	}
	assert.Equal(t, []string{
		`anna: api ""`, `anna: api "RATE 30/m"`, `console: act reset key user:42`, `anna: act lift key user:42`, `anna: act ban key user:42 for 1h`,
	}, said)
}

func TestWhatIsWrongChangesNothing(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	p := show(t, "redis://"+s.Addr())
	s.MustDo("HSET", "throttle:policies", "api", "RATE 60/m")
	s.MustDo("LPUSH", "list", "x")
	for _, c := range []struct {
		question map[string]any
		says     string
	}{
		{map[string]any{"act": "policy", "field": "api", "value": "RATE 60", "was": "RATE 60/m"}, "count/period"},
		{map[string]any{"act": "policy", "field": "api", "value": "RATE 5/m", "was": "RATE 1/m"}, "somebody else has changed it meanwhile"},
		{map[string]any{"act": "policy", "field": "api", "value": "RATE 5/m"}, "somebody else has changed it meanwhile"},
		{map[string]any{"act": "policy", "field": "a b", "value": "RATE 5/m"}, "the name must be"},
		{map[string]any{"act": "policy", "field": "@version", "value": "RATE 5/m"}, "about the hash itself"},
		{map[string]any{"act": "policy", "field": "web", "value": ""}, "there is no such policy"},
		{map[string]any{"act": "ban", "key": []byte("k")}, "a ban takes a length of time"},
		{map[string]any{"act": "ban", "key": []byte("k"), "for": "0"}, "a ban takes a length of time"},
		{map[string]any{"act": "ban", "key": []byte("k"), "for": "0s"}, "a ban takes a length of time"},
		{map[string]any{"act": "ban", "key": []byte("k"), "for": "00.0h"}, "a ban takes a length of time"},
		{map[string]any{"act": "ban", "key": []byte("k"), "for": "0.1ms"}, "a ban takes a length of time"},
		{map[string]any{"act": "ban", "key": []byte("k"), "for": "15"}, "a ban takes a length of time"},
		{map[string]any{"act": "ban", "key": []byte("k"), "for": "soon"}, "a ban takes a length of time"},
		{map[string]any{"act": "ban", "for": "1h"}, "type a key"},
		{map[string]any{"act": "flush", "key": []byte("k")}, "act is ban, lift, reset or policy"},
		{map[string]any{"act": "lift", "key": []byte("k"), "by": strings.Repeat("x", 65)}, "your name has at most 64"},
		{map[string]any{"act": "lift", "key": []byte("k"), "by": "anna\x1b[2J"}, "all of them printed"},
		{map[string]any{"act": "lift", "key": []byte("k"), "by": "anna\nby bert"}, "all of them printed"},
	} {
		assert.Contains(t, p.act(c.question), c.says, fmt.Sprint(c.question))
	}
	assert.Equal(t, "RATE 60/m", s.MustDo("HGET", "throttle:policies", "api").Text)
	assert.EqualValues(t, 0, s.MustDo("XLEN", "{throttle:policies}:log").Int)

	// The server refuses these itself. What was tried, and why it failed, stands in the log.
	assert.Contains(t, p.act(map[string]any{"act": "ban", "key": []byte("list"), "for": "1h"}), "WRONGTYPE")
	log := p.state().Log
	require.Len(t, log, 2)
	assert.Contains(t, log[0].What, "failed")
}

// A hash with @version is read whole only when that changes.
func TestAChangeTellsProgramsThatReadTheVersion(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	p := show(t, "redis://"+s.Addr())
	require.Empty(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "RATE 30/m"}))
	assert.EqualValues(t, 0, s.MustDo("HEXISTS", "throttle:policies", "@version").Int)
	s.MustDo("HSET", "throttle:policies", "@version", "7")
	require.Empty(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "RATE 31/m", "was": "RATE 30/m"}))
	assert.Equal(t, "8", s.MustDo("HGET", "throttle:policies", "@version").Text)
}

// A rehearsal keeps what counts, and has the new limits as shadows. Enforced, the shadows deny in their place.
func TestAPolicyIsRehearsedAndEnforced(t *testing.T) {
	t.Parallel()
	p := show(t, "redis://"+server.Start(t).Addr())
	check := func(value, was string) (checked struct{ Rehearsal, Problem, Enforced string }) {
		p.ask("check", map[string]any{"field": "api", "value": value, "was": was}, &checked)
		return checked
	}
	assert.Equal(t, "RATE 60/m RATE 5/m SHADOW", check("RATE 5/m", "RATE 60/m").Rehearsal)
	assert.Equal(t, "RATE 5/m", check("RATE 60/m RATE 5/m SHADOW", "").Enforced)
	code, text := p.ask("check", map[string]any{"field": "api", "value": "RATE"}, nil)
	assert.Equal(t, 200, code)
	assert.Contains(t, text, `"error":"`)
	assert.Contains(t, text, "count/period")
}

// A key holds whatever bytes: acts reach that very key, and nothing that is shown ends a line.
func TestAKeyHoldsWhateverBytes(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("top", "100"))
	p := show(t, "redis://"+s.Addr())
	keys := []string{"<img src=x onerror=alert(1)>", "a\x00b\r\n", "\xff\xfe", "\u202eevil", strings.Repeat("k", 10_000)}
	for _, name := range keys {
		for range 2 {
			s.MustDo("CL.LIMIT", name, "RATE", "1/h")
		}
		require.Empty(t, p.act(map[string]any{"act": "ban", "key": []byte(name), "for": "1h"}))
		assert.EqualValues(t, 0, s.MustDo("CL.LIMIT", name, "RATE", "1/h", "COMPACT").Elems[1].Int, "banned")
	}
	got := p.state()
	require.Len(t, got.Top.Rows, len(keys))
	for _, row := range got.Top.Rows {
		assert.NotContains(t, row.Key.Text, "\n")
		assert.NotContains(t, row.Key.Text, "\u202e")
	}
	assert.NotContains(t, p.log(), "kkk")
	assert.NotContains(t, p.log(), "evil")
}

func TestItShowsThatRedisGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	s := limited(t)
	p := show(t, "redis://"+s.Addr())
	require.True(t, p.state().Redis.Up)
	s.Kill()
	got := p.await("the outage", func(got state) bool { return !got.Redis.Up })
	assert.Contains(t, got.Redis.Error, "Redis cannot be read")
	assert.NotEmpty(t, got.Top.Rows, "what was read last is there")
	assert.NotEmpty(t, p.act(map[string]any{"act": "ban", "key": []byte("k"), "for": "1h"}))
	s.Restart()
	p.await("the end of it", func(got state) bool { return got.Redis.Up })
}

func TestTenThousandPoliciesAreReadAndFiltered(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	p := show(t, "redis://"+s.Addr())
	words := []string{"HSET", "throttle:policies"}
	for i := range 10_000 {
		words = append(words, fmt.Sprintf("api/user:%d", i), "RATE 60/m")
	}
	s.MustDo(words...)
	got := p.await("all of them", func(got state) bool { return got.Policies.Count == 10_000 })
	assert.Equal(t, 10_000, len(got.Policies.Rows)+got.Policies.More)
	_, text := p.ask("state", map[string]any{"filter": "USER:4242"}, &got)
	require.Len(t, got.Policies.Rows, 1)
	assert.Equal(t, "api/user:4242", got.Policies.Rows[0].Field)
	assert.Less(t, len(text), 64<<10)
}

// However many browsers ask, Redis is read about once a second, and never by KEYS.
func TestReadingIsBounded(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	p := show(t, "redis://"+s.Addr())
	p.state()
	s.MustDo("CONFIG", "RESETSTAT")
	for range 200 {
		p.state()
		p.ask("key", map[string]any{"key": []byte("k")}, nil)
	}
	stats := s.Info("commandstats")
	assert.NotContains(t, stats, "cmdstat_keys")
	for _, command := range []string{"hlen", "cl.top"} {
		calls := 0
		_, _ = fmt.Sscanf(stats["cmdstat_"+command], "calls=%d,", &calls) // there is none if all answers came within a second
		assert.Less(t, calls, 100, command)
	}
}

// The rights that the page names are enough.
func TestTheRightsOfThePageAreEnough(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("top", "100"))
	p := asUser(t, s, "")
	require.Empty(t, p.act(map[string]any{"act": "ban", "key": []byte("k"), "for": "1h"}))
	require.Empty(t, p.act(map[string]any{"act": "lift", "key": []byte("k")}))
	require.Empty(t, p.act(map[string]any{"act": "reset", "key": []byte("k")}))
	s.MustDo("HSET", "throttle:policies", "@version", "1")
	require.Empty(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "RATE 30/m"}))
	require.Empty(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "", "was": "RATE 30/m"}))
	assert.NotEmpty(t, p.act(map[string]any{"act": "policy", "field": "api", "value": "", "was": "RATE 30/m"}), "given up")
	got := p.state()
	assert.True(t, got.Redis.Up, got.Redis.Error)
	assert.Empty(t, got.Top.Why)
	assert.Empty(t, got.Looked.Why)
	assert.Len(t, got.Log, 5)
	assert.EqualValues(t, 0, len(s.MustDo("ACL", "LOG").Elems), "nothing was refused")
}
