package gateway_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// fails runs the gateway with variables that it has to refuse, and returns what it says.
func fails(t *testing.T, env ...string) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "config.shop.yaml"), []byte(basic), 0o644))
	cmd := kit.GatewayCommand(t, "127.0.0.1:1")
	cmd.Env = append(append(cmd.Env, "RUNTIME_ROOT="+root), env...)
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	assert.Error(t, err, "%v", env)
	return string(out)
}

// A variable that makes no sense ends the start, and the error names it.
func TestSettingsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	kept := filepath.Join(t.TempDir(), "precious")
	require.NoError(t, os.WriteFile(kept, []byte("data"), 0o644))
	for variable, want := range map[string]string{
		"NEAR_LIMIT_RATIO=NaN":          "NEAR_LIMIT_RATIO=NaN: expected 0 to 1",
		"TRACING_SAMPLING_RATE=NaN":     "TRACING_SAMPLING_RATE=NaN: expected 0 to 1",
		"SHUTDOWN_TIMEOUT=-1s":          "must not be negative",
		"DENIAL_AGE=-1s":                "must not be negative",
		"GRPC_MAX_CONNECTION_AGE=-1h":   "must not be negative",
		"REDIS_TIMEOUT=-1s":             "REDIS_TIMEOUT must be positive",
		"REDIS_COMMANDS=lua":            "REDIS_COMMANDS=lua: expected auto, module or functions",
		"REDIS_POOL_SIZE=-1":            "REDIS_POOL_SIZE must not be negative",
		"PROMETHEUS_PATH=metrics":       "PROMETHEUS_PATH=metrics: expected a path, such as /metrics",
		"LOG_LEVEL=loud":                "LOG_LEVEL=loud: expected TRACE, DEBUG, INFO, WARN or ERROR",
		"GRPC_UDS=" + kept:              "there is something else than a socket",
		"GRPC_MAX_CONNECTION_AGE=1":     "GRPC_MAX_CONNECTION_AGE=1: expected a duration, such as 250ms or 24h",
		"REDIS_TIMEOUT=5":               "REDIS_TIMEOUT=5: expected a duration",
		"TRACING_ENABLED=yes":           "TRACING_ENABLED=yes: expected true or false",
		"NEAR_LIMIT_RATIO=x":            "NEAR_LIMIT_RATIO=x: expected a number",
		"PORT=http":                     "PORT=http: expected an integer",
		"EXTRA_TAGS=a":                  "EXTRA_TAGS=a: expected name:value,name:value",
		"EXTRA_TAGS=le:x":               "EXTRA_TAGS: le is no name of a label",
		"LIMIT_RESET_HEADER=a b":        "LIMIT_RESET_HEADER are names of header fields",
		"REDIS_POOL_SIZE=2000000000":    "REDIS_POOL_SIZE=2000000000: expected at most 65535",
		"REDIS_SOCKET_TYPE=udp":         "REDIS_SOCKET_TYPE=udp: expected tcp or unix",
		"REDIS_TLS_CACERT=/x.pem":       "set REDIS_TLS=true",
		"GRPC_CLIENT_TLS_SAN=envoy":     "set GRPC_SERVER_USE_TLS and GRPC_CLIENT_TLS_CACERT",
		"GRPC_CLIENT_TLS_CACERT=/x.pem": "set GRPC_SERVER_USE_TLS",
		"HTTP_CLIENT_TLS_SAN=nginx":     "set HTTP_SERVER_USE_TLS and HTTP_CLIENT_TLS_CACERT",
		"HTTP_CLIENT_TLS_CACERT=/x.pem": "set HTTP_SERVER_USE_TLS",
		"HTTP_SERVER_USE_TLS=true":      "HTTP_SERVER_USE_TLS needs HTTP_SERVER_TLS_CERT and HTTP_SERVER_TLS_KEY",
		"EXTRA_TAGS=a-b:c":              "EXTRA_TAGS: a-b is no name of a label",
		"EXTRA_TAGS=domain:c":           "EXTRA_TAGS",
	} {
		assert.Contains(t, fails(t, variable), want, variable)
	}
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	assert.Equal(t, "data", string(text))
}

