package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
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
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// page is docs/gateway.md.
func page(t testing.TB) string {
	t.Helper()
	return shipped(t, "docs", "gateway.md")
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
	printed, err := kit.GatewayCommand(t, "", "check", path).CombinedOutput()
	require.NoError(t, err)
	assert.Equal(t, "ok: 1 domains\n", string(printed))

	g := start(t, server.Start(t).Addr(), file)
	body := block(t, "sh", "curl -i")
	_, body, found := strings.Cut(body, "-d '")
	require.True(t, found)
	body, _, _ = strings.Cut(body, "'")
	for i := range 11 {
		status, answer := g.post(body)
		assert.Equal(t, i == 10, status == 429)
		if i == 0 {
			assert.JSONEq(t, block(t, "json", "overallCode"), answer)
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
		response, _ := g.get("/forward?next=/&x"[:8+i%10], forwarded("POST", "/x/../log%69n?next=/"[:14+i%2], "198.51.100.1"))
		require.Equal(t, i == 10, response.StatusCode == 429)
		assert.Contains(t, response.Header.Get("RateLimit-Policy"), `"web.login.remote_address";q=50;w=3600`, "no way around it")
	}
	response, _ := g.get("/forward", forwarded("GET", "/", "198.51.100.2"))
	assert.Equal(t, 200, response.StatusCode, "another client")
	response, _ = g.get("/check/login", forwarded("POST", "/elsewhere", "198.51.100.3"))
	assert.Equal(t, `"web.remote_address";q=3;w=3600`, response.Header.Get("RateLimit-Policy"), "the fields are the client's if the path is there")
	for i, path := range []string{"/domains/web/check/", "/domains/web/check", "/domains/web/check?x", "/check", "/check?x=/login", "/check?"} {
		response, _ = g.get(path, http.Header{"X-Forwarded-For": {fmt.Sprint("198.51.100.1", i)}})
		assert.Equal(t, 200, response.StatusCode, path)
	}
	response, _ = g.get("/domains/web/forward?x", forwarded("GET", "/", "198.51.100.5"))
	assert.Equal(t, 200, response.StatusCode)
	twice := forwarded("GET", "/", "198.51.100.6")
	twice["X-Forwarded-Uri"] = []string{"/", "/login"}
	for path, c := range map[string]struct {
		status int
		header http.Header
		says   string
	}{
		"/forward":             {400, nil, "X-Forwarded-Uri"},
		"/forward?/login":      {400, nil, "X-Forwarded-Uri"},
		"/forward?twice":       {400, twice, "twice"},
		"/check":               {400, forwarded("GET", "/", "198.51.100.7"), "/forward"}, // as Caddy and Traefik asked before
		"/check?x":             {400, forwarded("GET", "/", "198.51.100.7"), "/forward"},
		"/domains/web/check":   {400, forwarded("GET", "/", "198.51.100.7"), "/forward"},
		"/forward/login":       {404, forwarded("GET", "/", "198.51.100.7"), "not found"},
		"/checks":              {404, nil, "not found"},
		"/domains/web":         {404, nil, "not found"},
		"/domains/none/check/": {404, nil, "no domain of this name"},
	} {
		response, body := g.get(path, c.header)
		assert.Equal(t, c.status, response.StatusCode, path)
		assert.Contains(t, body, c.says, path)
	}
}

// program is the path of a proxy. Debian has no Traefik, so its path is THROTTLE_TRAEFIK.
func program(t testing.TB, name string) string {
	t.Helper()
	if name != "traefik" {
		return kit.Program(t, name)
	}
	path := os.Getenv("THROTTLE_TRAEFIK")
	if path == "" {
		t.Skip("give the path of Traefik as THROTTLE_TRAEFIK")
	}
	return path
}

// written writes a file for a proxy, and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func serveEnvoy(t *testing.T, config string) {
	t.Helper()
	kit.Serve(t, program(t, "envoy"), "--concurrency", "1", "--disable-hot-restart", "-c", written(t, "envoy.yaml", config))
}

