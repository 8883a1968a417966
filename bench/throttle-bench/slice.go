package main

import (
	"context"
	"fmt"
	"math"
	"os"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/server"
)

// pipelineDepth is deep enough that the server's execution time dominates.
const pipelineDepth = 50

// shape is the form of the load that slices put on a server.
type shape struct {
	name              string
	clients, pipeline int
	rounds, calls     int
	prefix            metric // of the names of what is measured
}

func (o options) pipelined() shape {
	return shape{name: "pipelined", clients: 50, pipeline: pipelineDepth, rounds: o.Rounds, calls: o.Calls}
}

// latency is the shape in which so many clients do not pipeline. Many make more calls, so
// that p99.9 is more than a few of them.
func (o options) latency(clients int) shape {
	if clients == 1 {
		return shape{"1 client", 1, 1, o.LatencyRounds, o.Calls, "clients_1_"}
	}
	return shape{fmt.Sprintf("%d clients", clients), clients, 1, o.LatencyRounds, 5 * o.Calls, metric(fmt.Sprintf("clients_%d_", clients))}
}

// measure has all contenders take turns in short slices: what slows down the machine for
// longer slows down all of them, and ratios within a round are little touched by it. The
// first round only warms up.
func (l *lineup) measure(ctx context.Context, shapes ...shape) {
	for _, s := range shapes {
		for round := range s.rounds + 1 {
			if round%10 == 0 {
				fmt.Fprintf(os.Stderr, "%s: round %d of %d\n", s.name, round, s.rounds)
			}
			for _, i := range order(len(l.entrants), round, s.rounds) {
				figures := l.slice(ctx, l.entrants[i], s)
				if round > 0 {
					l.entrants[i].record(s.prefix, figures)
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

// slice prepares the keys, puts the load on and returns the figures. It fails when the
// calls were not what the contender's name says.
func (l *lineup) slice(ctx context.Context, e *entrant, s shape) map[metric]float64 {
	defer must.Name("%s, %s", e.Name, s.name)
	if !l.lasting { // all that are measured on one server find as many keys there
		must.Do(e.host.FlushAll(ctx).Err())
		e.each(ctx, e.keys(l.keys), e.Setup...)
	}
	clients, all := e.host.connect(s.clients), e.randomCalls(s.calls, e.keys(l.keys), s.pipeline)
	must.Do(e.host.ConfigResetStat(ctx).Err())
	first, before := e.host.Fields(ctx), e.host.Fields(ctx) // which tells what asking costs
	latenciesUs, took, err := load(ctx, clients, all, e.replies()...)
	must.Do(err)
	after := e.host.Fields(ctx)
	stats := must.Get(after.CommandStats(e.command()))
	must.Do(e.verifyCounts(before, after, stats, s.calls*(1+len(e.Also))))

	cpuUs := (after.CPUSeconds() - 2*before.CPUSeconds() + first.CPUSeconds()) / float64(s.calls) * 1e6
	figures := map[metric]float64{metricExec: stats.Usec / float64(s.calls), metricCPU: cpuUs}
	if s.pipeline > 1 { // the client is slower than the server, and a pipeline's latency no call's
		figures[metricRate] = 1e6 / cpuUs
		return figures
	}
	figures[metricRate] = float64(s.calls) / took.Seconds()
	for m, p := range map[metric]float64{metricP50: 50, metricP95: 95, metricP99: 99, metricP999: 99.9} {
		figures[m] = percentile(latenciesUs, p)
	}
	return figures
}

// verifyCounts: the server's own counters cover every call of a slice.
func (e *entrant) verifyCounts(before, after server.Info, stats server.CommandStats, calls int) error {
	promise := kinds[e.Kind].Writes
	const changes = "rdb_changes_since_last_save"
	writes := after.Number(changes) - before.Number(changes)
	switch {
	case stats.Failed > 0:
		return fmt.Errorf("%d of %d calls were answered an error", stats.Failed, stats.Calls)
	case stats.Calls != calls:
		return fmt.Errorf("the server counted %d calls, and %d were sent", stats.Calls, calls)
	case promise == "always" && writes < float64(calls):
		return fmt.Errorf("only %v of %d calls wrote", writes, calls)
	case promise == "never" && writes > after.Number("expired_keys"): // which may count as changes
		return fmt.Errorf("%v of %d calls wrote, and none should", writes, calls)
	}
	return nil
}

// record adds a round's figures, with four decimals: more are noise.
func (e *entrant) record(prefix metric, figures map[metric]float64) {
	for m, value := range figures {
		e.Samples[prefix+m] = append(e.Samples[prefix+m], math.Round(value*1e4)/1e4)
	}
}
