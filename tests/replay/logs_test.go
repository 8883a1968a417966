package replay_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// from is a client of an address of this machine.
func from(address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
}

// What clients send that makes lines hard to read.
var hostileHeaders = map[string]string{
	"User-Agent": `curl/8 "quoted" \ [10/Oct/2026:13:55:36 -0700] - - {"json":1}`,
	"Referer":    "https://x/\"\\\"?\xff\xfe\u202e",
}

// garbage is what is no request at all.
var garbage = []string{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\"\x00\r\n\r\n", "GET /\" HTTP/1.1\r\n\r\n", "\"\" \"\r\n\r\n"}

// load has clients ask a server at the same time, each as often as it has to, and one send what is no request. It
// returns how often each asked.
func load(t testing.TB, port int) map[string]int64 {
	t.Helper()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	await(t, "the server listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	asked := map[string]int64{}
	var clients sync.WaitGroup
	for i := range 8 {
		name := fmt.Sprintf("127.0.1.%d", i+1)
		asked[name] = int64(size.Of(20, 100) * (i + 1))
		clients.Go(func() {
			client := from(name)
			defer client.CloseIdleConnections()
			for n := range asked[name] {
				request, err := http.NewRequest("GET", fmt.Sprintf("http://%s/api/%d?q=%%22%%20%%5C&n=%d", address, n%5, n), nil)
				require.NoError(t, err)
				if n%3 == 0 {
					for field, value := range hostileHeaders {
						request.Header.Set(field, value)
					}
				}
				response, err := client.Do(request)
				if !assert.NoError(t, err) {
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		})
	}
	clients.Wait()
	for _, text := range garbage {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_, _ = io.WriteString(c, text)
		_ = c.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}
	return asked
}

// complete waits until the log has a line of each request.
func complete(t testing.TB, path string, asked map[string]int64) {
	t.Helper()
	total := int64(0)
	for _, n := range asked {
		total += n
	}
	await(t, "the log is complete", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && int64(strings.Count(string(text), "/api/")) >= total
	})
}

// checkLog reads a log, in which each client has asked as often as it has, and all lines can be read.
func checkLog(t testing.TB, asked map[string]int64, resolutionNs int64, args ...string) {
	t.Helper()
	r := replay(t, append(args, "--where", "path ~ ^/api/", "--limit", "RATE 1/m BURST 10", "--top", "20")...)
	assert.Empty(t, r.Lines.Unreadable)
	assert.Zero(t, r.Lines.Late)
	assert.LessOrEqual(t, r.ResolutionNs, resolutionNs)
	have := map[string]int64{}
	for _, c := range r.Top {
		have[c.Name] = c.Requests
	}
	assert.Equal(t, asked, have)
	assert.Equal(t, int64(len(asked)), r.Clients)
	assert.Equal(t, int64(len(asked)), r.Sets[0].DeniedClients, "each asked more often than ten times")
}

func TestLogsOfNginxAreRead(t *testing.T) {
	t.Parallel()
	path := kit.Program(t, "nginx")
	dir, port := t.TempDir(), server.FreePort(t)
	require.NoError(t, os.Chmod(dir, 0o755))
	const pattern = `$msec|$remote_addr|"$request"|$status|"$http_user_agent"`
	config := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(config, []byte(fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log stderr; user root;
events {}
http {
	log_format own '%[3]s';
	log_format json escape=json '{"time":"$time_iso8601","remote_addr":"$remote_addr","request":"$request","agent":"$http_user_agent","bytes":$bytes_sent}';
	access_log %[1]s/combined.log combined;
	access_log %[1]s/own.log own;
	access_log %[1]s/json.log json;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	server { listen 127.0.0.1:%[2]d; location / { return 200 ok; } }
}`, dir, port, pattern)), 0o644))
	kit.Serve(t, path, "-c", config, "-p", dir, "-e", "stderr")
	asked := load(t, port)
	for _, name := range []string{"combined.log", "own.log", "json.log"} {
		complete(t, filepath.Join(dir, name), asked)
	}
	checkLog(t, asked, 1e9, filepath.Join(dir, "combined.log"))
	checkLog(t, asked, 1e6, filepath.Join(dir, "own.log"), "--log-format", pattern)
	checkLog(t, asked, 1e9, filepath.Join(dir, "json.log"))
}

func TestLogsOfCaddyAreRead(t *testing.T) {
	t.Parallel()
	path := kit.Program(t, "caddy")
	dir, port := t.TempDir(), server.FreePort(t)
	config := filepath.Join(dir, "Caddyfile")
	require.NoError(t, os.WriteFile(config, []byte(fmt.Sprintf(`{
	admin off
	auto_https off
}
http://127.0.0.1:%d {
	log {
		output file %s/access.log
		format json
	}
	respond "ok"
}
`, port, dir)), 0o644))
	kit.Serve(t, path, "run", "--adapter", "caddyfile", "--config", config)
	asked := load(t, port)
	complete(t, filepath.Join(dir, "access.log"), asked)
	checkLog(t, asked, 1e6, filepath.Join(dir, "access.log"))
}

func TestLogsOfEnvoyAreRead(t *testing.T) {
	t.Parallel()
	size.NeedsFull(t) // it takes seconds to start
	path := kit.Program(t, "envoy")
	dir, port := t.TempDir(), server.FreePort(t)
	config := filepath.Join(dir, "envoy.yaml")
	require.NoError(t, os.WriteFile(config, []byte(fmt.Sprintf(`static_resources:
  listeners:
    - name: web
      address: {socket_address: {address: 127.0.0.1, port_value: %d}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: web
                access_log:
                  - name: envoy.access_loggers.file
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
                      path: %s/access.log
                      log_format:
                        json_format:
                          start_time: "%%START_TIME%%"
                          downstream_remote_address: "%%DOWNSTREAM_REMOTE_ADDRESS%%"
                          method: "%%REQ(:METHOD)%%"
                          path: "%%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%%"
                          response_code: "%%RESPONSE_CODE%%"
                          bytes_sent: "%%BYTES_SENT%%"
                          user_agent: "%%REQ(USER-AGENT)%%"
                route_config:
                  virtual_hosts:
                    - name: service
                      domains: ["*"]
                      routes:
                        - match: {prefix: /}
                          direct_response: {status: 200, body: {inline_string: "ok"}}
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
`, port, dir)), 0o644))
	kit.Serve(t, path, "--concurrency", "1", "--disable-hot-restart", "--file-flush-interval-msec", "50", "-c", config)
	asked := load(t, port)
	complete(t, filepath.Join(dir, "access.log"), asked)
	checkLog(t, asked, 1e6, filepath.Join(dir, "access.log"))
}
