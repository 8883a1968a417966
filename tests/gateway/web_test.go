package gateway_test

import (
	"context"
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
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/server"
)

// page is docs/gateway.md.
func page(t testing.TB) string {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "gateway.md"))
	require.NoError(t, err)
	return string(text)
}

// block is the first block of the page in a language that holds a text.
func block(t testing.TB, language, holds string) string {
	t.Helper()
	for _, part := range strings.Split(page(t), "```"+language+"\n")[1:] {
		if text, _, found := strings.Cut(part, "```"); found && strings.Contains(text, holds) {
			return text
		}
	}
	t.Fatalf("the page has no block of %s with %q", language, holds)
	return ""
}

// The file that the page writes first is one, and the request of its curl is answered.
func TestFirstStepsOfThePageWork(t *testing.T) {
	t.Parallel()
	file := block(t, "yaml", "limits: [RATE 10/m")
	path := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(path, []byte(file), 0o644))
	gateway, err := built()
	require.NoError(t, err)
	printed, err := exec.Command(gateway, "check", path).CombinedOutput()
	require.NoError(t, err)
	assert.Equal(t, "ok: 1 domains\n", string(printed))

	g := start(t, server.Start(t).Addr(), file)
	body := block(t, "sh", "curl -i")
	_, body, found := strings.Cut(body, "-d '")
	require.True(t, found)
	body, _, _ = strings.Cut(body, "'")
	for i := range 11 {
		response, err := http.Post(g.url("/json"), "application/json", strings.NewReader(body))
		require.NoError(t, err)
		answer, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		_ = response.Body.Close()
		assert.Equal(t, i == 10, response.StatusCode == 429)
		if i == 0 {
			assert.JSONEq(t, block(t, "json", "overallCode"), string(answer))
		}
	}

	// The lines that the page adds then are enough for the proxies that ask by HTTP.
	g = start(t, server.Start(t).Addr(), file+block(t, "yaml", "trusted_proxies:"))
	response, _ := g.get("/check/", http.Header{"X-Forwarded-For": {"192.0.2.2"}})
	assert.Equal(t, 200, response.StatusCode)
	assert.Contains(t, response.Header.Get("RateLimit-Policy"), `"web.remote_address-1";q=10;w=60`)
}

func TestARequestIsCheckedByHTTP(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), block(t, "yaml", "match: POST /login"))
	for i, want := range []int{200, 200, 200, 429} {
		response, body := g.get("/check/some/page?q=1", nil)
		require.Equal(t, want, response.StatusCode)
		assert.Equal(t, `"web.remote_address";q=3;w=3600`, response.Header.Get("RateLimit-Policy"))
		assert.Contains(t, response.Header.Get("RateLimit"), fmt.Sprintf(`"web.remote_address";r=%d`, max(2-i, 0)))
		if want == 429 {
			assert.Contains(t, body, `"title":"Quota Exceeded","status":429,"violated-policies":["web.remote_address"]`)
			after, err := strconv.Atoi(response.Header.Get("Retry-After"))
			require.NoError(t, err)
			assert.Positive(t, after)
			assert.LessOrEqual(t, after, 1200)
		}
	}
	forwarded := func(method, uri, client string) http.Header {
		return http.Header{"X-Forwarded-Method": {method}, "X-Forwarded-Uri": {uri}, "X-Forwarded-For": {client}}
	}
	for i := range 11 { // 5 units each of 50
		response, _ := g.get("/check", forwarded("POST", "/x/../log%69n?next=/", "198.51.100.1"))
		require.Equal(t, i == 10, response.StatusCode == 429)
		assert.Contains(t, response.Header.Get("RateLimit-Policy"), `"web.login.remote_address";q=50;w=3600`, "no way around it")
	}
	response, _ := g.get("/check", forwarded("GET", "/", "198.51.100.2"))
	assert.Equal(t, 200, response.StatusCode, "another client")
	response, body := g.get("/check", nil)
	assert.Equal(t, 400, response.StatusCode)
	assert.Contains(t, body, "X-Forwarded-Uri")
	response, _ = g.get("/check/login", forwarded("POST", "/elsewhere", "198.51.100.3"))
	assert.Equal(t, `"web.remote_address";q=3;w=3600`, response.Header.Get("RateLimit-Policy"), "the fields are the client's if the path is there")
	response, _ = g.get("/domains/web/check/", forwarded("", "", "198.51.100.4"))
	assert.Equal(t, 200, response.StatusCode)
	response, _ = g.get("/domains/none/check/", nil)
	assert.Equal(t, 404, response.StatusCode)
}

