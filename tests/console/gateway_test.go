package console_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// gated is a gateway, and the page at its debug address.
type gated struct {
	*page
	at     string // where it answers proxies
	config string
}

// gate starts a gateway on a server.
func gate(t testing.TB, s *server.Server, config string) *gated {
	t.Helper()
	dir := t.TempDir()
	g := &gated{config: filepath.Join(dir, "config", "limits.yaml")}
	require.NoError(t, os.Mkdir(filepath.Dir(g.config), 0o755))
	require.NoError(t, os.WriteFile(g.config, []byte(config), 0o644))
	cmd := kit.GatewayCommand(t, s.Addr())
	cmd.Env = append(cmd.Env, "RUNTIME_ROOT="+dir, "CONSOLE_TOKEN="+token)
	started := kit.StartGateway(t, cmd)
	g.page = &page{t: t, url: "http://" + started.At["debug"] + "/console/", token: token, log: started.Log}
	g.at = "http://" + started.At["http"]
	return g
}

// hit asks about one descriptor, and returns the status.
func (g *gated) hit(entry, value string) int {
	g.t.Helper()
	body := fmt.Sprintf(`{"domain": "web", "descriptors": [{"entries": [{"key": %q, "value": %q}]}]}`, entry, value)
	r, err := http.Post(g.at+"/json", "application/json", bytes.NewReader([]byte(body)))
	require.NoError(g.t, err)
	defer r.Body.Close()
	return r.StatusCode
}

const twoRules = `
domain: web
descriptors:
  - key: remote_address
    policy: api
    limits: [FIXED 2/h]
  - key: user
    limits: [FIXED 1/h]
    shadow_mode: true
`

// The server hears of few of the denials that the gateway remembers: the page counts what the gateway decides.
func TestAGatewayShowsWhatItDecides(t *testing.T) {
	t.Parallel()
	g := gate(t, server.Start(t, server.ModuleArgs("top", "100")), twoRules)
	g.state()
	for range 10 {
		g.hit("remote_address", "192.0.2.1")
		g.hit("user", "anna")
	}
	got := g.await("a pace", func(got state) bool { return got.Gateway != nil && got.Pace.Now.Total > 0 })
	assert.True(t, got.Gateway.Loaded)
	assert.False(t, got.Gateway.BreakerOpen)
	rules := map[string]count{}
	for _, rule := range got.Gateway.Rules {
		rules[rule.Name] = rule.count
	}
	assert.Equal(t, map[string]count{"remote_address": {10, 8, 0}, "user": {10, 0, 9}}, rules)

	require.Empty(t, g.act(map[string]any{"act": "policy", "field": "api", "value": "FIXED 100/h"}))
	denied := 8
	g.await("the policy", func(got state) bool {
		status := g.hit("remote_address", "192.0.2.1")
		if status == 429 {
			denied++
		}
		return status == 200
	})
	g.await("its hits", func(got state) bool {
		return len(got.Policies.Rows) == 1 && got.Policies.Rows[0].Lately != nil && got.Policies.Rows[0].Lately.Denied == float64(denied)
	})
}

// What the gateway remembers of a key is forgotten with its ban.
func TestALiftedBanIsOverAtTheGatewayAtOnce(t *testing.T) {
	t.Parallel()
	g := gate(t, server.Start(t), twoRules)
	key := []byte("{web|remote_address=192.0.2.1}")
	require.Equal(t, 200, g.hit("remote_address", "192.0.2.1"))
	require.Empty(t, g.act(map[string]any{"act": "ban", "key": key, "for": "1h"}))
	require.Equal(t, 429, g.hit("remote_address", "192.0.2.1"))
	require.Empty(t, g.act(map[string]any{"act": "lift", "key": key}))
	require.Equal(t, 200, g.hit("remote_address", "192.0.2.1"))
	assert.NotContains(t, g.log(), "192.0.2.1", "no key is logged")
	assert.Contains(t, g.log(), "act=ban")
}

func TestAGatewayShowsItsBreakerAndAConfigurationThatIsRefused(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := gate(t, s, twoRules)
	require.NoError(t, os.WriteFile(g.config, []byte("domain: web\nnonsense: 1\n"), 0o644))
	got := g.await("the mistake", func(got state) bool { return got.Gateway.Error != "" })
	assert.True(t, got.Gateway.Loaded, "the one before counts")
	require.NoError(t, os.WriteFile(g.config, []byte(twoRules), 0o644))
	g.await("the end of the mistake", func(got state) bool { return got.Gateway.Error == "" })
	s.Kill()
	g.await("the breaker", func(got state) bool {
		g.hit("remote_address", "192.0.2.1")
		return got.Gateway.BreakerOpen && !got.Redis.Up && got.Pace.Now.Total > 0 // it goes on counting
	})
	s.Restart()
	g.await("the end of the outage", func(got state) bool { return !got.Gateway.BreakerOpen && got.Redis.Up })
}

func TestTenThousandRulesAreCountedAndFiltered(t *testing.T) {
	t.Parallel()
	config := strings.Builder{}
	config.WriteString("domain: web\ndescriptors:\n")
	for i := range 10_000 {
		fmt.Fprintf(&config, "  - {key: rule%d, limits: [FIXED 1/h]}\n", i)
	}
	g := gate(t, server.Start(t), config.String())
	g.state()
	for i := range 100 {
		g.hit(fmt.Sprintf("rule%d", i), "x")
	}
	g.hit("rule42", "x")
	got := g.await("all of them", func(got state) bool { return got.Gateway.Count == 100 && got.Gateway.Rules[0].Denied == 1 })
	assert.Equal(t, 100, len(got.Gateway.Rules)+got.Gateway.More)
	assert.Equal(t, "rule42", got.Gateway.Rules[0].Name, "what denied comes first")
	g.ask("state", map[string]any{"filter": "rule77"}, &got)
	assert.Len(t, got.Gateway.Rules, 1)
}

func TestExplainingNothingIsRefused(t *testing.T) {
	t.Parallel()
	code, text := gate(t, server.Start(t), twoRules).ask("explain", map[string]any{}, nil)
	assert.Equal(t, 422, code)
	assert.Contains(t, text, "type a request")
}

func TestAShortTokenIsRefused(t *testing.T) {
	t.Parallel()
	cmd := kit.GatewayCommand(t, "127.0.0.1:1", "--help")
	cmd.Args = cmd.Args[:1]
	cmd.Env = append(cmd.Env, "RUNTIME_ROOT="+t.TempDir(), "CONSOLE_TOKEN=secret")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "CONSOLE_TOKEN: a token has at least 16 characters")
}
