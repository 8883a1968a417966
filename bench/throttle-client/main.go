// Throttle-client measures what the Go client spares: requests a second on one hot key, and calls
// to the server for each 1,000 of them, of a Limiter, a Cached and a Batched in 1, 8 and 64
// processes. It prints a table.
//
//	make bench-client
//	build/throttle-client --help
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/redis/go-redis/v9"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/server"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/ratelimit/cached"
)

type options struct {
	Server    string        `default:"redis-server" help:"Server to measure on: a path, or a name on PATH."`
	Module    string        `default:"build/throttle.so" type:"existingfile" help:"The module, as make build makes it."`
	Processes []int         `default:"1,8,64" help:"How many processes share the key."`
	Callers   int           `default:"8" help:"Goroutines of each process that ask without a pause."`
	Lasts     time.Duration `name:"seconds" default:"3s" help:"How long each is measured."`
	Worker    string        `hidden:"" help:"Be one of the processes: ADDR LIMITER COUNT KEY BEGIN."`
}

// limiters are what is measured.
var limiters = map[string]func(*ratelimit.Limiter) ratelimit.Decider{
	"Limiter": func(l *ratelimit.Limiter) ratelimit.Decider { return l },
	"Cached":  func(l *ratelimit.Limiter) ratelimit.Decider { return cached.New(l, cached.Options{Denials: 1000}) },
	"Batched": func(l *ratelimit.Limiter) ratelimit.Decider { return batched.New(l, batched.Options{}) },
}

// loads are the limits: one that is never reached, and one that nearly every request runs into.
var loads = []struct {
	name  string
	count int64 // a second
}{{"let through", 500_000_000}, {"limited to 1,000/s", 1000}}

func main() {
	var o options
	kong.Parse(&o, kong.Name("throttle-client"), kong.Description("Measures what the Go client spares."))
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "throttle-client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	defer must.Catch(&err)
	if o.Worker != "" {
		work(ctx, o)
		return nil
	}
	s := server.Start(ctx, o.Server, "--loadmodule", must.Get(filepath.Abs(o.Module)), "--maxclients", "10000")
	defer s.Close()
	t := table.NewWriter()
	t.SetOutputMirror(os.Stdout)
	t.AppendHeader(table.Row{"requests", "by", "processes", "requests/s", "let through/s", "calls to the server for each 1,000"})
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 4, Align: text.AlignRight}, {Number: 5, Align: text.AlignRight}, {Number: 6, Align: text.AlignRight}})
	for _, load := range loads {
		for _, limiter := range []string{"Limiter", "Cached", "Batched"} {
			for _, processes := range o.Processes {
				m := measure(ctx, s, o, limiter, load.count, processes)
				perSecond := func(n int64) string { return fmt.Sprintf("%.0f", float64(n)/o.Lasts.Seconds()) }
				t.AppendRow(table.Row{load.name, limiter, processes, perSecond(m.requests), perSecond(m.allowed),
					fmt.Sprintf("%.2f", 1000*float64(m.calls)/float64(m.requests))})
			}
		}
	}
	fmt.Printf("%s, %d callers in each process, %v each\n\n", s.Fields(ctx).Version(), o.Callers, o.Lasts)
	t.RenderMarkdown()
	return nil
}

type measured struct{ requests, allowed, calls int64 }

// measure has processes share one key.
func measure(ctx context.Context, s *server.Server, o options, limiter string, count int64, processes int) (m measured) {
	must.Do(s.FlushAll(ctx).Err())
	must.Do(s.ConfigResetStat(ctx).Err())
	begin := time.Now().Add(200*time.Millisecond + time.Duration(processes)*30*time.Millisecond)
	workers := make([]*exec.Cmd, processes)
	outputs := make([]strings.Builder, processes)
	for i := range workers {
		workers[i] = exec.CommandContext(ctx, must.Get(os.Executable()),
			"--server", o.Server, "--module", o.Module, "--callers", fmt.Sprint(o.Callers), "--seconds", o.Lasts.String(),
			"--worker", fmt.Sprint(s.Addr(), " ", limiter, " ", count, " hot ", begin.UnixNano()))
		workers[i].Stdout, workers[i].Stderr = &outputs[i], os.Stderr
		must.Do(workers[i].Start())
	}
	for i, worker := range workers {
		must.Do(worker.Wait())
		var requests, allowed int64
		must.Get(fmt.Sscan(outputs[i].String(), &requests, &allowed))
		m.requests, m.allowed = m.requests+requests, m.allowed+allowed
	}
	info := s.Fields(ctx)
	for _, command := range []string{"CL.LIMIT", "CL.REFUND"} {
		m.calls += int64(must.Get(info.CommandStats(command)).Calls)
	}
	return m
}

// work asks until its time is over, and prints how many requests it made and were let through.
func work(ctx context.Context, o options) {
	var addr, limiter, key string
	var count, begin int64
	must.Get(fmt.Sscan(o.Worker, &addr, &limiter, &count, &key, &begin))
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: o.Callers, ReadTimeout: time.Minute, MaxRetries: -1})
	defer client.Close()
	must.Do(client.Ping(ctx).Err())
	d := limiters[limiter](ratelimit.New(client, ratelimit.Options{}))
	call := ratelimit.Call{Keys: []ratelimit.Key{{Name: key, Limits: ratelimit.Limits{ratelimit.Rate(count, time.Second)}}}, Cost: 1}
	time.Sleep(time.Until(time.Unix(0, begin)))
	var requests, allowed atomic.Int64
	var calling sync.WaitGroup
	ends := time.Now().Add(o.Lasts)
	for range o.Callers {
		calling.Go(func() {
			var asked, granted int64
			for time.Now().Before(ends) {
				result, err := d.Decide(ctx, call)
				if err != nil {
					fmt.Fprintln(os.Stderr, "throttle-client:", err)
					os.Exit(1)
				}
				asked++
				granted += result.Granted
			}
			requests.Add(asked)
			allowed.Add(granted)
		})
	}
	calling.Wait()
	if b, ok := d.(*batched.Batched); ok {
		must.Do(b.Close(ctx))
	}
	fmt.Println(requests.Load(), allowed.Load())
}
