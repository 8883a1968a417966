package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/redis/go-redis/v9"

	"redis-throttle/bench/throttle-bench/internal/load"
	"redis-throttle/bench/throttle-bench/internal/result"
	"redis-throttle/bench/throttle-bench/internal/server"
)

// sliceKind is a way to put load on a server for a short while.
type sliceKind struct {
	name     string
	clients  int
	pipeline int
	warmUp   int  // calls of the first, unmeasured slice
	onlyKind bool // so that metrics need not name the number of clients
}

// pipelineDepth is deep enough that the server's execution time dominates.
const pipelineDepth = 50

var pipelinedCalls = sliceKind{name: "pipelined", clients: 50, pipeline: pipelineDepth, warmUp: 20_000}

var sliceKinds = []sliceKind{
	pipelinedCalls,
	unpipelined(1),
	unpipelined(50),
}

func unpipelined(clients int) sliceKind {
	name := fmt.Sprintf("%d clients", clients)
	if clients == 1 {
		name = "1 client"
	}
	return sliceKind{name: name, clients: clients, pipeline: 1, warmUp: max(2_000, 10*clients)}
}

// sampleSize is how many calls are verified before and after each slice.
const sampleSize = 64

// figures is what one slice tells.
type figures struct {
	load.Report
	execUs float64
	cpuUs  float64
}

// slice prepares the keys, puts the load on and takes the figures. It fails when the
// calls were not what the contender's name says.
func (l *lineup) slice(ctx context.Context, e *entrant, kind sliceKind, requests int) (figures, error) {
	fail := func(err error) (figures, error) {
		return figures{}, fmt.Errorf("%s, %s: %w", e.Name, kind.name, err)
	}
	if err := e.prepare(ctx, l.keys); err != nil {
		return fail(err)
	}
	if err := e.verifySample(ctx, l.keys); err != nil {
		return fail(err)
	}
	if err := e.host.Client.ConfigResetStat(ctx).Err(); err != nil {
		return fail(err)
	}
	before, err := e.host.Info(ctx)
	if err != nil {
		return fail(err)
	}
	report, err := l.load(ctx, e, kind, requests)
	if err != nil {
		return fail(err)
	}
	after, err := e.host.Info(ctx)
	if err != nil {
		return fail(err)
	}
	stats, err := after.CommandStats(e.command())
	if err != nil {
		return fail(err)
	}
	inFlight := kind.clients * kind.pipeline // redis-benchmark may send that many more than asked for
	if err := e.verifyCounts(before, after, stats, requests, requests+inFlight); err != nil {
		return fail(err)
	}
	if err := e.verifySample(ctx, l.keys); err != nil {
		return fail(err)
	}
	return figures{
		Report: report,
		execUs: stats.Usec / float64(stats.Calls),
		cpuUs:  (after.CPUSeconds() - before.CPUSeconds()) / float64(stats.Calls) * 1e6,
	}, nil
}

func (l *lineup) load(ctx context.Context, e *entrant, kind sliceKind, requests int) (load.Report, error) {
	calls := load.Calls{
		Addr: e.host.Addr(), Args: e.randomCall(e.Args), Keys: l.keys,
		Requests: requests, Clients: kind.clients, Pipeline: kind.pipeline,
	}
	if kind.clients == 1 && kind.pipeline == 1 {
		return load.Single(ctx, calls)
	}
	return load.Benchmark(ctx, l.options.benchmark, calls)
}

// verifyCounts: the server's own counters cover every call of a slice.
func (e *entrant) verifyCounts(before, after server.Info, stats server.CommandStats, least, most int) error {
	if stats.Failed > 0 {
		return fmt.Errorf("%d of %d calls were answered an error", stats.Failed, stats.Calls)
	}
	if stats.Calls < least || stats.Calls > most {
		return fmt.Errorf("the server counted %d calls, and %d to %d were sent", stats.Calls, least, most)
	}
	const changes = "rdb_changes_since_last_save"
	writes := after.Number(changes) - before.Number(changes)
	// A key that expires meanwhile may count as a change.
	expired := after.Number("expired_keys")
	switch {
	case e.Writes == writesAlways && writes < float64(stats.Calls):
		return fmt.Errorf("only %v of %d calls wrote", writes, stats.Calls)
	case e.Writes == writesNever && writes > expired:
		return fmt.Errorf("%v of %d calls wrote, and none should", writes, stats.Calls)
	}
	return nil
}

// verifySample makes calls on random keys and looks at the replies.
func (e *entrant) verifySample(ctx context.Context, keys int) error {
	var replies []*redis.Cmd
	_, err := e.host.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range sampleSize {
			replies = append(replies, p.Do(ctx, e.call(e.Args, rand.IntN(keys), rand.IntN(keys))...))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for _, reply := range replies {
		if err := e.Verify(reply.Val()); err != nil {
			return fmt.Errorf("not what its name says: the reply %w (with too few --keys, or too long a --slice, limits are used up)", err)
		}
	}
	return nil
}

// record adds a slice's figures to the contender's.
func (e *entrant) record(kind sliceKind, f figures) {
	add := func(m result.Metric, value float64) { e.figures.Add(kind.metric(m), value) }
	add(result.Exec, f.execUs)
	add(result.CPU, f.cpuUs)
	add(result.Rate, f.CallsPerSecond)
	if kind.pipeline > 1 {
		return // the latency of a whole pipeline tells nothing of a call's
	}
	add(result.P50, f.Latency.P50)
	add(result.P95, f.Latency.P95)
	add(result.P99, f.Latency.P99)
	add(result.P999, f.Latency.P999)
}

func (k sliceKind) metric(m result.Metric) result.Metric {
	if k.pipeline > 1 || k.onlyKind {
		return m
	}
	return m.With(k.clients)
}
