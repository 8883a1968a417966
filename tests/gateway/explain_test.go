package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

const token = "a-token-of-the-tests"

// explain runs the command on a file, and returns what it prints. With an error, that is what it says of it.
func explain(t testing.TB, redis, config string, env []string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o644))
	cmd := kit.GatewayCommand(t, redis, append([]string{"explain", file}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin = strings.NewReader(`{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "1"}]}], "hits_addend": 3}`)
	printed, err := cmd.CombinedOutput()
	return string(printed), err
}

// The command says what is left wherever the gateway finds Redis: with the module, without it, in a cluster, at a Unix
// socket.
func TestExplainAsksEveryRedis(t *testing.T) {
	t.Parallel()
	one, bare := server.Start(t), server.Start(t, server.WithoutModule())
	socket := filepath.Join(t.TempDir(), "redis.sock")
	atSocket := server.Start(t, server.Config("unixsocket "+socket))
	require.NotNil(t, atSocket)
	cluster, bareCluster := topology.StartCluster(t), topology.StartCluster(t, server.WithoutModule())
	for name, c := range map[string]struct {
		redis string
		env   []string
	}{
		"module": {one.Addr(), nil}, "functions": {bare.Addr(), nil}, "functions only": {one.Addr(), []string{"REDIS_COMMANDS=functions"}},
		"socket": {socket, nil}, "cluster": {cluster.Nodes[0].Addr(), []string{"REDIS_TYPE=CLUSTER"}},
		"cluster without the module": {bareCluster.Nodes[0].Addr(), []string{"REDIS_TYPE=CLUSTER"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := append(c.env, "CACHE_KEY_PREFIX="+name)
			g := start(t, c.redis, basic, env...)
			require.Equal(t, "OK 8", g.asks(ask("shop", 2, "user=1")))
			for range 2 { // it charges nothing
				text, err := explain(t, c.redis, basic, env, "--descriptors", "-")
				require.NoError(t, err, text)
				assert.Contains(t, text, "allowed: shop.user has the least left after it: 5 units\n")
				assert.Contains(t, text, "\n  key    "+name+"{shop|user=1}\n")
				assert.Contains(t, text, "\n  left   8 of 10, FIXED 10/1y: full in ")
			}
		})
	}
}

// What the page shows of the command is what it prints, and so is the answer at the debug address.
func TestExplainOfThePage(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	config := block(t, "yaml", "match: POST /login")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "limits.yaml"), []byte(config), 0o644))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "build"), 0o755))
	require.NoError(t, os.Symlink(kit.GatewayCommand(t, "").Path, filepath.Join(dir, "build", "throttle-gateway")))
	cmd := exec.Command("sh", "-ec", strings.ReplaceAll(block(t, "sh", "gateway explain"), "127.0.0.1:6379", s.Addr()))
	cmd.Dir = dir
	printed, err := cmd.CombinedOutput()
	require.NoError(t, err, string(printed))
	assert.Equal(t, block(t, "text", "routes of domain"), string(printed))

	g := start(t, s.Addr(), config, "EXPLAIN_TOKEN="+token)
	typed := strings.ReplaceAll(block(t, "sh", ":6070/explain"), "127.0.0.1:6070", g.At["debug"])
	printed, err = exec.Command("sh", "-ec", strings.ReplaceAll(typed, "curl ", "curl -sS ")).CombinedOutput()
	require.NoError(t, err, string(printed))
	var answer struct{ Outcome, Because string }
	require.NoError(t, json.Unmarshal(printed, &answer), string(printed))
	assert.Equal(t, "allowed: web.login.remote_address has the least left after it: 45 units", answer.Outcome+": "+answer.Because)

	_, lines := g.getFrom("debug", "/rlconfig", nil)
	assert.Equal(t, block(t, "text", "quota_mode: false"), lines)

	response, _ := g.get("/check/", http.Header{"X-Throttle-Explain": {token}})
	assert.Equal(t, strings.TrimSpace(block(t, "text", "X-Throttle-Rule")), "X-Throttle-Rule: "+response.Header.Get("X-Throttle-Rule"))
}