// proxies start each proxy, configured as the page prints it. replace puts in the ports of the test.
var proxies = map[string]func(t *testing.T, replace func(string) string, port string){
	"nginx": func(t *testing.T, replace func(string) string, port string) {
		dir, user := t.TempDir(), ""
		if os.Getuid() == 0 {
			user = "user root;"
		}
		config := written(t, "nginx.conf", fmt.Sprintf("%s daemon off; worker_processes 1; pid %s/pid; error_log stderr;\nevents {}\n"+
			"http { access_log off; client_body_temp_path %s/b; proxy_temp_path %s/p; fastcgi_temp_path %s/f; uwsgi_temp_path %s/u; scgi_temp_path %s/s;\n"+
			"server { listen 127.0.0.1:%s;\n%s} }\n", user, dir, dir, dir, dir, dir, dir, port, strings.Replace(replace(block(t, "nginx", "auth_request")), "location / {", "location / { client_max_body_size 50m;", 1)))
		kit.Serve(t, program(t, "nginx"), "-e", "stderr", "-c", config)
	},
	"caddy": func(t *testing.T, replace func(string) string, _ string) {
		kit.Serve(t, program(t, "caddy"), "run", "--adapter", "caddyfile", "--config",
			written(t, "Caddyfile", "{\n\tadmin off\n\tauto_https off\n}\nhttp://"+replace(block(t, "caddy", "forward_auth"))))
	},
	"haproxy": func(t *testing.T, replace func(string) string, _ string) {
		lua := written(t, "ratelimit.lua", replace(block(t, "lua", "core.")))
		kit.Serve(t, program(t, "haproxy"), "-db", "-f", written(t, "haproxy.cfg",
			strings.Replace(replace(block(t, "haproxy", "lua-load")), "ratelimit.lua", lua, 1)))
	},
	"traefik": func(t *testing.T, replace func(string) string, _ string) {
		dynamic := written(t, "ratelimit.yaml", replace(block(t, "yaml", "forwardAuth:")))
		// Without the last line it asks its makers for a newer version.
		kit.Serve(t, program(t, "traefik"), "--configFile="+written(t, "traefik.yaml",
			strings.Replace(replace(block(t, "yaml", "entryPoints:\n  web")), "/etc/traefik/ratelimit.yaml", dynamic, 1)+"global: {checkNewVersion: false}\n"))
	},
	"envoy": func(t *testing.T, replace func(string) string, _ string) {
		serveEnvoy(t, replace(block(t, "yaml", "static_resources")))
	},
	"envoy, ext_authz": func(t *testing.T, replace func(string) string, _ string) {
		serveEnvoy(t, replace(shipped(t, "packaging", "gateway", "envoy-ext-authz.yaml")))
	},
}

// behind is a service behind a proxy that asks a gateway.
type behind struct {
	*gateway
	redis  *server.Server
	port   string
	served atomic.Int64 // requests
}

// startBehind starts all of them.
func startBehind(t *testing.T, name, config string) *behind {
	t.Helper()
	program(t, strings.TrimSuffix(name, ", ext_authz"))
	b := &behind{redis: server.Start(t), port: strconv.Itoa(server.FreePort(t))}
	if name == "nginx" {
		config = "denied_status: 403\n" + config
	}
	b.gateway = start(t, b.redis.Addr(), config, "REDIS_TIMEOUT=1s")
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b.served.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(backend.Close)
	address := backend.Listener.Addr().(*net.TCPAddr).Port
	_, grpcPort, _ := net.SplitHostPort(b.At["grpc"])
	_, httpPort, _ := net.SplitHostPort(b.At["http"])
	proxies[name](t, strings.NewReplacer("127.0.0.1:8080", b.At["http"], "127.0.0.1:8000", fmt.Sprintf("127.0.0.1:%d", address),
		"port_value: 8000", fmt.Sprintf("port_value: %d", address), ":10000", ":"+b.port, "port_value: 10000", "port_value: "+b.port,
		"port_value: 8081", "port_value: "+grpcPort, "port_value: 8080", "port_value: "+httpPort).Replace, b.port)
	await(t, "the proxy listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+b.port)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	if name == "traefik" { // which reads its routes afterwards
		await(t, "the proxy knows where to", func() bool {
			response, err := http.Post("http://127.0.0.1:"+b.port+"/login", "", nil) // which has another limit
			if err == nil {
				_ = response.Body.Close()
			}
			return err == nil && response.StatusCode != http.StatusNotFound
		})
		b.served.Store(0)
	}
	return b
}

