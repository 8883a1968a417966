package gateway_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

const basic = `
domain: shop
descriptors:
- key: user
  rate_limit: {unit: year, requests_per_unit: 10}
- key: user
  value: banned
  rate_limit: {unit: year, requests_per_unit: 0}
- key: path
  rate_limit: {unit: year, requests_per_unit: 20}
- key: path
  value: /slow
  rate_limit: {unit: year, requests_per_unit: 2}
- key: files
  value: "a*"
  share_threshold: true
  rate_limit: {unit: year, requests_per_unit: 3}
- key: tried
  shadow_mode: true
  rate_limit: {unit: year, requests_per_unit: 1}
- key: free
  rate_limit: {unlimited: true}
- key: small
  rate_limit: {unit: year, requests_per_unit: 1, name: small}
- key: big
  rate_limit: {unit: year, requests_per_unit: 5, replaces: [{name: small}]}
- key: quota
  quota_mode: true
  rate_limit: {unit: year, requests_per_unit: 1}
- key: several
  limits: [RATE 60/h BURST 10, WINDOW 4/d, FIXED 1/y SHADOW]
`

func TestARequestIsDecided(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic)
	for _, c := range []struct {
		request *rls.RateLimitRequest
		want    string
	}{
		{ask("shop", 0, "user=1"), "OK 9"},
		{ask("shop", 4, "user=1"), "OK 5"},
		{ask("shop", 6, "user=1"), "OVER 0!"},
		{ask("shop", 0, "user=1"), "OK 4"},
		{ask("shop", 0, "user=1", "path=/"), "OK 3 19"},
		{ask("shop", 1, "user=1 +2", "path=/ +5"), "OK 1 14"},
		{ask("shop", 0, "user=1 +2", "path=/"), "OVER 0! 14"}, // all or none
		{ask("shop", 0, "user=1", "path=/"), "OK 0 13"},
		{ask("shop", 0, "user=1 +0", "path=/"), "OVER 0! 13"}, // nothing is left to look at
		{ask("shop", 0, "path=/"), "OK 12"},
		{ask("shop", 0, "user=banned"), "OVER 0!"},
		{ask("shop", 0, "user=banned", "path=/"), "OVER 0! 12"},
		{ask("shop", 0, "unknown=x"), "OK -"},
		{ask("elsewhere", 0, "user=1"), "OK -"},
		{ask("shop", 0, "unknown=x", "user=2", "free=x"), "OK - 9 -"},
		{ask("shop", 0, "files=a1"), "OK 2"},
		{ask("shop", 2, "files=a2"), "OK 0"},
		{ask("shop", 0, "files=a3"), "OVER 0!"},
		{ask("shop", 0, "files=b"), "OK -"},
		{ask("shop", 0, "tried=x"), "OK 0"},
		{ask("shop", 0, "tried=x", "user=3"), "OK 0 9"}, // it only would
		{ask("shop", 0, "small=x", "big=x"), "OK - 4"},
		{ask("shop", 0, "small=x"), "OK 0"},
		{ask("shop", 0, "quota=1", "quota=2"), "OK 0 0"},
		{ask("shop", 0, "quota=1", "quota=3", "user=4"), "OK 0! 0 9"}, // one quota is enough
		{ask("shop", 0, "quota=1", "quota=3", "user=4"), "OVER 0! 0! 9"},
		{ask("shop", 0, "user=4"), "OK 8"}, // it was given back
		{ask("shop", 0, "quota=1"), "OVER 0!"},
		{ask("shop", 3, "several=x"), "OK 1"},
		{ask("shop", 2, "several=x"), "OVER 0!"},
		{ask("shop", 0, "user=5", "user=5"), "OK 8 8"}, // twice the same takes twice
		{ask("", 0, "user=1"), "rpc error: code = InvalidArgument desc = rate limit domain must not be empty"},
		{ask("shop", 0), "rpc error: code = InvalidArgument desc = rate limit descriptor list must not be empty"},
	} {
		assert.Equal(t, c.want, g.asks(c.request), "%v", c.request)
	}
}

