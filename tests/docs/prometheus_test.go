package docs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// runScript runs docs/prometheus/throttle.lua as redis_exporter does.
func runScript(t *testing.T, s *server.Server) map[string]string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(rootDir(t), "docs/prometheus/throttle.lua"))
	require.NoError(t, err)
	reply := s.MustDo("EVAL", string(script), "0").Elems
	values := map[string]string{}
	for i := 0; i < len(reply); i += 2 {
		values[reply[i].Text] = reply[i+1].Text
	}
	return values
}

func TestScriptForPrometheusGivesEveryNumberOfInfo(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("CL.LIMIT", "k", "RATE", "1/h")
	s.MustDo("CL.LIMIT", "k", "RATE", "1/h")
	values := runScript(t, s)
	numbers := 0
	for name, value := range s.Info("throttle") {
		if _, err := strconv.Atoi(value); err == nil {
			numbers++
			assert.Equal(t, value, values[strings.TrimPrefix(name, "throttle_")], name)
		}
	}
	assert.Len(t, values, numbers)
	assert.Equal(t, "1", values["limited"])
}

// The command of docs/observing.md with the user of docs/operating.md: it exports what the page says, and is refused
// nothing.
func TestTheExporterRunsAsTheUserOfThePage(t *testing.T) {
	t.Parallel()
	program := kit.Program(t, "prometheus-redis-exporter")
	page := func(name string) string {
		text, err := os.ReadFile(filepath.Join(rootDir(t), "docs", name))
		require.NoError(t, err)
		return string(text)
	}
	rule := regexp.MustCompile(`(?m)^user (monitoring) on (>\S+) (.*)$`).FindStringSubmatch(page("operating.md"))
	require.NotNil(t, rule)
	line := regexp.MustCompile(`(?m)^redis_exporter (.*)$`).FindStringSubmatch(page("observing.md"))
	require.NotNil(t, line)
	s := server.Start(t)
	s.MustDo(append([]string{"ACL", "SETUSER", rule[1], "on", rule[2]}, strings.Fields(rule[3])...)...)
	s.MustDo("CL.LIMIT", "k", "RATE", "1/h")
	words := strings.NewReplacer("127.0.0.1:6379", s.Addr(), "docs/", filepath.Join(rootDir(t), "docs")+"/").Replace(line[1])
	addr := fmt.Sprintf("127.0.0.1:%d", server.FreePort(t))
	kit.Serve(t, program, append(strings.Fields(words), "-web.listen-address", addr)...)

	var exported string
	require.Eventually(t, func() bool {
		answer, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		exported = string(text)
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	for _, value := range []string{"redis_up 1", `redis_script_values{key="allowed"} 1`, `redis_commands_total{cmd="cl.limit"} 1`} {
		assert.True(t, strings.Contains(exported, "\n"+value+"\n"), "no %s", value)
	}
	for _, refused := range s.MustDo("ACL", "LOG").Elems {
		assert.Fail(t, "the exporter is refused", "%v", refused)
	}
}

var scriptKey = regexp.MustCompile(`redis_script_values\{[^}]*key=(~?)"([^"]+)"`)

// The dashboard asks for numbers that there are, in panels that do not overlap.
func TestDashboardAsksForNumbersThatThereAre(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(rootDir(t), "docs/grafana/throttle.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	values := runScript(t, server.Start(t))
	asked := 0
	taken := map[[2]int]string{}
	for _, panel := range dashboard.Panels {
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				assert.Empty(t, taken[[2]int{x, y}], panel.Title)
				taken[[2]int{x, y}] = panel.Title
			}
		}
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			keys := scriptKey.FindAllStringSubmatch(target.Expr, -1)
			assert.True(t, len(keys) > 0 || strings.Contains(target.Expr, "redis_commands_"), target.Expr)
			for _, m := range keys {
				asked++
				assert.True(t, hasKey(values, m[1] == "~", m[2]), "no %s: %s", m[2], target.Expr)
			}
		}
	}
	assert.Positive(t, asked)
}

