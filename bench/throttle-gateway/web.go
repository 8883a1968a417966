package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/server"
)

const routes = `routes:
- match: /
  descriptors:
  - [{key: user, value: "{header:X-User}"}]
`

// check is a gateway, asked by HTTP.
func (o *options) check(program string, args ...string) func(context.Context, string, *server.Server) service {
	return func(ctx context.Context, dir string, s *server.Server) service {
		one, _, port := gateway(ctx, program, limits+routes, dir, s, args...)
		return o.overHTTP(ctx, "http://127.0.0.1:"+port+"/check/", one)
	}
}

// nginxAlone is nginx with some lines of configuration, which answers by itself.
func (o *options) nginxAlone(lines string) func(context.Context, string, *server.Server) service {
	return func(ctx context.Context, dir string, _ *server.Server) service {
		return o.nginx(ctx, dir, "", "location / { "+lines+" empty_gif; }")
	}
}

// nginxAsks is nginx that asks the gateway about each request.
func (o *options) nginxAsks(ctx context.Context, dir string, s *server.Server) service {
	behind, _, port := gateway(ctx, o.Gateway, "denied_status: 403\n"+limits+routes, dir, s)
	o.await(ctx, "http://127.0.0.1:"+port+"/check/")
	one := o.nginx(ctx, dir, fmt.Sprintf("upstream gateway { server 127.0.0.1:%s; keepalive %d; }", port, o.Callers),
		`location / { auth_request /ratelimit; empty_gif; }
location = /ratelimit {
	internal;
	proxy_pass http://gateway/check$request_uri;
	proxy_http_version 1.1;
	proxy_set_header Connection "";
	proxy_pass_request_body off;
}`)
	one.processes = append(one.processes, behind.processes...)
	return one
}

// nginx starts nginx, in one process, with some lines of configuration: beside its server, and in it.
func (o *options) nginx(ctx context.Context, dir, beside, lines string) service {
	port, user := freePort(), ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	file := filepath.Join(dir, "nginx.conf")
	must.Do(os.WriteFile(file, fmt.Appendf(nil, `%s daemon off; master_process off; pid %s/pid; error_log stderr;
events {}
http {
access_log off; keepalive_requests 1000000000;
client_body_temp_path %[2]s/b; proxy_temp_path %[2]s/p; fastcgi_temp_path %[2]s/f; uwsgi_temp_path %[2]s/u; scgi_temp_path %[2]s/s;
limit_req_zone $http_x_user zone=users:10m rate=100000r/s;
%s
server { listen 127.0.0.1:%s;
%s }
}
`, user, dir, beside, port, lines), 0o644))
	process := launch(exec.CommandContext(ctx, o.Nginx, "-e", "stderr", "-c", file))
	return o.overHTTP(ctx, "http://127.0.0.1:"+port+"/", service{processes: []*exec.Cmd{process}})
}

// overHTTP has a service asked over HTTP, on a connection of each caller.
func (o *options) overHTTP(ctx context.Context, url string, one service) service {
	client := o.await(ctx, url)
	one.ask = func(_, n int) error { return get(ctx, client, url, n) }
	return one
}

// await waits until a service answers, and returns a client for it.
func (o *options) await(ctx context.Context, url string) *http.Client {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.Callers}}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := get(ctx, client, url, 0)
		if err == nil {
			return client
		}
		if time.Since(began) > time.Minute {
			panic(err)
		}
	}
}

func get(ctx context.Context, client *http.Client, url string, n int) error {
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))
	r.Header.Set("X-User", strconv.Itoa(n%1000))
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