func TestAStatusShowsTheLimit(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic, "LIMIT_RESPONSE_HEADERS_ENABLED=true")
	year := 366 * 24 * time.Hour
	response, err := g.ShouldRateLimit(t.Context(), ask("shop", 0, "user=1", "free=x", "path=/slow"))
	require.NoError(t, err)
	one := response.Statuses[0]
	assert.EqualValues(t, 10, one.CurrentLimit.RequestsPerUnit)
	assert.Equal(t, rls.RateLimitResponse_RateLimit_YEAR, one.CurrentLimit.Unit)
	assert.Positive(t, one.DurationUntilReset.AsDuration())
	assert.LessOrEqual(t, one.DurationUntilReset.AsDuration(), year)
	assert.EqualValues(t, 1<<32-1, response.Statuses[1].LimitRemaining)
	assert.Equal(t, []string{"RateLimit-Limit: 2", "RateLimit-Remaining: 1"}, headers(response)[:2], "of the tightest")
	assert.Len(t, headers(response), 3)

	response, err = g.ShouldRateLimit(t.Context(), ask("shop", 7, "several=x"))
	require.NoError(t, err)
	assert.Equal(t, rls.RateLimitResponse_RateLimit_DAY, response.Statuses[0].CurrentLimit.Unit, "the one that denies")
	response, err = g.ShouldRateLimit(t.Context(), ask("shop", 3, "path=/slow"))
	require.NoError(t, err)
	assert.Equal(t, rls.RateLimitResponse_OVER_LIMIT, response.OverallCode)
}

func headers(response *rls.RateLimitResponse) (all []string) {
	for _, h := range response.ResponseHeadersToAdd {
		all = append(all, h.Key+": "+h.Value)
	}
	return all
}

// A hash tag keeps keys together: a request is one command in a cluster, too, and of the node that it chooses.
func TestAHashTagMakesOneCommandInACluster(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	all := []string{"user=1", "user=2", "path=/a", "path=/b", "files=a1", "tried=x"}
	for own, want := range map[string]int{"": len(all), "hash_tag: domain": 1, "hash_tag: user": 3} {
		g := start(t, c.Nodes[0].Addr(), own+basic, "REDIS_TYPE=CLUSTER", "CACHE_KEY_PREFIX="+own)
		commands := func() (n int) {
			for _, node := range c.Nodes {
				n += calls(node)
			}
			return n
		}
		before := commands()
		require.Equal(t, "OK 9 9 19 19 2 0", g.asks(ask("shop", 0, all...)))
		assert.Equal(t, want, commands()-before, own)
	}
}

// More than eight keys need more than one call, as keys in several slots do. A denied request leaves nothing behind,
// and nobody gets more than there is.
func TestRequestsOfSeveralCallsAreAllOrNone(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) *gateway{
		"more than eight keys": func(t *testing.T) *gateway { return start(t, server.Start(t).Addr(), basic) },
		"keys in several slots": func(t *testing.T) *gateway {
			return start(t, topology.StartCluster(t).Nodes[0].Addr(), basic, "REDIS_TYPE=CLUSTER")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireAllOrNone(t, start(t))
		})
	}
}