// Each proxy, configured as the page prints it, keeps to the limit under load, lets requests through while Redis is
// away, as the file says here, and keeps to it again when Redis is back.
func TestProxiesKeepToTheLimit(t *testing.T) {
	t.Parallel()
	routes := "redis_down: open\n" + block(t, "yaml", "match: POST /login")
	for name := range proxies {
		t.Run(name, func(t *testing.T) {
			if name != "caddy" { // one is enough while you work
				size.NeedsFull(t)
			}
			b := startBehind(t, name, routes)
			var asked atomic.Int64
			ask := func() (status int, header http.Header) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				path := "/some/page" + queries[asked.Add(1)%int64(len(queries))]
				request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+b.port+path, nil)
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
			assert.Equal(t, ok, b.served.Load(), "what is limited does not reach the service")
			if _, header := ask(); name == "nginx" || name == "traefik" || name == "haproxy" || name == "envoy, ext_authz" {
				assert.NotEmpty(t, header.Get("Retry-After"))
			}
			b.redis.Kill()
			await(t, "requests are let through", func() bool { status, _ := ask(); return status == 200 })
			b.redis.Restart()
			await(t, "the limit holds again", func() bool { status, _ := ask(); return status == 429 })
		})
	}
}

// queries stand behind a path, which they do not change.
var queries = []string{"", "?", "?a=1", "?a=/open&b=%zz", "??/../open"}

// forgeries are header fields by which a client claims to ask for something else.
var forgeries = []string{
	"",
	"X-Forwarded-Uri: /open\r\nX-Forwarded-Method: TRACE\r\nX-Forwarded-Host: open.example\r\nX-Forwarded-Proto: x\r\nX-Forwarded-Port: 1\r\n",
	"X-Forwarded-Uri: /open\r\nX-Forwarded-Uri: /open\r\nX-Forwarded-Method: TRACE\r\nX-Forwarded-Method: TRACE\r\n",
	"X-Original-Uri: /open\r\nX-Original-Url: /open\r\nX-Original-Method: TRACE\r\nX-Original-Host: open.example\r\nX-Rewrite-Url: /open\r\n",
	"Connection: X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-Host, X-Forwarded-For\r\n",
	"X-Forwarded-For: 192.0.2.9\r\nForwarded: for=192.0.2.9;host=open.example\r\nX-Real-Ip: 192.0.2.9\r\n",
}