func TestJSONIsUpstreams(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic)
	post := func(body string) (int, string) {
		response, err := http.Post(g.url("/json"), "application/json", strings.NewReader(body))
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, strings.ReplaceAll(string(text), " ", "")
	}
	status, text := post(`{"domain": "shop", "descriptors": [{"entries": [{"key": "path", "value": "/slow"}]}], "hitsAddend": 2}`)
	assert.Equal(t, 200, status)
	assert.Contains(t, text, `"overallCode":"OK"`)
	status, text = post(`{"domain": "shop", "descriptors": [{"entries": [{"key": "path", "value": "/slow"}]}]}`)
	assert.Equal(t, 429, status)
	assert.Contains(t, text, `"overallCode":"OVER_LIMIT"`)
	status, _ = post(`{"domain": 1}`)
	assert.Equal(t, 400, status)
	status, text = post(`{"domain": "shop"}`)
	assert.Equal(t, 400, status)
	assert.Contains(t, text, "descriptorlistmustnotbeempty")
}

// program is what scripts/fetch-program fetched, or one on PATH. Debian has no Traefik, so its path is THROTTLE_TRAEFIK.
func program(t testing.TB, name string) string {
	t.Helper()
	if name == "traefik" {
		path := os.Getenv("THROTTLE_TRAEFIK")
		if path == "" {
			t.Skip("give the path of Traefik as THROTTLE_TRAEFIK")
		}
		return path
	}
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	path := filepath.Join(root, "build", "programs", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not there; scripts/setup full fetches it", name)
	}
	return path
}

// proxy runs a proxy until the test ends.
func proxy(t testing.TB, path string, args ...string) {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "LD_LIBRARY_PATH="+filepath.Join(filepath.Dir(path), "lib"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	log, err := os.Create(filepath.Join(cmd.Dir, "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its workers, too
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Log(string(text))
		}
	})
}

