package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

const ofPolicies = "domain: web\nroutes: [{match: /, descriptors: [[{key: user, value: \"{header:X-User}\"}]]}]\ndescriptors:\n" +
	"- {key: user, policy: api, limits: [FIXED 50/y]}\n"

// follows waits until the limit of a user that nobody else is has a number. The first request after the start may not
// see the hash yet, and a gateway may be too busy for one.
func (g *gateway) follows(requests uint32) {
	g.t.Helper()
	await(g.t, fmt.Sprint("the limit is ", requests), func() bool {
		response, err := g.ShouldRateLimit(g.t.Context(), ask("web", 0, "user=probe"))
		if err != nil {
			return !assert.True(g.t, isTooBusy(err.Error()), "%v", err) // ends it
		}
		return response.Statuses[0].CurrentLimit.GetRequestsPerUnit() == requests
	})
}

// A number that is changed while callers ask counts for all of them, no call fails, and no unit too many passes by
// either number.
func TestTheGatewayFollowsANumberUnderLoad(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	gateways := []*gateway{start(t, s.Addr(), ofPolicies), start(t, s.Addr(), ofPolicies)}
	ctx, cancel := context.WithCancel(t.Context())
	var passed, denied, failed atomic.Int64
	var load sync.WaitGroup
	for i := range 6 {
		load.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				response, err := gateways[n%2].ShouldRateLimit(ctx, ask("web", 0, "user=1"))
				switch {
				case ctx.Err() != nil:
				case err != nil:
					failed.Add(1)
				case response.OverallCode == rls.RateLimitResponse_OK:
					passed.Add(1)
				default:
					denied.Add(1)
				}
				time.Sleep(time.Millisecond) // so that the tests beside it have a processor
			}
		})
	}
	for _, step := range []struct {
		limit uint32
		most  int64
	}{{50, 50}, {200, 200}, {120, 200}, {300, 300}} {
		if step.limit != 50 {
			s.MustDo("HSET", "throttle:policies", "api", fmt.Sprintf("FIXED %d/y", step.limit))
		}
		for _, g := range gateways {
			g.follows(step.limit)
		}
		await(t, fmt.Sprint("as many pass as ", step.limit, " allows"), func() bool { return passed.Load() >= step.most })
		before := denied.Load()
		await(t, "others are denied", func() bool { return denied.Load() > before+20 })
		assert.Equal(t, step.most, passed.Load())
	}
	cancel()
	load.Wait()
	assert.Zero(t, failed.Load())
	assert.Equal(t, int64(300), passed.Load())
}

// The answer of the Rate Limit Service, header fields and metrics have the limits in force, which are those of the last
// entry's value.
func TestLimitsInForceAreShown(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("HSET", "throttle:policies", "api", "FIXED 7/h", "api/vip:*", "FIXED 9/d FIXED 8/h", "api/1", "NONE")
	g := start(t, s.Addr(), ofPolicies)
	g.follows(7)
	assert.Equal(t, "OK 6", g.asks(ask("web", 0, "user=2")))
	assert.Equal(t, "OK 7", g.asks(ask("web", 0, "user=vip:1")))
	response, err := g.ShouldRateLimit(t.Context(), ask("web", 0, "user=2", "user=1"))
	require.NoError(t, err)
	assert.Equal(t, uint32(7), response.Statuses[0].CurrentLimit.RequestsPerUnit)
	assert.Equal(t, rls.RateLimitResponse_RateLimit_HOUR, response.Statuses[0].CurrentLimit.Unit)
	assert.Equal(t, uint32(4294967295), response.Statuses[1].LimitRemaining, "as of an unlimited one")

	answer, _ := g.get("/check/", http.Header{"X-User": {"2"}})
	assert.Equal(t, `"api";q=7;w=3600`, answer.Header.Get("RateLimit-Policy"))
	answer, _ = g.get("/check/", http.Header{"X-User": {"vip:1"}})
	assert.Equal(t, `"api-1";q=9;w=86400, "api-2";q=8;w=3600`, answer.Header.Get("RateLimit-Policy"))
	for range 60 {
		answer, _ = g.get("/check/", http.Header{"X-User": {"1"}})
		require.Equal(t, 200, answer.StatusCode, "NONE lets everything through")
	}
	assert.Empty(t, answer.Header.Get("RateLimit-Policy"))
	for answer.StatusCode == 200 {
		answer, _ = g.get("/check/", http.Header{"X-User": {"2"}})
	}
	assert.Equal(t, float64(60), g.metric("throttle_gateway_decisions_total", `by="none"`))
	assert.Equal(t, float64(61), g.metric("throttle_gateway_policy_hits_total", `policy="api"`, `limits="hash"`, `outcome="none"`))
	assert.Equal(t, float64(1), g.metric("throttle_gateway_policy_hits_total", `policy="api"`, `limits="hash"`, `outcome="over_limit"`))
	assert.Positive(t, g.metric("throttle_gateway_redis_decisions_total", `policy="api"`))
	assert.Positive(t, g.metric("throttle_gateway_redis_decisions_total", `policy="api-2"`))
}

