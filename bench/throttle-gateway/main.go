// Throttle-gateway measures services that decide for proxies: throttle-gateway, and beside it envoyproxy/ratelimit if a program of it is
// given. Each gets the same requests of two descriptors over gRPC, on the same server. It prints a table.
//
//	make bench-gateway
//	make bench-gateway ARGS='--upstream path/to/service_cmd'
//	build/throttle-gateway-bench --help
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	Callers  int           `default:"32" help:"Goroutines that ask without a pause, on eight connections."`
	Lasts    time.Duration `name:"seconds" default:"5s" help:"How long each is measured in a round."`
	Rounds   int           `default:"3" help:"How often each is measured, in turns. The table shows the median of each figure."`
}

// contender is a service, by the program and what its file begins with.
type contender struct {
	name, program, head string
	rounds              []figures
}

// figures has the results of a round.
type figures struct{ perSecond, p50, p99, cpu, redisCPU, commands float64 }

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
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "throttle-gateway-bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	defer must.Catch(&err)
	all := []*contender{
		{name: "throttle-gateway", program: o.Gateway},
		{name: "throttle-gateway, compat", program: o.Gateway, head: "compat: true\n"},
	}
	if o.Upstream != "" {
		all = append(all, &contender{name: "envoyproxy/ratelimit", program: o.Upstream})
	}
	version := ""
	for range o.Rounds {
		for _, c := range all {
			s := server.Start(ctx, o.Server, "--loadmodule", must.Get(filepath.Abs(o.Module)))
			version = s.Fields(ctx).Version()
			c.rounds = append(c.rounds, c.measure(ctx, s, o))
			s.Close()
		}
	}
	t := table.NewWriter()
	t.SetOutputMirror(os.Stdout)
	t.AppendHeader(table.Row{"service", "requests/s", "p50 ms", "p99 ms", "CPU of the service, us", "CPU of Redis, us", "commands to Redis"})
	for _, c := range all {
		row := table.Row{c.name}
		for i, of := range []func(figures) float64{
			func(f figures) float64 { return f.perSecond }, func(f figures) float64 { return f.p50 }, func(f figures) float64 { return f.p99 },
			func(f figures) float64 { return f.cpu }, func(f figures) float64 { return f.redisCPU }, func(f figures) float64 { return f.commands },
		} {
			row = append(row, fmt.Sprintf([]string{"%.0f", "%.2f", "%.2f", "%.1f", "%.1f", "%.1f"}[i], median(c.rounds, of)))
		}
		t.AppendRow(row)
	}
	fmt.Printf("%s, two descriptors, %d callers, %d rounds of %v; CPU and commands for each request\n\n", version, o.Callers, o.Rounds, o.Lasts)
	t.RenderMarkdown()
	return nil
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
func (c *contender) measure(ctx context.Context, s *server.Server, o options) figures {
	dir := must.Get(os.MkdirTemp("", "bench-gateway"))
	defer os.RemoveAll(dir)
	must.Do(os.Mkdir(filepath.Join(dir, "config"), 0o755))
	must.Do(os.WriteFile(filepath.Join(dir, "config", "limits.yaml"), []byte(c.head+limits), 0o644))
	port := freePort()
	cmd := exec.CommandContext(ctx, must.Get(filepath.Abs(c.program)))
	cmd.Env = append(os.Environ(), "REDIS_SOCKET_TYPE=tcp", "REDIS_TYPE=SINGLE", "REDIS_URL="+s.Addr(), "REDIS_TIMEOUT=10s", "REDIS_POOL_SIZE=32",
		"RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=", "RUNTIME_APPDIRECTORY=config", "RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "DISABLE_STATS=true",
		"HOST=127.0.0.1", "PORT="+freePort(), "GRPC_HOST=127.0.0.1", "GRPC_PORT="+port, "DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+freePort(),
		"USE_PROMETHEUS=false", "LOG_LEVEL=ERROR") // upstream without statistics, which it would log
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var services []rls.RateLimitServiceClient
	for range 8 {
		conn := must.Get(grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials())))
		defer conn.Close()
		services = append(services, rls.NewRateLimitServiceClient(conn))
	}
	_ = must.Get(services[0].ShouldRateLimit(ctx, request(0), grpc.WaitForReady(true)))
	load(ctx, services, o.Callers, o.Lasts/5) // connections and code are warm
	must.Do(s.ConfigResetStat(ctx).Err())
	before, cpu := s.Fields(ctx), cpuSeconds(cmd.Process.Pid)
	began := time.Now()
	took := load(ctx, services, o.Callers, o.Lasts)
	lasted := time.Since(began)
	after, used := s.Fields(ctx), cpuSeconds(cmd.Process.Pid)-cpu
	commands := 0.0
	for _, name := range []string{"CL.LIMIT", "CL.MLIMIT", "INCRBY", "EXPIRE", "GET"} {
		if stats, err := after.CommandStats(name); err == nil {
			commands += float64(stats.Calls)
		}
	}
	slices.Sort(took)
	n := float64(len(took))
	ms := func(share float64) float64 { return took[int(share*(n-1))].Seconds() * 1000 }
	return figures{n / lasted.Seconds(), ms(0.5), ms(0.99), used / n * 1e6, (after.CPUSeconds() - before.CPUSeconds()) / n * 1e6, commands / n}
}

// load asks without a pause, and returns how long each request took.
func load(ctx context.Context, services []rls.RateLimitServiceClient, callers int, lasts time.Duration) []time.Duration {
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
				response, err := services[i%len(services)].ShouldRateLimit(ctx, request(n))
				if err != nil || len(response.Statuses) != 2 || response.Statuses[1].CurrentLimit == nil {
					fmt.Fprintln(os.Stderr, "throttle-gateway-bench: no decision:", err, response)
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

// cpuSeconds is the processor time of a process, from /proc/PID/stat, in ticks of 10 ms.
func cpuSeconds(pid int) float64 {
	text := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))))
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	return float64(must.Get(strconv.Atoi(fields[11]))+must.Get(strconv.Atoi(fields[12]))) / 100
}

func freePort() string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