// Each proxy, configured as the page prints it, keeps to the limit under load, lets requests through while Redis is away, as the file
// says here, and keeps to it again when Redis is back.
func TestProxiesKeepToTheLimit(t *testing.T) {
	t.Parallel()
	routes := "redis_down: open\n" + block(t, "yaml", "match: POST /login")
	write := func(t *testing.T, name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	for name, run := range map[string]func(t *testing.T, replace func(string) string, port string){
		"nginx": func(t *testing.T, replace func(string) string, port string) {
			dir, user := t.TempDir(), ""
			if os.Getuid() == 0 {
				user = "user root;"
			}
			config := write(t, "nginx.conf", fmt.Sprintf("%s daemon off; worker_processes 1; pid %s/pid; error_log stderr;\nevents {}\n"+
				"http { access_log off; client_body_temp_path %s/b; proxy_temp_path %s/p; fastcgi_temp_path %s/f; uwsgi_temp_path %s/u; scgi_temp_path %s/s;\n"+
				"server { listen 127.0.0.1:%s;\n%s} }\n", user, dir, dir, dir, dir, dir, dir, port, replace(block(t, "nginx", "auth_request"))))
			proxy(t, program(t, "nginx"), "-e", "stderr", "-c", config)
		},
		"caddy": func(t *testing.T, replace func(string) string, _ string) {
			proxy(t, program(t, "caddy"), "run", "--adapter", "caddyfile", "--config",
				write(t, "Caddyfile", "{\n\tadmin off\n\tauto_https off\n}\nhttp://"+replace(block(t, "caddy", "forward_auth"))))
		},
		"haproxy": func(t *testing.T, replace func(string) string, _ string) {
			lua := write(t, "ratelimit.lua", replace(block(t, "lua", "core.")))
			proxy(t, program(t, "haproxy"), "-db", "-f", write(t, "haproxy.cfg",
				strings.Replace(replace(block(t, "haproxy", "lua-load")), "ratelimit.lua", lua, 1)))
		},
		"traefik": func(t *testing.T, replace func(string) string, _ string) {
			dynamic := write(t, "limits.yaml", replace(block(t, "yaml", "forwardAuth:")))
			// Without the last line it asks its makers for a newer version.
			proxy(t, program(t, "traefik"), "--configFile="+write(t, "traefik.yaml",
				strings.Replace(replace(block(t, "yaml", "entryPoints:\n  web")), "/etc/traefik/limits.yaml", dynamic, 1)+"global: {checkNewVersion: false}\n"))
		},
		"envoy": func(t *testing.T, replace func(string) string, _ string) {
			proxy(t, program(t, "envoy"), "--concurrency", "1", "--disable-hot-restart", "-c", write(t, "envoy.yaml", replace(block(t, "yaml", "static_resources"))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "caddy" { // one is enough while you work
				size.NeedsFull(t)
			}
			program(t, name)
			s := server.Start(t)
			config := routes
			if name == "nginx" {
				config = "denied_status: 403\n" + routes
			}
			g := start(t, s.Addr(), config, "REDIS_TIMEOUT=1s")
			var served atomic.Int64
			backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
			defer backend.Close()
			port := strconv.Itoa(server.FreePort(t))
			address := backend.Listener.Addr().(*net.TCPAddr).Port
			_, grpcPort, _ := net.SplitHostPort(g.at["grpc"])
			replace := strings.NewReplacer("127.0.0.1:8080", g.at["http"], "127.0.0.1:8000", fmt.Sprintf("127.0.0.1:%d", address),
				"port_value: 8000", fmt.Sprintf("port_value: %d", address), ":10000", ":"+port, "port_value: 10000", "port_value: "+port,
				"port_value: 8081", "port_value: "+grpcPort).Replace
			run(t, replace, port)
			await(t, "the proxy listens", func() bool {
				c, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err == nil {
					_ = c.Close()
				}
				return err == nil
			})
			if name == "traefik" { // which reads its routes afterwards
				await(t, "the proxy knows where to", func() bool {
					response, err := http.Post("http://127.0.0.1:"+port+"/login", "", nil) // which has another limit
					if err == nil {
						_ = response.Body.Close()
					}
					return err == nil && response.StatusCode != http.StatusNotFound
				})
				served.Store(0)
			}
			ask := func() (status int, header http.Header) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/some/page", nil)
				response, err := http.DefaultClient.Do(request)
				if !assert.NoError(t, err) {
					return 0, nil
				}
				_ = response.Body.Close()
				return response.StatusCode, response.Header
			}
			load := func() (ok, denied int64) {
				var oks, limited atomic.Int64
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						for range 10 {
							switch status, _ := ask(); status {
							case 200:
								oks.Add(1)
							case 429:
								limited.Add(1)
							}
						}
					})
				}
				wg.Wait()
				return oks.Load(), limited.Load()
			}
			began := time.Now()
			ok, denied := load()
			assert.GreaterOrEqual(t, ok, int64(3))
			assert.LessOrEqual(t, ok, 3+int64(time.Since(began)/(20*time.Minute)), "three at once, and one each twenty minutes")
			assert.Equal(t, int64(80), ok+denied, "each request is served or limited")
			assert.Equal(t, ok, served.Load(), "what is limited does not reach the service")
			if _, header := ask(); name == "nginx" || name == "traefik" {
				assert.NotEmpty(t, header.Get("Retry-After"))
			}
			s.Kill()
			await(t, "requests are let through", func() bool { status, _ := ask(); return status == 200 })
			s.Restart()
			await(t, "the limit holds again", func() bool { status, _ := ask(); return status == 429 })
		})
	}
}