func requireAllOrNone(t *testing.T, g *gateway) {
	t.Helper()
	var users []string
	for i := range 11 {
		users = append(users, fmt.Sprintf("user=%d", i))
	}
	const callers, rounds = 8, 5
	var granted atomic.Int64
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for range rounds {
				mine := append([]string{fmt.Sprintf("path=/%d", caller)}, users...)
				if strings.HasPrefix(g.asks(ask("shop", 0, mine...)), "OK") {
					granted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	assert.Positive(t, granted.Load())
	assert.LessOrEqual(t, granted.Load(), int64(10), "no user gets more than ten")
	left := 10 - granted.Load()
	for _, user := range users {
		assert.Equal(t, left == 0, strings.HasPrefix(g.asks(ask("shop", uint32(left+1), user)), "OVER"), "denied requests left nothing behind")
		if left > 0 {
			assert.Equal(t, "OK 0", g.asks(ask("shop", uint32(left), user)))
		}
	}
}

func TestCompatChargesEachByItself(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), "compat: true"+basic)
	for _, c := range []struct {
		request *rls.RateLimitRequest
		want    string
	}{
		{ask("shop", 2, "path=/slow", "user=1"), "OK 0 8"},
		{ask("shop", 2, "path=/slow", "user=1"), "OVER 0! 6"}, // the user is charged all the same
		{ask("shop", 7, "user=1"), "OVER 0!"},
		{ask("shop", 0, "user=1"), "OVER 0!"}, // as is a request that is denied
		{ask("shop", 0, "user=banned", "user=2"), "OVER 0! 9"},
		{ask("shop", 0, "user=2"), "OK 8"},
		{ask("shop", 0, "user=2 +0", "user=3"), "OK 8 9"}, // takes nothing
		{ask("shop", 0, "user=2 +0"), "OK 8"},
	} {
		assert.Equal(t, c.want, g.asks(c.request), "%v", c.request)
	}
}

func TestModesOfTheWholeGateway(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	shadow := start(t, s.Addr(), basic, "SHADOW_MODE=true", "CACHE_KEY_PREFIX=a:")
	assert.Equal(t, "OK 0! 20", shadow.asks(ask("shop", 11, "user=1", "path=/ +0")))
	assert.EqualValues(t, 1, shadow.metric("ratelimit_service_global_shadow_mode"))
	quota := start(t, s.Addr(), basic, "QUOTA_MODE=true", "CACHE_KEY_PREFIX=b:")
	assert.Equal(t, "OK 0! 19", quota.asks(ask("shop", 0, "user=banned", "path=/")))
	assert.Equal(t, "OVER 0!", quota.asks(ask("shop", 0, "user=banned")))
	assert.Equal(t, "OK 0! -", quota.asks(ask("shop", 0, "user=banned", "unknown=x")), "what has no limit is within it")
}

func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic)
	require.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	g.write("limits.yaml", strings.Replace(basic, "requests_per_unit: 10}", "requests_per_unit: 12}", 1))
	await(t, "the new limit holds", func() bool { return g.metric("ratelimit_service_config_load_success") >= 2 })
	assert.Equal(t, "OK 10", g.asks(ask("shop", 0, "user=1")), "and the state is kept")
	g.write("limits.yaml", basic+"  limit: 3\n")
	await(t, "a bad file is reported", func() bool { return strings.Contains(g.Log(), "the configuration stays as it was") })
	assert.Contains(t, g.Log(), `limits.yaml:32:3: unknown key \"limit\"`)
	assert.Positive(t, g.metric("ratelimit_service_config_load_error"))
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	g.write("more.yaml", "domain: other\ndescriptors: [{key: a, limits: [RATE 5/h]}]\n")
	g.write("limits.yaml", basic)
	await(t, "another file is found", func() bool { return g.asks(ask("other", 0, "a=b")) != "OK -" })
	require.NoError(t, os.Remove(filepath.Join(g.Config, "more.yaml")))
	await(t, "what was in a file that is removed limits nothing", func() bool { return g.asks(ask("other", 0, "a=b")) == "OK -" })
	loads := g.metric("ratelimit_service_config_load_success")
	require.NoError(t, g.Cmd.Process.Signal(syscall.SIGHUP))
	await(t, "a signal has files read that did not change", func() bool { return g.metric("ratelimit_service_config_load_success") > loads })
}