// An address that holds a password is refused at the start: errors about it would repeat it.
func TestAPasswordInAnAddressIsToldNowhere(t *testing.T) {
	t.Parallel()
	for _, env := range [][]string{
		{"REDIS_URL=redis://:se/geheim@host:6379"},
		{"REDIS_URL=redis://:se:geheim@et@host:port"},
		{"REDIS_URL=:geheim@host:6379"},
		{"REDIS_URL=redis://:geheim@host:6379,host:6380", "REDIS_TYPE=CLUSTER"},
		{"REDIS_URL=:geheim@host:6379", "REDIS_TYPE=CLUSTER"},
		{"REDIS_URL=mymaster,redis://:geheim@host:26379", "REDIS_TYPE=SENTINEL"},
	} {
		out := fails(t, env...)
		assert.Contains(t, out, "REDIS_URL", env)
		assert.NotContains(t, out, "geheim", env)
	}
}

// Variables of upstream that mean nothing here are named at the start, and the names of its log levels are known.
func TestVariablesOfUpstreamAreKnown(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic, "REDIS_POOL_ON_EMPTY_BEHAVIOR=ERROR", "MEMCACHE_HOST_PORT=h:1", "LOCAL_CACHE_SIZE_IN_BYTES=1000",
		"EXTRA_TAGS=region:eu,stage:test", "PROMETHEUS_PATH=/own/{path}", "LOG_LEVEL=trace")
	for _, name := range []string{"REDIS_POOL_ON_EMPTY_BEHAVIOR", "MEMCACHE_HOST_PORT", "LOCAL_CACHE_SIZE_IN_BYTES"} {
		assert.Regexp(t, `level=WARN .*variable=`+name+` because=`, g.Log())
	}
	assert.NotContains(t, g.Log(), "variable=REDIS_URL")
	_ = g.asks(ask("shop", 0, "user=1"))
	_, metrics := g.getFrom("metrics", "/own/%7Bpath%7D", nil)
	assert.Contains(t, metrics, `ratelimit_service_rate_limit_total_hits{domain="shop",key1="user",key2="",region="eu",stage="test"} 1`)
	response, _ := g.getFrom("metrics", "/metrics", nil)
	assert.Equal(t, http.StatusNotFound, response.StatusCode)
}

// RUNTIME_WATCH_ROOT, which is upstream's default, also takes files beside the folder whose names begin with its name.
// A path that leads nowhere is told, unless the gateway is to wait for its first configuration: then it refuses
// requests, and is not healthy if that is asked for.
func TestFilesAreFoundWhereUpstreamFindsThem(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "config.shop.yaml"), []byte(basic), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(root, "other.yaml"), []byte("domain: other\n  nonsense"), 0o644))
	g := start(t, s.Addr(), basic, "RUNTIME_ROOT="+root)
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	assert.Equal(t, "OK -", g.asks(ask("other", 0, "a=b")), "other names do not count")
	assert.Contains(t, fails(t, "RUNTIME_ROOT="+root, "RUNTIME_WATCH_ROOT=false"), "no such file")
	assert.Contains(t, fails(t, "RUNTIME_ROOT="+root, "RUNTIME_APPDIRECTORY=limits"), "limits.NAME.yaml")
}

func TestTheFirstConfigurationMayComeLate(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := start(t, s.Addr(), "domain: [", "FORCE_START_WITHOUT_INITIAL_CONFIG=true", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true")
	assert.Contains(t, g.asks(ask("shop", 0, "user=1")), "code = Unavailable desc = no configuration has been loaded yet")
	response, _ := g.get("/check/", nil)
	assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	g.awaitReady(false, "without a configuration")
	g.write("limits.yaml", basic)
	g.awaitReady(true, "with one")
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
}

func TestHelpIsNoError(t *testing.T) {
	t.Parallel()
	program := kit.GatewayCommand(t, "").Path
	for _, args := range [][]string{{"--help"}, {"-h"}, {"check", "--help"}} {
		out, err := exec.Command(program, args...).Output()
		assert.NoError(t, err, "%v", args)
		assert.Contains(t, string(out), "usage: throttle-gateway", "%v", args)
	}
	out, err := exec.Command(program, "--halp").CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "there is no option --halp")
}