// An operator who has mistyped a policy, and asks which limits count, is told of the typo.
func TestExplainTellsOfAPolicyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("HSET", "throttle:policies", "api", "RATE 2/mm", "api/b*", "RATE 7/m")
	file := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(file, []byte("domain: web\ndescriptors:\n- {key: address, policy: api, limits: [RATE 3/h]}\n"), 0o644))
	explained := func(arguments ...string) string {
		cmd := kit.GatewayCommand(t, "", append([]string{"explain", file, "--redis", s.Addr()}, arguments...)...)
		printed, err := cmd.CombinedOutput()
		require.NoError(t, err, string(printed))
		return string(printed)
	}
	said := explained("--descriptors", `{"domain": "web", "descriptors": [{"entries": [{"key": "address", "value": "a"}]}]}`)
	assert.Contains(t, said, "note: policy api: \"RATE 2/mm\" cannot be read, it does not count: ")
	assert.Contains(t, said, "policy api, whose limits are those of the file")
	s.MustDo("HSET", "throttle:policies", "api", "RATE 2/m")
	assert.NotContains(t, explained("--descriptors", `{"domain": "web", "descriptors": [{"entries": [{"key": "address", "value": "a"}]}]}`), "note: ")
	printed, err := kit.GatewayCommand(t, "", "--version").CombinedOutput()
	require.NoError(t, err)
	assert.Regexp(t, `^throttle-gateway \S+\n$`, string(printed))
}

// The page at the debug address asks what somebody types.
func TestTheConsoleExplains(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), block(t, "yaml", "match: POST /login"))
	ask := func(typed string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.At["debug"]+"/console/api/explain", strings.NewReader(`{"explain": `+typed+`}`))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("X-Throttle-Console", "1")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return string(text)
	}
	assert.Contains(t, ask(`{"request": "POST /login", "from": "203.0.113.7", "headers": "X-A: b\r\nX-C: d\n"}`),
		`{"text":"allowed: web.login.remote_address has the least left after it: 45 units\n`)
	assert.Contains(t, ask(`{"request": "POST login"}`), "target: login: expected a path")
	assert.Contains(t, ask(`{"request": "GET /", "headers": "X-A"}`), "header field X-A: expected NAME: VALUE")
}

// The command ends with a status other than 0 and a text that says what would be right.
func TestExplainRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	routes := block(t, "yaml", "match: POST /login")
	for name, c := range map[string]struct {
		config string
		args   []string
		want   string
	}{
		"no request":          {routes, nil, "the last argument is the request, such as 'POST /login', and"},
		"no path":             {routes, []string{"POST login"}, "target: login: expected a path"},
		"a line feed":         {routes, []string{"GET /", "-H", "X-A: a\nX-B: b"}, "headers: X-A: a value must not hold line feeds"},
		"no header":           {routes, []string{"GET /", "-H", "X-A"}, "header field X-A: expected NAME: VALUE"},
		"no address":          {routes, []string{"GET /", "--from", "here"}, "from: here: expected an address"},
		"an option":           {routes, []string{"GET /", "--form", "here"}, "flag provided but not defined"},
		"a bad file":          {"domain: web\ndescriptors: [{kay: a}]\n", []string{"GET /"}, "limits.yaml:2:16: unknown key \"kay\""},
		"no routes":           {basic, []string{"GET /"}, "no domain has routes"},
		"no JSON":             {basic, []string{"--descriptors", "{"}, "ratelimit: expected"},
		"no file of JSON":     {basic, []string{"--descriptors", "there.json"}, "there.json: no such file"},
		"two kinds":           {basic, []string{"--descriptors", "-", "--from", "::1"}, "--from and -H are for a request of HTTP"},
		"no address of Redis": {routes, []string{"GET /", "--redis", "redis://:secret@a:b:c"}, "REDIS_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := explain(t, "", c.config, nil, c.args...)
			require.Error(t, err)
			assert.Contains(t, text, c.want)
			assert.NotContains(t, text, "secret")
		})
	}
	text, err := explain(t, "", routes, nil, "GET /", "--redis", "127.0.0.1:"+strconv.Itoa(server.FreePort(t)), "--json")
	require.NoError(t, err, text)
	assert.Contains(t, text, "connection refused", "an outage is told, and the rule all the same")
	assert.Contains(t, text, `"path": "web.remote_address"`)
	text, err = explain(t, "", routes, nil, "--help")
	require.NoError(t, err)
	assert.Contains(t, text, "usage: throttle-gateway explain")
}