func TestAlertsAreWhatTheirUnitTestsSay(t *testing.T) {
	t.Parallel()
	program := kit.Program(t, "promtool")
	for _, args := range [][]string{{"check", "config", "prometheus.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.Command(program, args...)
		cmd.Dir = filepath.Join(rootDir(t), "docs/prometheus")
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), "SUCCESS")
	}
}

// Every alert has a unit test in which it fires, and asks for numbers that there are.
func TestAlertsAskForNumbersThatThereAre(t *testing.T) {
	t.Parallel()
	alerts, err := os.ReadFile(filepath.Join(rootDir(t), "docs/prometheus/alerts.yml"))
	require.NoError(t, err)
	unitTests, err := os.ReadFile(filepath.Join(rootDir(t), "docs/prometheus/alerts_test.yml"))
	require.NoError(t, err)
	names := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(alerts), -1)
	assert.NotEmpty(t, names)
	for _, name := range names {
		assert.Regexp(t, `alertname: `+name[1]+`\n +exp_alerts:[^\n]*\n +- exp_labels`, string(unitTests))
	}
	values := runScript(t, server.Start(t))
	keys := scriptKey.FindAllStringSubmatch(string(alerts), -1)
	assert.NotEmpty(t, keys)
	for _, m := range keys {
		assert.True(t, hasKey(values, m[1] == "~", m[2]), m[0])
	}
	metrics := regexp.MustCompile(`\b(redis_\w+|up)\b`).FindAllString(string(alerts), -1)
	for _, metric := range metrics {
		assert.Contains(t, []string{"up", "redis_up", "redis_script_values", "redis_exporter"}, metric)
	}
	ofGateway, err := os.ReadFile(filepath.Join(rootDir(t), "gateway/internal/service/metrics.go"))
	require.NoError(t, err)
	metrics = regexp.MustCompile(`\b(?:throttle_gateway|ratelimit)_\w+`).FindAllString(string(alerts), -1)
	assert.NotEmpty(t, metrics)
	for _, metric := range metrics {
		assert.Contains(t, string(ofGateway), `Name: "`+metric+`"`)
	}
}

func hasKey(values map[string]string, isPattern bool, key string) bool {
	if !isPattern {
		return values[key] != ""
	}
	pattern := regexp.MustCompile("^(?:" + key + ")$")
	for name := range values {
		if pattern.MatchString(name) {
			return true
		}
	}
	return false
}

func TestExporterRunsTheScript(t *testing.T) {
	t.Parallel()
	program := kit.Program(t, "prometheus-redis-exporter")
	s := server.Start(t)
	s.MustDo("CL.LIMIT", "k", "RATE", "1/h")
	s.MustDo("CL.LIMIT", "k", "RATE", "1/h")
	s.MustDo("CL.MLIMIT", "2", "{k}:1", "{k}:2", "RATE", "1/h", "COST", "0")
	address := fmt.Sprintf("127.0.0.1:%d", server.FreePort(t))
	kit.Serve(t, program, "-redis.addr", "redis://"+s.Addr(), "-script", filepath.Join(rootDir(t), "docs/prometheus/throttle.lua"),
		"-web.listen-address", address)
	var metrics string
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		metrics = string(body)
		return err == nil && strings.Contains(metrics, "redis_up 1")
	}, patience, 50*time.Millisecond)
	for _, metric := range []string{
		`redis_script_values\{(filename="[^"]*",)?key="allowed"\} 2`,
		`redis_script_values\{(filename="[^"]*",)?key="limited"\} 1`,
		`redis_script_values\{(filename="[^"]*",)?key="errors_internal"\} 0`,
		`redis_script_values\{(filename="[^"]*",)?key="waiting"\} 0`,
		`redis_script_values\{(filename="[^"]*",)?key="leases_waiting"\} 0`,
		`redis_script_values\{(filename="[^"]*",)?key="calls_mlimit"\} 1`,
		`redis_commands_total\{cmd="cl.mlimit"\} 1`,
		`redis_commands_total\{cmd="cl.limit"\} 2`,
		`redis_commands_duration_seconds_total\{cmd="cl.limit"\} `,
	} {
		assert.True(t, regexp.MustCompile("(?m)^"+metric).MatchString(metrics), metric)
	}
}