// A ban that the hash begins is one: it outlasts the field.
func TestAPolicyBans(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("HSET", "throttle:policies", "api", "FIXED 9/y", "api/1", "FIXED 1/y BAN 10d")
	g := start(t, s.Addr(), ofPolicies, "DENIALS=-1")
	g.follows(9)
	require.Equal(t, "OK 0", g.asks(ask("web", 0, "user=1")))
	require.Equal(t, "OVER 0!", g.asks(ask("web", 0, "user=1")))
	s.MustDo("HDEL", "throttle:policies", "api/1")
	await(t, "the field is gone", func() bool {
		_ = g.asks(ask("web", 0, "user=2"))
		return strings.Contains(g.Log(), "is not set any more")
	})
	assert.Equal(t, "OVER 0!", g.asks(ask("web", 0, "user=1")))
}

// A value that cannot be read leaves what was there, and is logged once, however often it is read.
func TestATypoChangesNothing(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("HSET", "throttle:policies", "api", "FIXED 7/h")
	g := start(t, s.Addr(), ofPolicies)
	g.follows(7)
	require.Equal(t, "OK 6", g.asks(ask("web", 0, "user=1")))
	s.MustDo("HSET", "throttle:policies", "api", "FIXED 7O/h")
	reads := func() string { return s.Info("commandstats")["cmdstat_hgetall"] }
	for n := range 4 {
		before := reads()
		await(t, "it is read again", func() bool {
			assert.NotContains(t, g.asks(ask("web", 0, "user=2")), "code = ")
			return reads() != before
		})
		if n == 0 {
			await(t, "the typo is logged", func() bool { _ = g.asks(ask("web", 0, "user=2")); return strings.Contains(g.Log(), "cannot be read") })
		}
	}
	assert.Equal(t, "OK 5", g.asks(ask("web", 0, "user=1")))
	assert.Equal(t, 1, strings.Count(g.Log(), "cannot be read"))
	assert.Contains(t, g.Log(), "FIXED 7O/h")
}

// Who has no rule with a policy, or no hash, pays nothing: the hash is never read.
func TestNothingIsReadWithoutAPolicy(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("HSET", "throttle:policies", "api", "FIXED 7/h", "user", "FIXED 7/h")
	without := start(t, s.Addr(), strings.Replace(ofPolicies, "policy: api, ", "", 1))
	off := start(t, s.Addr(), ofPolicies, "REDIS_POLICIES=")
	for range 5 {
		assert.Contains(t, without.asks(ask("web", 0, "user=1")), "OK 4")
		assert.Contains(t, off.asks(ask("web", 0, "user=2")), "OK 4")
	}
	assert.NotContains(t, s.Info("commandstats"), "cmdstat_hgetall")
	s.MustDo("HSET", "elsewhere", "api", "FIXED 3/h")
	other := start(t, s.Addr(), ofPolicies, "REDIS_POLICIES=elsewhere")
	other.follows(3)
	assert.Equal(t, "OK 2", other.asks(ask("web", 0, "user=3")))
}

// A right that is missing leaves the limits of the file, and the log names it.
func TestARightToReadPoliciesThatIsMissing(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("HSET", "throttle:policies", "api", "FIXED 7/h")
	s.MustDo("ACL", "SETUSER", "gateway", "on", ">secret", "~{web|*", "+cl.limit", "+cl.mlimit", "+cl.refund")
	g := start(t, s.Addr(), ofPolicies, "REDIS_AUTH=gateway:secret")
	assert.Equal(t, "OK 49", g.asks(ask("web", 0, "user=1")))
	await(t, "the log names the right", func() bool { return strings.Contains(g.Log(), "+hgetall +hget %R~throttle:policies") })
	s.MustDo("ACL", "SETUSER", "gateway", "+hgetall", "+hget", "%R~throttle:policies")
	g.follows(7)
}

// A hash may take longer to read than a request may, such as one of 100,000 policies.
func TestAHashOfPoliciesMayTakeLongerThanARequest(t *testing.T) {
	t.Parallel()
	for kind, options := range map[string][]server.Option{"SINGLE": nil, "CLUSTER": {server.Cluster()}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, options...)
			if kind == "CLUSTER" {
				s.MustDo("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
				await(t, "the cluster is up", func() bool { return strings.Contains(s.MustDo("CLUSTER", "INFO").Text, "cluster_state:ok") })
			}
			s.MustDo("HSET", "throttle:policies", "api", "FIXED 7/h")
			g := start(t, s.Addr(), "redis_down: local\n"+ofPolicies, "REDIS_TYPE="+kind, "REDIS_TIMEOUT=250ms")
			s.MustDo("CLIENT", "PAUSE", "1500", "ALL")
			_ = g.asks(ask("web", 0, "user=1")) // is what has the hash read
			g.follows(7)
			assert.NotContains(t, g.Log(), "could not be read")
		})
	}
}

