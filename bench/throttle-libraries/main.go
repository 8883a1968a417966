// Throttle-libraries measures rate limiters for Go that keep their state in Redis: each asks one
// server for the same limit, by the same callers, and goes through the client as its users do.
// It prints a table.
//
//	make bench-libraries
//	build/throttle-libraries --help
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-redis/redis_rate/v10"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululestore "github.com/ulule/limiter/v3/drivers/store/redis"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/server"
	"redis-throttle/ratelimit"
)

type options struct {
	Server  string        `default:"redis-server" help:"Server to measure on: a path, or a name on PATH."`
	Module  string        `default:"build/throttle.so" type:"existingfile" help:"The module, as make build makes it."`
	Callers int           `default:"50" help:"Goroutines that ask without a pause."`
	Keys    int           `default:"1000" help:"Keys that they take turns with."`
	Lasts   time.Duration `name:"seconds" default:"3s" help:"How long each is measured."`
}

// allow asks for one unit.
type allow func(ctx context.Context, key string) (allowed bool, err error)

// The limit is the same for all: a hundred a second, and a hundred at once.
const perSecond = 100

var libraries = []struct {
	name string
	on   func(c *redis.Client) allow
}{
	{"ratelimit, Limit", func(c *redis.Client) allow {
		l, limits := ratelimit.New(c, ratelimit.Options{}), ratelimit.Limits{ratelimit.Rate(perSecond, time.Second)}
		return func(ctx context.Context, key string) (bool, error) {
			r, err := l.Limit(ctx, key, limits, 1)
			return !r.Limited, err
		}
	}},
	{"ratelimit, Throttle", func(c *redis.Client) allow {
		l, limits := ratelimit.New(c, ratelimit.Options{}), ratelimit.Limits{ratelimit.Rate(perSecond, time.Second)}
		return func(ctx context.Context, key string) (bool, error) {
			keys := []ratelimit.Key{{Name: key, Limits: limits}}
			r, err := l.Decide(ctx, ratelimit.Call{Verb: ratelimit.VerbThrottle, Keys: keys, Cost: 1})
			return !r.Limited, err
		}
	}},
	{"redis_rate", func(c *redis.Client) allow {
		l := redis_rate.NewLimiter(c)
		return func(ctx context.Context, key string) (bool, error) {
			r, err := l.Allow(ctx, key, redis_rate.PerSecond(perSecond))
			return err == nil && r.Allowed > 0, err
		}
	}},
	{"throttled", func(c *redis.Client) allow {
		store := must.Get(throttledstore.NewCtx(c, "throttled:"))
		l := must.Get(throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(perSecond), MaxBurst: perSecond - 1}))
		return func(ctx context.Context, key string) (bool, error) {
			limited, _, err := l.RateLimitCtx(ctx, key, 1)
			return !limited, err
		}
	}},
	{"ulule/limiter", func(c *redis.Client) allow {
		l := ulule.New(must.Get(ululestore.NewStore(c)), ulule.Rate{Period: time.Second, Limit: perSecond})
		return func(ctx context.Context, key string) (bool, error) {
			r, err := l.Get(ctx, key)
			return !r.Reached, err
		}
	}},
}

func main() {
	var o options
	kong.Parse(&o, kong.Name("throttle-libraries"), kong.Description("Measures rate limiters for Go on one server."))
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "throttle-libraries:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	defer must.Catch(&err)
	s := server.Start(ctx, o.Server, "--loadmodule", must.Get(filepath.Abs(o.Module)))
	defer s.Close()
	t := table.NewWriter()
	t.SetOutputMirror(os.Stdout)
	t.AppendHeader(table.Row{"library", "calls/s", "p50 in us", "p99 in us", "allocations per call", "bytes per call", "errors"})
	var numbers []table.ColumnConfig
	for column := 2; column <= 7; column++ {
		numbers = append(numbers, table.ColumnConfig{Number: column, Align: text.AlignRight})
	}
	t.SetColumnConfigs(numbers)
	for _, library := range libraries {
		must.Do(s.FlushAll(ctx).Err())
		client := redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: o.Callers, ReadTimeout: time.Minute})
		measure(ctx, o, library.on(client), o.Lasts/10) // connects, loads scripts
		m := measure(ctx, o, library.on(client), o.Lasts)
		must.Do(client.Close())
		us := func(share int) int64 { return m.took[len(m.took)*share/100].Microseconds() }
		calls := float64(len(m.took))
		t.AppendRow(table.Row{library.name, fmt.Sprintf("%.0f", calls/m.lasted.Seconds()), us(50), us(99),
			fmt.Sprintf("%.1f", float64(m.mallocs)/calls), fmt.Sprintf("%.0f", float64(m.bytes)/calls), m.errors})
	}
	fmt.Printf("%s, %d callers, %d keys, %d/s each, %v each\n\n", s.Fields(ctx).Version(), o.Callers, o.Keys, perSecond, o.Lasts)
	t.RenderMarkdown()
	return nil
}

type measured struct {
	took           []time.Duration // of each call, the shortest first
	lasted         time.Duration
	errors         int // of calls: a library may give up under contention
	mallocs, bytes uint64
}

func measure(ctx context.Context, o options, ask allow, lasts time.Duration) (m measured) {
	keys := make([]string, o.Keys)
	for i := range keys {
		keys[i] = fmt.Sprint("key:", i)
	}
	tooks, failures := make([][]time.Duration, o.Callers), make([]int, o.Callers)
	for i := range tooks {
		tooks[i] = make([]time.Duration, 0, 1<<17)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	var calling sync.WaitGroup
	for caller := range o.Callers {
		calling.Go(func() {
			for i := caller; ; i++ {
				sent := time.Now()
				if sent.Sub(began) >= lasts && len(tooks[caller]) > 0 {
					return
				}
				if _, err := ask(ctx, keys[i%len(keys)]); err != nil {
					failures[caller]++
				}
				tooks[caller] = append(tooks[caller], time.Since(sent))
			}
		})
	}
	calling.Wait()
	m.lasted = time.Since(began)
	runtime.ReadMemStats(&after)
	m.mallocs, m.bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	m.took = slices.Concat(tooks...)
	slices.Sort(m.took)
	for _, n := range failures {
		m.errors += n
	}
	return m
}