// The counters that dashboards of upstream show count as its integration tests expect: every hit, and those beyond the
// limit.
func TestHitsAreCountedAsUpstreamCountsThem(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for name, own := range map[string]string{"all": "", "each": "compat: true"} {
		g := start(t, s.Addr(), own+basic, "CACHE_KEY_PREFIX="+name)
		for i := range 25 {
			g.asks(ask("shop", 0, "path=/"))
			assert.EqualValues(t, i+1, g.metric("ratelimit_service_rate_limit_total_hits"), name)
			assert.EqualValues(t, max(i-19, 0), g.metric("ratelimit_service_rate_limit_over_limit"), name)
		}
	}
}

func TestDenialsAreRememberedAndHotKeysBatched(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := start(t, s.Addr(), basic+"- key: hot\n  batch: 100\n  rate_limit: {unit: year, requests_per_unit: 1000000}\n")
	require.Equal(t, "OK 0", g.asks(ask("shop", 10, "user=1")))
	require.Equal(t, "OVER 0!", g.asks(ask("shop", 0, "user=1")))
	before := calls(s)
	for range 20 {
		require.Equal(t, "OVER 0!", g.asks(ask("shop", 0, "user=1")))
	}
	assert.Equal(t, before, calls(s), "what is denied costs Redis nothing")
	const requests = 2000
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range requests / 8 {
				assert.Contains(t, g.asks(ask("shop", 0, "hot=x")), "OK")
			}
		})
	}
	wg.Wait()
	assert.Less(t, calls(s)-before, requests/2)
}

func TestDescriptorsAreBounded(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	of := func(n int) *rls.RateLimitRequest {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprint("user=", i))
		}
		return ask("shop", 0, all...)
	}
	assert.Equal(t, "OK"+strings.Repeat(" 9", 128), start(t, s.Addr(), basic).asks(of(128)), "as many as the page says")
	g := start(t, s.Addr(), basic, "MAX_DESCRIPTORS=3")
	before := calls(s) // it asks once at its start
	const refused = "the request has 4 descriptors, and MAX_DESCRIPTORS is 3"
	assert.Equal(t, "rpc error: code = InvalidArgument desc = "+refused, g.asks(of(4)))
	body, err := protojson.Marshal(of(4))
	require.NoError(t, err)
	status, text := g.post(string(body))
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Equal(t, refused+"\n", text)
	assert.Equal(t, before, calls(s), "Redis was not asked")
	assert.Equal(t, "OK 8 8 8", g.asks(of(3)))
}

// What a denied request was charged comes back in one round trip, however many calls it had. Denials of these keys do
// not hold any more.
func TestUnitsComeBackInOneRoundTrip(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := start(t, s.Addr(), basic)
	require.Equal(t, "OK 0", g.asks(ask("shop", 2, "path=/slow")))
	require.Equal(t, "OK 4", g.asks(ask("shop", 6, "user=0")))
	denied := ask("shop", 8, "user=0")
	require.Equal(t, "OVER 0!", g.asks(denied))
	commands := calls(s)
	require.Equal(t, "OVER 0!", g.asks(denied))
	require.Equal(t, commands, calls(s), "the denial is remembered")

	var all []string
	for i := range 120 {
		all = append(all, fmt.Sprint("user=", i))
	}
	const charging, refunds = 15, 120
	reads := func() (n int64) {
		if !s.Program.IsDev() { // which does not count them
			n = s.InfoInt("stats", "total_reads_processed")
		}
		return n
	}
	readsBefore := reads()
	require.Equal(t, "OVER 4"+strings.Repeat(" 10", 119)+" 0!", g.asks(ask("shop", 0, append(all, "path=/slow")...)))
	assert.Less(t, reads()-readsBefore, int64(charging+refunds/4), "the server reads several refunds at once")
	assert.Equal(t, commands+charging+1+refunds, calls(s))
	commands = calls(s)
	require.Equal(t, "OVER 0!", g.asks(denied))
	assert.Equal(t, commands+1, calls(s), "units came back, so Redis is asked again")
}