// What the page says of policies, as it is typed.
func TestPoliciesOfThePage(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := start(t, s.Addr(), block(t, "yaml", "policy: api"))
	asks := func(address string) string { return g.asks(ask("web", 0, "remote_address="+address)) }
	require.Equal(t, "OK 9", asks("192.0.2.2"), "the file counts")
	cli, err := server.CLIPath()
	require.NoError(t, err)
	host, port, _ := strings.Cut(s.Addr(), ":")
	bin := t.TempDir()
	typed := fmt.Sprintf("#!/bin/sh\nexec '%s' -h %s -p %s \"$@\"\n", cli, host, port)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "redis-cli"), []byte(typed), 0o755))
	cmd := exec.Command("sh", "-ec", block(t, "sh", "HSET throttle:policies"))
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	printed, err := cmd.CombinedOutput()
	require.NoError(t, err, string(printed))
	await(t, "the hash counts, with its last field", func() bool { return asks("198.51.100.6") == "OK -" })
	assert.Equal(t, "OK 19", asks("192.0.2.3"), "RATE 60/m BURST 20")
	assert.Equal(t, "OK 4", asks("192.0.2.1"), "RATE 5/m")
	assert.Equal(t, "OK -", asks("198.51.100.7"), "NONE")
}

// A name that no policy can have is a mistake in the file, and so is a policy without limits.
func TestPoliciesThatAreMistakesInTheFile(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"{key: user, policy: a b, limits: [RATE 1/s]}":                             `limits.yaml:3:25: policy: "a b" is no name of a policy: expected 1 to 64 of A-Z a-z 0-9 . _ -`,
		"{key: user, policy: '', limits: [RATE 1/s]}":                              `policy: "" is no name of a policy`,
		"{key: user, policy: api}":                                                 "limits.yaml:3:25: policy is for a descriptor with a limit",
		"{key: user, policy: api, rate_limit: {unlimited: true}}":                  "policy is for a descriptor with a limit",
		"{key: user, policy: " + strings.Repeat("x", 65) + ", limits: [RATE 1/s]}": "is no name of a policy",
	} {
		path := t.TempDir() + "/limits.yaml"
		require.NoError(t, os.WriteFile(path, []byte("domain: web\ndescriptors:\n  - "+rule+"\n"), 0o644))
		printed, err := kit.GatewayCommand(t, "", "check", path).CombinedOutput()
		assert.Error(t, err, rule)
		assert.Contains(t, string(printed), want, rule)
		assert.Equal(t, 1, strings.Count(string(printed), "\n"), "one mistake is told once: %s", printed)
	}
}

// In a cluster one master has the hash, and keys of all masters follow it, also without the module.
func TestPoliciesOfACluster(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t, server.WithoutModule())
	require.NoError(t, c.Client().HSet(t.Context(), "throttle:policies", "api", "FIXED 7/h", "api/3", "NONE").Err())
	g := start(t, c.Nodes[0].Addr(), ofPolicies, "REDIS_TYPE=CLUSTER")
	g.follows(7)
	for i := range 6 {
		want := "OK 6"
		if i == 3 {
			want = "OK -"
		}
		assert.Equal(t, want, g.asks(ask("web", 0, fmt.Sprint("user=", i))))
	}
}

// A number counts within a second also where nobody asked meanwhile, and explain reads before it answers.
func TestAnIdleGatewayFollows(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := start(t, s.Addr(), ofPolicies)
	require.Equal(t, "OK 49", g.asks(ask("web", 0, "user=1")))
	s.MustDo("HSET", "throttle:policies", "api", "FIXED 0/d")
	await(t, "it reads the hash", func() bool { return strings.Contains(g.Log(), "policy api is ") })
	assert.Equal(t, "OVER 0!", g.asks(ask("web", 0, "user=1")))

	s.MustDo("HSET", "throttle:policies", "api", "FIXED 7/d")
	response, err := http.Post("http://"+g.At["debug"]+"/explain", "application/json", strings.NewReader(`{"http": {"target": "/", "headers": {"X-User": "2"}}}`))
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"limits":["FIXED 7/1d"]`)
}

// What a browser reads for a page of another site is nothing, at each path of the debug address.
func TestTheDebugAddressIsNotForOtherSites(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), ofPolicies)
	for _, path := range []string{"/rlconfig", "/metrics", "/debug/pprof/", "/debug/pprof/cmdline", "/"} {
		for host, want := range map[string]string{"evil.example": "403", g.At["debug"]: "200", "localhost": "200"} {
			if path == "/" && want == "200" {
				want = "302"
			}
			answer := answered(t, "127.0.0.1", g.At["debug"], "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
			assert.True(t, strings.HasPrefix(answer, "HTTP/1.1 "+want+" "), "%s by %s: %.50s", path, host, answer)
		}
	}
}