// Each proxy passes on what limits go by: the method, the host, header fields and the client's address, whatever the
// query is and whatever the client claims. What it cannot pass on it refuses.
func TestProxiesPassOnWhatLimitsGoBy(t *testing.T) {
	t.Parallel()
	const limits = `redis_down: closed
domain: web
trusted_proxies: [127.0.0.1/32]
routes:
- {match: PATCH /patched, descriptors: [[{key: patch, value: "{client}"}]]}
- {match: /key, descriptors: [[{key: key, value: "{header:X-Api-Key}"}]]}
- {match: /host, descriptors: [[{key: host, value: "{host}"}]]}
- {match: /closed/, descriptors: [[{key: closed}]]}
- {match: /open, descriptors: [[{key: open}]]}
- {match: TRACE /patched, descriptors: [[{key: open}]]}
- {match: open.example/host, descriptors: [[{key: open}]]}
- {match: /, descriptors: [[{key: client, value: "{client}"}]]}
descriptors:
- {key: patch, limits: [FIXED 2/y]}
- {key: key, limits: [FIXED 2/y]}
- {key: host, limits: [FIXED 2/y]}
- {key: closed, limits: [FIXED 0/y]}
- {key: open, limits: [FIXED 1000000/y]}
- {key: client, limits: [FIXED 2/y]}
`
	for name := range proxies {
		if name == "envoy" { // which asks by the Rate Limit Service
			continue
		}
		t.Run(name, func(t *testing.T) {
			if name != "caddy" {
				size.NeedsFull(t)
			}
			b := startBehind(t, name, limits)
			asks := func(from, line, host, field string) string {
				return firstStatus(t, from, "127.0.0.1:"+b.port, fmt.Sprintf("%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", line, host, field))
			}
			// spends asks for two units and one more, and then in all other ways for what is spent. Some proxies refuse
			// some of them.
			spends := func(what, from, line, host, field string) {
				t.Helper()
				thrice := asks(from, line, host, field) + " " + asks(from, line+queries[2], host, field) + " " + asks(from, line+queries[1], host, field)
				assert.Equal(t, "200 200 429", thrice, what)
				for _, query := range queries {
					for _, forgery := range forgeries {
						assert.Contains(t, []string{"429", "400"}, asks(from, line+query, host, forgery+field), "%s: %s%s %q", what, line, query, forgery)
					}
				}
			}
			spends("the method", "127.0.0.1", "PATCH /patched", "a", "")
			spends("a header field", "127.0.0.1", "GET /key", "a", "X-Api-Key: k1\r\n")
			spends("another value", "127.0.0.1", "GET /key", "a", "X-Api-Key: k2\r\n")
			spends("the host", "127.0.0.1", "GET /host", "a.example", "")
			spends("another host", "127.0.0.1", "GET /host", "b.example", "")
			spends("the client", "127.0.0.2", "GET /", "a", "")
			spends("another client, whatever it says", "127.0.0.3", "GET /", "a", "X-Forwarded-For: 127.0.0.2\r\n")
			for _, line := range []string{"GET /closed/x", "GET //closed/x", "POST /%63losed/", "GET http://a/closed/x", "GET /closed/%zz"} {
				for _, query := range queries {
					for _, forgery := range forgeries {
						assert.Contains(t, []string{"429", "400", "404", "405"}, asks("127.0.0.4", line+query, "a", forgery), "%s%s %q", line, query, forgery)
					}
				}
			}
			const preflight = "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n"
			assert.Equal(t, "200", asks("127.0.0.2", "OPTIONS /", "a", preflight), "a browser asks first")
			assert.Equal(t, "429", asks("127.0.0.2", "OPTIONS /", "a", ""), "nobody else does")
			assert.Equal(t, "429", asks("127.0.0.2", "OPTIONS /closed/x", "a", preflight), "what is closed")
			served := b.served.Load()
			for _, line := range []string{"GET /%zz", "OPTIONS *", "GET http://a", "GET http://a?x=/open"} { // some refuse these themselves
				for _, forgery := range forgeries {
					status := asks("127.0.0.3", line, "a", forgery)
					refused := []string{"400", "405", "404", "429", "500"}
					if name == "caddy" || name == "traefik" { // which answer OPTIONS * by itself, as every server of net/http
						refused = append(refused, "200")
					}
					assert.Contains(t, refused, status, "%s %q", line, forgery)
				}
			}
			assert.Equal(t, served, b.served.Load())
			b.redis.Kill()
			await(t, "the policy decides", func() bool { return asks("127.0.0.5", "GET /", "a", "") == "429" })
			b.redis.Restart()
			await(t, "Redis decides", func() bool { return asks("127.0.0.5", "GET /", "a", "") == "200" })
			require.NoError(t, b.Cmd.Process.Signal(syscall.SIGKILL))
			<-b.Ended
			for _, query := range queries {
				assert.Regexp(t, "^5", asks("127.0.0.6", "GET /"+query, "a", ""), "without a gateway nothing is let through")
			}
		})
	}
}

