// Throttle-gateway measures services that decide for proxies: throttle-gateway, and beside it envoyproxy/ratelimit if a
// program of it is given, and a handler that does nothing. Each gets the same requests of two descriptors over gRPC, on
// the same server, and of one over HTTP. With nginx, it also measures requests that nginx limits by its own limit_req,
// and those about which it asks the gateway. It prints tables.
//
//	make bench-gateway
//	make bench-gateway ARGS='--before path/to/throttle-gateway --only "empty|gateway$|/check$|before" --rounds 15 --seconds 1s'
//	make bench-gateway ARGS='--upstream path/to/service_cmd'
//	build/throttle-gateway-bench --help
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/jedib0t/go-pretty/v6/table"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/server"
)

type options struct {
	Server   string        `default:"redis-server" help:"Server to measure on: a path, or a name on PATH."`
	Module   string        `default:"build/throttle.so" type:"existingfile" help:"The module, as make build makes it."`
	Gateway  string        `default:"build/throttle-gateway" type:"existingfile" help:"The gateway, as make build-gateway makes it."`
	Upstream string        `type:"existingfile" help:"envoyproxy/ratelimit: its src/service_cmd, built."`
	Nginx    string        `help:"nginx, for the requests by HTTP."`
	Before   string        `type:"existingfile" help:"Another build of the gateway, to compare."`
	Only     string        `default:"." help:"Measure those alone whose names this regular expression matches."`
	Empty    bool          `hidden:"" help:"Serve as a handler that does nothing."`
	Asks     string        `hidden:"" help:"How it asks Redis before it answers: alone, or together with other requests."`
	Callers  int           `default:"32" help:"Goroutines that ask without a pause, on eight connections."`
	Lasts    time.Duration `name:"seconds" default:"5s" help:"How long each is measured in a round."`
	Rounds   int           `default:"3" help:"How often each is measured, in turns. The table shows the median of each figure."`
}

// contender is what is measured. start starts it on a server, with a folder of its own.
type contender struct {
	name   string
	start  func(ctx context.Context, dir string, s *server.Server) service
	rounds []figures
}

// service is what has been started: how the goroutine of a number asks it its next request, and its processes.
type service struct {
	ask       func(caller, n int) error
	processes []*exec.Cmd
	conns     []io.Closer
}

// figures has the results of a round. Times is cpu in times of that of the first contender, in the same round.
type figures struct{ perSecond, p50, p99, cpu, times, redisCPU, commands, reads float64 }

const limits = `domain: bench
descriptors:
- key: user
  rate_limit: {unit: hour, requests_per_unit: 100000000}
- key: path
  rate_limit: {unit: hour, requests_per_unit: 100000000}
`

