package gateway_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

func shipped(t testing.TB, path ...string) string {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	require.NoError(t, err)
	return string(text)
}

// The files with limits that a release has beside the program have no mistakes.
func TestTheLimitsThatShipAreValid(t *testing.T) {
	t.Parallel()
	program, err := built()
	require.NoError(t, err)
	_, inManifest, found := strings.Cut(shipped(t, "packaging", "gateway", "kubernetes.yaml"), "  web.yaml: |\n")
	require.True(t, found)
	inManifest, _, _ = strings.Cut(inManifest, "---\n")
	inManifest = strings.ReplaceAll("\n"+inManifest, "\n    ", "\n")
	for what, text := range map[string]string{"Compose": shipped(t, "packaging", "gateway", "config", "web.yaml"), "Kubernetes": inManifest} {
		path := filepath.Join(t.TempDir(), "web.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		printed, err := exec.Command(program, "check", path).CombinedOutput()
		assert.NoError(t, err, what)
		assert.Equal(t, "ok: 1 domains\n", string(printed), what)
	}
}

// Each metric of the dashboard is one of the gateway, once the gateway has decided, denied and refused something.
func TestTheDashboardShowsWhatTheGatewayCounts(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := start(t, s.Addr(), basic)
	require.Equal(t, "OVER 0!", g.asks(ask("shop", 11, "user=1")))
	require.Equal(t, "OK 0", g.asks(ask("shop", 2, "tried=x")))
	s.Kill()
	require.Contains(t, g.asks(ask("shop", 0, "user=2")), "Unavailable")
	names := regexp.MustCompile(`\b(throttle_gateway|ratelimit_service)_[a-z_]+`).FindAllString(shipped(t, "docs", "grafana", "gateway.json"), -1)
	require.NotEmpty(t, names)
	_, metrics := g.getFrom("metrics", "/metrics", nil)
	for _, name := range names {
		assert.Regexp(t, "(?m)^"+name+"[{ ]", metrics)
	}
}