// Whoever has the token is told the rule, by HTTP and by the Rate Limit Service. Nobody else is, and the token changes
// no decision.
func TestTheRuleIsToldToWhoeverHasTheToken(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	config := "routes:\n- {match: /, descriptors: [[{key: user, value: \"{header:X-User}\"}]]}\n" + basic
	g := start(t, s.Addr(), config, "EXPLAIN_TOKEN="+token, "RESPONSE_DYNAMIC_METADATA=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true")
	rule := func(user, token string) string {
		response, _ := g.get("/check/", http.Header{"X-User": {user}, "X-Throttle-Explain": {token}})
		return strconv.Itoa(response.StatusCode) + " " + response.Header.Get("X-Throttle-Rule")
	}
	assert.Equal(t, `200 "shop.user";outcome=allowed;by=server`, rule("1", token))
	assert.Equal(t, `429 "shop.user_banned";outcome=denied;by=server`, rule("banned", token))
	assert.Equal(t, "200 none", rule("", token), "no descriptor")
	assert.Equal(t, "200 ", rule("2", ""))
	assert.Equal(t, "200 ", rule("2", token+"x"))

	field := func(response *rls.RateLimitResponse) string {
		for _, h := range response.ResponseHeadersToAdd {
			if h.Key == "X-Throttle-Rule" {
				return h.Value
			}
		}
		return ""
	}
	asks := func(descriptors ...string) string {
		response, err := g.ShouldRateLimit(t.Context(), ask("shop", 0, descriptors...))
		require.NoError(t, err)
		assert.NotContains(t, response.String(), token, "the metadata does not hold it")
		return shown(response) + " " + field(response)
	}
	bring := "x-throttle-explain=" + token
	assert.Equal(t, `OK 9 - "shop.user";outcome=allowed;by=server`, asks("user=5", bring))
	assert.Equal(t, `OVER 0! - "shop.user_banned";outcome=denied;by=server`, asks("user=banned", bring))
	assert.Equal(t, `OK - 3 "shop.several";outcome=allowed;by=server;limit="shop.several-2"`, asks(bring, "several=x"))
	assert.Equal(t, "OK 0 - \"shop.tried\";outcome=allowed;by=server", asks("tried=x", bring))
	assert.Equal(t, "OK 0 - \"shop.tried\";outcome=shadowed;by=server", asks("tried=x", bring))
	assert.Equal(t, "OK - - \"shop.free\";outcome=unlimited", asks("free=x", bring))
	assert.Equal(t, "OK - none", asks(bring))
	assert.Equal(t, "OK 8 - ", asks("user=5", bring+"x"))
	assert.Equal(t, "OK 7 ", asks("user=5"))

	// A descriptor with a token, right or wrong, is no quota that is not over.
	g = start(t, s.Addr(), basic, "EXPLAIN_TOKEN="+token, "QUOTA_MODE=true", "CACHE_KEY_PREFIX=quota")
	assert.Equal(t, "OVER 0! - \"shop.user_banned\";outcome=denied;by=server", asks("user=banned", bring))
	assert.Equal(t, "OVER 0! - ", asks("user=banned", bring+"x"))

	// Without the setting nobody is told, and the descriptor is one like any other.
	g = start(t, s.Addr(), basic+"- {key: x-throttle-explain, limits: [FIXED 3/y]}\n")
	response, err := g.ShouldRateLimit(t.Context(), ask("shop", 0, bring))
	require.NoError(t, err)
	assert.Equal(t, "OK 2 ", shown(response)+" "+field(response))
}

// The rule comes through Envoy to the client that has the token, when it is served and when it is limited.
func TestEnvoyPassesTheRuleOn(t *testing.T) {
	t.Parallel()
	program(t, "envoy")
	g := start(t, server.Start(t).Addr(), "domain: web\ndescriptors:\n- {key: remote_address, limits: [FIXED 2/y NAME few]}\n", "EXPLAIN_TOKEN="+token)
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	_, grpcPort, _ := net.SplitHostPort(g.At["grpc"])
	port := strconv.Itoa(server.FreePort(t))
	action := "- actions: [{remote_address: {}}]"
	serveEnvoy(t, strings.NewReplacer(action, action+"\n                        "+strings.TrimSpace(block(t, "yaml", "x-throttle-explain")),
		"port_value: 10000", "port_value: "+port, "port_value: 8081", "port_value: "+grpcPort,
		"port_value: 8000", fmt.Sprintf("port_value: %d", backend.Listener.Addr().(*net.TCPAddr).Port)).Replace(block(t, "yaml", "static_resources")))
	asks := func(token string) (answer string) {
		await(t, "Envoy answers", func() bool {
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/", nil)
			if token != "" {
				request.Header.Set("X-Throttle-Explain", token)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return false
			}
			_ = response.Body.Close()
			answer = strconv.Itoa(response.StatusCode) + " " + response.Header.Get("X-Throttle-Rule")
			return response.StatusCode != http.StatusServiceUnavailable
		})
		return answer
	}
	assert.Equal(t, `200 "web.remote_address";outcome=allowed;by=server;limit="few"`, asks(token))
	assert.Equal(t, "200 ", asks(""))
	assert.Equal(t, `429 "web.remote_address";outcome=denied;by=server;limit="few"`, asks(token))
	assert.Equal(t, "429 ", asks(token+"x"))
}
