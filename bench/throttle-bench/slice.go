package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/redis/go-redis/v9"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/server"
)

// shape is the form of the load that a slice puts on a server.
type shape struct{ clients, pipeline int }

// pipelineDepth is deep enough that the server's execution time dominates.
const pipelineDepth = 50

var pipelined = shape{clients: 50, pipeline: pipelineDepth}

func unpipelined(clients int) shape { return shape{clients, 1} }

func (s shape) String() string {
	switch {
	case s.pipeline > 1:
		return "pipelined"
	case s.clients == 1:
		return "1 client"
	}
	return fmt.Sprintf("%d clients", s.clients)
}

// size is how many rounds there are, and calls in a slice: more with many clients, so that
// p99.9 is more than a few of them.
func (s shape) size(o options) (rounds, calls int) {
	switch {
	case s.pipeline > 1:
		return o.rounds, o.calls
	case s.clients > 1:
		return o.latencyRounds, 5 * o.calls
	}
	return o.latencyRounds, o.calls
}

// measure has all contenders take turns in short slices: what slows down the machine for
// longer slows down all of them, and ratios within a round are little touched by it. The
// first round only warms up.
func (l *lineup) measure(ctx context.Context, shapes ...shape) {
	steps := 0
	for _, s := range shapes {
		rounds, _ := s.size(l.options)
		steps += (rounds + 1) * len(l.entrants)
	}
	p := newProgress(steps)
	defer p.finish()
	for _, s := range shapes {
		rounds, calls := s.size(l.options)
		for round := range rounds + 1 {
			for _, i := range order(len(l.entrants), round, rounds) {
				e := l.entrants[i]
				p.step(fmt.Sprintf("%v, round %d of %d: %s", s, round, rounds, e.Name))
				f := l.slice(ctx, e, s, calls)
				if round > 0 {
					e.record(s, len(shapes) == 1, f)
				}
			}
		}
	}
}

// order is the order in which a round takes the contenders: each round begins further
// on, and every other one goes backwards, so that nobody always follows the same rival or
// the same pause.
func order(contenders, round, rounds int) []int {
	first := round * contenders / rounds
	step := 1
	if round%2 == 1 {
		step = contenders - 1 // one back, around the circle
	}
	turn := make([]int, contenders)
	for i := range turn {
		turn[i] = (first + i*step) % contenders
	}
	return turn
}

// figures is what one slice tells.
type figures struct {
	report
	execUs, cpuUs float64
}

// slice prepares the keys, puts the load on and takes the figures. It fails when the
// calls were not what the contender's name says.
func (l *lineup) slice(ctx context.Context, e *entrant, s shape, calls int) (f figures) {
	defer must.Name("%s, %v", e.Name, s)
	e.prepare(ctx, l.keys)
	clients, all := e.host.connect(s.clients), e.batches(calls, l.keys, s.pipeline)
	must.Do(e.verifySample(ctx, l.keys))
	must.Do(e.host.ConfigResetStat(ctx).Err())
	first, before := e.host.Fields(ctx), e.host.Fields(ctx) // which tells what asking costs
	f.report = must.Get(load(ctx, clients, all, false))
	after := e.host.Fields(ctx)
	stats := must.Get(after.CommandStats(e.command()))
	must.Do(e.verifyCounts(before, after, stats, calls))
	must.Do(e.verifySample(ctx, l.keys))
	f.execUs = stats.Usec / float64(calls)
	f.cpuUs = (after.CPUSeconds() - 2*before.CPUSeconds() + first.CPUSeconds()) / float64(calls) * 1e6
	if s.pipeline > 1 { // the client is slower than the server
		f.callsPerSecond = 1e6 / f.cpuUs
	}
	return f
}

// batches are random calls.
func (e *entrant) batches(calls, keys, pipeline int) []batch {
	encoded := e.encoded(e.Args)
	return batches(calls, pipeline, 1, func(b []byte, i int) []byte {
		return appendCall(b, encoded, randomKey(keys, i), rand.IntN(keys))
	})
}

// verifyCounts: the server's own counters cover every call of a slice.
func (e *entrant) verifyCounts(before, after server.Info, stats server.CommandStats, calls int) error {
	const changes = "rdb_changes_since_last_save"
	writes := after.Number(changes) - before.Number(changes)
	switch {
	case stats.Failed > 0:
		return fmt.Errorf("%d of %d calls were answered an error", stats.Failed, stats.Calls)
	case stats.Calls != calls:
		return fmt.Errorf("the server counted %d calls, and %d were sent", stats.Calls, calls)
	case e.Writes == writesAlways && writes < float64(calls):
		return fmt.Errorf("only %v of %d calls wrote", writes, calls)
	case e.Writes == writesNever && writes > after.Number("expired_keys"): // which may count as changes
		return fmt.Errorf("%v of %d calls wrote, and none should", writes, calls)
	}
	return nil
}

// verifySample makes calls on random keys and looks at the replies.
func (e *entrant) verifySample(ctx context.Context, keys int) error {
	const size = 64
	replies, err := e.host.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range size {
			var args []any
			key := randomKey(keys, i)
			for _, word := range words(e.Args, e.sha, e.prefix+keyNumber(key), keyNumber(rand.IntN(keys)), mixDigit(key)) {
				args = append(args, word)
			}
			p.Do(ctx, args...)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for _, reply := range replies {
		if err := e.Verify(reply.(*redis.Cmd).Val()); err != nil {
			return fmt.Errorf("not what its name says: the reply %w (with too few --keys, or too many --calls, limits are used up)", err)
		}
	}
	return nil
}

// record adds a slice's figures to the contender's. Metrics name the number of clients
// that do not pipeline, unless there is no other shape to tell them from.
func (e *entrant) record(s shape, only bool, f figures) {
	values := map[metric]float64{metricExec: f.execUs, metricCPU: f.cpuUs, metricRate: f.callsPerSecond}
	if s.pipeline == 1 { // the latency of a whole pipeline tells nothing of a call's
		for m, p := range map[metric]float64{metricP50: 50, metricP95: 95, metricP99: 99, metricP999: 99.9} {
			values[m] = percentile(f.latencies, p)
		}
	}
	for m, value := range values {
		if s.pipeline == 1 && !only {
			m = m.with(s.clients)
		}
		e.figures.add(m, value)
	}
}