// A request with as many header fields as a proxy takes, or more, ends no proxy, and an upload that is larger than
// nginx takes by default gets through each of them.
func TestProxiesSurviveLargeRequests(t *testing.T) {
	t.Parallel()
	const limits = `domain: web
routes: [{match: /, descriptors: [[{key: all}, {key: key, value: "{header:X-Api-Key}"}], [{key: all}]]}]
descriptors: [{key: all, limits: [FIXED 1000000/y], descriptors: [{key: key, limits: [FIXED 1000000/y]}]}]
`
	for name := range proxies {
		t.Run(name, func(t *testing.T) {
			size.NeedsFull(t)
			b := startBehind(t, name, limits)
			at := "127.0.0.1:" + b.port
			require.Equal(t, "200", statusOf(answered(t, "127.0.0.1", at, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")))
			for _, field := range []string{"X%d: 1\r\n", "X-Api-Key: %d\r\n"} {
				for _, many := range []int{90, 95, 96, 97, 98, 99, 100, 101, 120, 250} {
					request := "GET / HTTP/1.1\r\nHost: a\r\n"
					for i := range many {
						request += fmt.Sprintf(field, i)
					}
					assert.Contains(t, []string{"200", "400", "431"}, firstStatus(t, "127.0.0.1", at, request+"\r\n"), "%d of %q", many, field)
				}
			}
			response, err := http.Post("http://"+at+"/?upload", "text/plain", strings.NewReader(strings.Repeat("x", 3<<20)))
			require.NoError(t, err)
			_ = response.Body.Close()
			assert.Equal(t, http.StatusOK, response.StatusCode)
		})
	}
}

// firstStatus is the status of the answer to a request from an address of this machine, whose connection may stay open.
// It is empty if there was none.
func firstStatus(t *testing.T, from, to, request string) string {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", to)
	if err != nil {
		return ""
	}
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, _ = io.WriteString(c, request)
	line, _ := bufio.NewReader(c).ReadString('\n')
	return statusOf(line)
}

// standsStill tells whether each thread of a process has been stopped: a signal returns before.
func standsStill(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	require.NoError(t, err)
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err == nil && !strings.Contains(string(stat), ") T ") {
			return false
		}
	}
	return true
}

// A gateway that hangs does not take the service down for longer than the limits of time of the recipes, and each proxy
// does what the last column of the page's table says.
func TestProxiesDoNotWaitForAGatewayThatHangs(t *testing.T) {
	t.Parallel()
	for name := range proxies {
		t.Run(name, func(t *testing.T) {
			if name != "caddy" {
				size.NeedsFull(t)
			}
			b := startBehind(t, name, "redis_down: open\n"+block(t, "yaml", "match: POST /login"))
			row := regexp.MustCompile(`(?mi)^\| ` + strings.Replace(name, "envoy", "envoy, `ratelimit`", 1) + ` \|.*\| ([^|]+) \|$`)
			if name == "envoy, ext_authz" {
				row = regexp.MustCompile("(?m)^\\| Envoy, `ext_authz` \\|.*\\| ([^|]+) \\|$")
			}
			found := row.FindStringSubmatch(page(t))
			require.NotNil(t, found, "the table has no row")
			want := strings.TrimSuffix(strings.Fields(found[1])[0], ";")
			if want == "lets" { // through
				want = "200"
			}
			asked := 0.0
			ask := func() string {
				asked++
				return statusOf(answered(t, "127.0.0.1", "127.0.0.1:"+b.port, "GET /some/page HTTP/1.1\r\nHost: a\r\n\r\n"))
			}
			require.Equal(t, "200", ask())
			charged := b.metric("throttle_gateway_decisions_total")
			asked = 0
			require.NoError(t, b.Cmd.Process.Signal(syscall.SIGSTOP))
			await(t, "all threads of the gateway stand still", func() bool { return standsStill(t, b.Cmd.Process.Pid) })
			began := time.Now()
			assert.Equal(t, want, ask())
			if name != "traefik" { // which waits for 30 s, as the page says
				assert.Less(t, time.Since(began), 15*time.Second, "the page says 1 s at most")
			}
			require.NoError(t, b.Cmd.Process.Signal(syscall.SIGCONT))
			await(t, "the gateway is asked again", func() bool {
				return strings.Contains("200 429", ask()) && b.metric("throttle_gateway_decisions_total") > charged
			})
			assert.Contains(t, []string{"200", "429"}, ask(), "what came while it hung has been answered")
			assert.LessOrEqual(t, b.metric("throttle_gateway_decisions_total"), charged+asked, "no request is asked about twice")
		})
	}
}

// Envoy passes on a header field that is as long as it takes, and one that is no text. Both are limited.
func TestEnvoyLimitsWhateverItPassesOn(t *testing.T) {
	t.Parallel()
	size.NeedsFull(t)
	program(t, "envoy")
	g := start(t, server.Start(t).Addr(), "domain: web\ndescriptors:\n- {key: one, limits: [FIXED 2/y]}\n- {key: two, limits: [FIXED 2/y]}\n")
	backend := httptest.NewServer(http.NotFoundHandler())
	defer backend.Close()
	_, grpcPort, _ := net.SplitHostPort(g.At["grpc"])
	port := strconv.Itoa(server.FreePort(t))
	action := func(key string) string {
		return "- actions: [{request_headers: {header_name: x-key, descriptor_key: " + key + "}}]"
	}
	config := strings.NewReplacer("- actions: [{remote_address: {}}]", action("one")+"\n                        "+action("two"),
		"port_value: 10000", "port_value: "+port, "port_value: 8081", "port_value: "+grpcPort,
		"port_value: 8000", fmt.Sprintf("port_value: %d", backend.Listener.Addr().(*net.TCPAddr).Port)).Replace(block(t, "yaml", "static_resources"))
	serveEnvoy(t, config)
	asks := func(key string) (status string) {
		await(t, "Envoy answers", func() bool {
			status = statusOf(answered(t, "127.0.0.1", "127.0.0.1:"+port, "GET / HTTP/1.1\r\nHost: a\r\nX-Key: "+key+"\r\n\r\n"))
			return status != "" && status != "503"
		})
		return status
	}
	for what, key := range map[string]string{"long": strings.Repeat("x", 35_000), "no text": "caf\xe9"} {
		assert.Equal(t, "404 404 429", asks(key)+" "+asks(key)+" "+asks(key), what)
	}
}

// A list of networks is let through, another is shut out, and a third has one limit together; all others have their
// own.
func TestNetworksHaveRules(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), `
domain: web
trusted_proxies: [127.0.0.1/32]
routes:
  - match: /
    descriptors: [[{key: remote_address, value: "{client}"}]]
descriptors:
  - {key: remote_address, value: 10.0.0.0/8, rate_limit: {unlimited: true}}
  - {key: remote_address, value: 10.66.0.0/16, limits: [FIXED 0/d]}
  - {key: remote_address, value: "2001:db8::/32", share_threshold: true, limits: [FIXED 2/y]}
  - {key: remote_address, limits: [FIXED 1/y]}
`)
	from := func(address string) int {
		response, _ := g.get("/check/", http.Header{"X-Forwarded-For": {address}})
		return response.StatusCode
	}
	for _, tc := range []struct {
		address  string
		statuses []int
	}{
		{"10.1.2.3", []int{200, 200, 200}},
		{"10.66.2.3", []int{429, 429}},
		{"2001:db8:1::1", []int{200}},
		{"2001:db8:2::1", []int{200, 429}},
		{"2001:db8:1::1", []int{429}},
		{"203.0.113.7", []int{200, 429}},
		{"203.0.113.8", []int{200}},
	} {
		for _, status := range tc.statuses {
			assert.Equal(t, status, from(tc.address), tc.address)
		}
	}
	assert.Equal(t, "OK -", g.asks(ask("web", 0, "remote_address=10.9.9.9")))
	assert.Equal(t, "OVER 0!", g.asks(ask("web", 0, "remote_address=10.66.9.9")))
}