func main() {
	var o options
	kong.Parse(&o, kong.Name("throttle-gateway-bench"), kong.Description("Measures services that decide for proxies."))
	work := run
	if o.Empty {
		work = serveEmpty
	}
	if err := work(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "throttle-gateway-bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	defer must.Catch(&err)
	self := must.Get(os.Executable())
	all := []*contender{
		{name: "empty handler", start: overGRPC(self, "", "--empty")},
		{name: "handler that asks Redis", start: overGRPC(self, "", "--empty", "--asks=alone")},
		{name: "handler that asks Redis in shared pipelines", start: overGRPC(self, "", "--empty", "--asks=together")},
		{name: "throttle-gateway", start: overGRPC(o.Gateway, "")},
		{name: "throttle-gateway, compat", start: overGRPC(o.Gateway, "compat: true\n")},
	}
	if o.Before != "" {
		all = append(all, &contender{name: "throttle-gateway before", start: overGRPC(o.Before, "")})
	}
	if o.Upstream != "" {
		all = append(all, &contender{name: "envoyproxy/ratelimit", start: overGRPC(o.Upstream, "")})
	}
	o.compare(ctx, "two descriptors over gRPC", all)
	web := []*contender{
		{name: "empty handler", start: o.check(self, "--empty")},
		{name: "throttle-gateway, /check", start: o.check(o.Gateway)},
	}
	if o.Before != "" {
		web = append(web, &contender{name: "throttle-gateway before, /check", start: o.check(o.Before)})
	}
	if o.Nginx != "" {
		web = append(web,
			&contender{name: "nginx that asks it, auth_request", start: o.nginxAsks},
			&contender{name: "nginx, limit_req", start: o.nginxAlone("limit_req zone=users burst=100000 nodelay;")},
			&contender{name: "nginx that limits nothing", start: o.nginxAlone("")})
	}
	o.compare(ctx, "one limit over HTTP", web)
	return nil
}

// compare measures some contenders in turns, and prints the medians.
func (o *options) compare(ctx context.Context, what string, all []*contender) {
	only := must.Get(regexp.Compile(o.Only))
	all = slices.DeleteFunc(all, func(c *contender) bool { return !only.MatchString(c.name) })
	if len(all) == 0 {
		return
	}
	version := ""
	for round := range o.Rounds {
		for _, c := range all {
			s := server.Start(ctx, o.Server, "--loadmodule", must.Get(filepath.Abs(o.Module)))
			version = s.Fields(ctx).Version()
			c.rounds = append(c.rounds, c.measure(ctx, s, o))
			s.Close()
			c.rounds[round].times = c.rounds[round].cpu / all[0].rounds[round].cpu
		}
	}
	t := table.NewWriter()
	t.SetOutputMirror(os.Stdout)
	t.AppendHeader(table.Row{"service", "requests/s", "p50 ms", "p99 ms", "CPU of the service, us", "of " + all[0].name, "CPU of Redis, us", "commands to Redis", "reads of Redis"})
	for _, c := range all {
		row := table.Row{c.name}
		for i, of := range []func(figures) float64{
			func(f figures) float64 { return f.perSecond }, func(f figures) float64 { return f.p50 }, func(f figures) float64 { return f.p99 },
			func(f figures) float64 { return f.cpu }, func(f figures) float64 { return f.times }, func(f figures) float64 { return f.redisCPU },
			func(f figures) float64 { return f.commands }, func(f figures) float64 { return f.reads },
		} {
			row = append(row, fmt.Sprintf([]string{"%.0f", "%.2f", "%.2f", "%.1f", "%.2f x", "%.1f", "%.1f", "%.2f"}[i], median(c.rounds, of)))
		}
		t.AppendRow(row)
	}
	fmt.Printf("%s, %s, %d callers, %d rounds of %v; CPU and commands for each request\n", version, what, o.Callers, o.Rounds, o.Lasts)
	fmt.Printf("%s; load %s\n\n", processor(), strings.Join(strings.Fields(text("/proc/loadavg"))[:3], " "))
	t.RenderMarkdown()
	fmt.Println()
}

func median(rounds []figures, of func(figures) float64) float64 {
	var values []float64
	for _, f := range rounds {
		values = append(values, of(f))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// measure runs a service, and asks it.
func (c *contender) measure(ctx context.Context, s *server.Server, o *options) figures {
	dir := must.Get(os.MkdirTemp("", "bench-gateway"))
	defer os.RemoveAll(dir)
	one := c.start(ctx, dir, s)
	defer func() {
		for _, conn := range one.conns {
			_ = conn.Close()
		}
		for _, cmd := range one.processes {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	cpuSeconds := func() (sum float64) {
		for _, cmd := range one.processes {
			sum += cpuSecondsOf(cmd.Process.Pid)
		}
		return sum
	}
	load(one, o.Callers, o.Lasts/5) // connections and code are warm
	must.Do(s.ConfigResetStat(ctx).Err())
	before, cpu := s.Fields(ctx), cpuSeconds()
	began := time.Now()
	took := load(one, o.Callers, o.Lasts)
	lasted := time.Since(began)
	after, used := s.Fields(ctx), cpuSeconds()-cpu
	commands := 0.0
	for _, name := range []string{"CL.LIMIT", "CL.MLIMIT", "INCRBY", "EXPIRE", "GET"} {
		if stats, err := after.CommandStats(name); err == nil {
			commands += float64(stats.Calls)
		}
	}
	slices.Sort(took)
	n := float64(len(took))
	ms := func(share float64) float64 { return took[int(share*(n-1))].Seconds() * 1000 }
	return figures{n / lasted.Seconds(), ms(0.5), ms(0.99), used / n * 1e6, 0, (after.CPUSeconds() - before.CPUSeconds()) / n * 1e6, commands / n,
		after.Number("total_reads_processed") / n}
}

// gateway starts a service with a file, and returns the ports of gRPC and HTTP.
func gateway(ctx context.Context, program, text, dir string, s *server.Server, args ...string) (one service, grpcPort, httpPort string) {
	must.Do(os.Mkdir(filepath.Join(dir, "config"), 0o755))
	must.Do(os.WriteFile(filepath.Join(dir, "config", "limits.yaml"), []byte(text), 0o644))
	grpcPort, httpPort = freePort(), freePort()
	cmd := exec.CommandContext(ctx, must.Get(filepath.Abs(program)), args...)
	cmd.Env = append(os.Environ(), "REDIS_SOCKET_TYPE=tcp", "REDIS_TYPE=SINGLE", "REDIS_URL="+s.Addr(), "REDIS_TIMEOUT=10s", "REDIS_POOL_SIZE=32",
		"RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=", "RUNTIME_APPDIRECTORY=config", "RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "DISABLE_STATS=true",
		"HOST=127.0.0.1", "PORT="+httpPort, "GRPC_HOST=127.0.0.1", "GRPC_PORT="+grpcPort, "DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+freePort(),
		"USE_PROMETHEUS=false", "LOG_LEVEL=ERROR") // upstream without statistics, which it would log
	one.processes = []*exec.Cmd{launch(cmd)}
	return one, grpcPort, httpPort
}

// launch starts a process that ends with this one.
func launch(cmd *exec.Cmd) *exec.Cmd {
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(cmd.Start())
	return cmd
}

// overGRPC starts a service that is asked over gRPC, on eight connections. head is what its file begins with.
func overGRPC(program, head string, args ...string) func(context.Context, string, *server.Server) service {
	return func(ctx context.Context, dir string, s *server.Server) service {
		one, port, _ := gateway(ctx, program, head+limits, dir, s, args...)
		var services []rls.RateLimitServiceClient
		for range 8 {
			conn := must.Get(grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials())))
			one.conns = append(one.conns, conn)
			services = append(services, rls.NewRateLimitServiceClient(conn))
		}
		_ = must.Get(services[0].ShouldRateLimit(ctx, request(0), grpc.WaitForReady(true)))
		one.ask = func(caller, n int) error {
			response, err := services[caller%len(services)].ShouldRateLimit(ctx, request(n))
			if err == nil && (len(response.Statuses) != 2 || response.Statuses[1].CurrentLimit == nil) {
				err = fmt.Errorf("no decision: %v", response)
			}
			return err
		}
		return one
	}
}

// load asks without a pause, and returns how long each request took.
func load(one service, callers int, lasts time.Duration) []time.Duration {
	took := make([][]time.Duration, callers)
	ends := time.Now().Add(lasts)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := i; ; n += callers {
				began := time.Now()
				if began.After(ends) {
					return
				}
				if err := one.ask(i, n); err != nil {
					fmt.Fprintln(os.Stderr, "throttle-gateway-bench:", err)
					os.Exit(1)
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	wg.Wait()
	return slices.Concat(took...)
}

func request(n int) *rls.RateLimitRequest {
	descriptor := func(key string, value int) *common.RateLimitDescriptor {
		return &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: strconv.Itoa(value)}}}
	}
	return &rls.RateLimitRequest{Domain: "bench", Descriptors: []*common.RateLimitDescriptor{descriptor("user", n%1000), descriptor("path", n%100)}}
}

// cpuSecondsOf is the processor time of a process, from /proc/PID/stat, in ticks of 10 ms.
func cpuSecondsOf(pid int) float64 {
	stat := text(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	return float64(must.Get(strconv.Atoi(fields[11]))+must.Get(strconv.Atoi(fields[12]))) / 100
}

func freePort() string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func text(file string) string { return string(must.Get(os.ReadFile(file))) }

// processor is what the kernel calls it, and how many there are.
func processor() string {
	_, model, _ := strings.Cut(text("/proc/cpuinfo"), "model name\t: ")
	model, _, _ = strings.Cut(model, "\n")
	return fmt.Sprintf("%d x %s", runtime.NumCPU(), cmp.Or(model, runtime.GOARCH))
}
