package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"redis-throttle/bench/throttle-bench/internal/load"
	"redis-throttle/bench/throttle-bench/internal/result"
	"redis-throttle/bench/throttle-bench/internal/server"
)

// situation is a load under which threads are watched.
type situation struct {
	name              string
	clients, pipeline int // 0 clients: idle
}

var situations = []situation{
	{"idle", 0, 0},
	{"1 client", 1, 1},
	{"50 clients", 50, 1},
	{"50 clients, pipelined", 50, pipelineDepth},
}

// wakeups watches what a server's threads do, first without the module and then with it.
// A thread is the module's when the server without it has none of that name.
func wakeups(ctx context.Context, o options) error {
	file := result.File{Kind: result.KindWakeups, Started: time.Now().UTC().Truncate(time.Second), Settings: o.settings(), Wakeups: &result.Wakeups{}}
	p := newProgress(o.stderr, 2*float64(len(situations))*(o.seconds+o.settle()).Seconds())
	defer p.finish()
	var own []string // names of the server's own threads
	for _, c := range []Contender{
		{Name: "without module", Host: hostPlain, Args: callSetLong, Verify: is("OK")},
		{Name: "with module", Host: hostMain, Args: lastingContenders[1].Args, Verify: isAllowed},
	} {
		watched, env, err := watch(ctx, o, p, c)
		if err != nil {
			return err
		}
		markModule(&watched, &own)
		file.Environment = env
		file.Wakeups.Servers = append(file.Wakeups.Servers, watched)
	}
	p.finish()
	return publish(o, "wakeups", file)
}

// markModule learns the names of the first server's threads, and marks in the next one
// those it has not seen. The main thread comes first and is never the module's.
func markModule(s *result.ServerThreads, own *[]string) {
	learn := *own == nil
	for _, situation := range s.Situations {
		for i := range situation.Threads {
			t := &situation.Threads[i]
			switch {
			case i == 0:
			case learn:
				*own = append(*own, t.Name)
			default:
				t.OfModule = !slices.Contains(*own, t.Name)
			}
		}
	}
}

// settle is how long a server is left alone before it is watched.
func (o options) settle() time.Duration { return min(time.Second, o.seconds) }

func watch(ctx context.Context, o options, p *progress, c Contender) (result.ServerThreads, result.Environment, error) {
	fail := func(err error) (result.ServerThreads, result.Environment, error) {
		return result.ServerThreads{}, result.Environment{}, err
	}
	l, err := assemble(ctx, o, o.keys, []Contender{c})
	if err != nil {
		return fail(err)
	}
	defer l.Close()
	if len(l.entrants) == 0 {
		return fail(fmt.Errorf("%v", l.skipped))
	}
	e := l.entrants[0]
	watched := result.ServerThreads{Name: c.Name}
	for _, s := range situations {
		p.step(c.Name+": "+s.name, (o.seconds + o.settle()).Seconds())
		switches, err := l.watchSituation(ctx, e, s)
		if err != nil {
			return fail(fmt.Errorf("%s, %s: %w", c.Name, s.name, err))
		}
		watched.Situations = append(watched.Situations, switches)
		if s.clients == 0 {
			memory, err := e.host.Memory()
			if err != nil {
				return fail(err)
			}
			watched.RSS, watched.RSSAnon, watched.RSSFile = memory.RSS, memory.Anon, memory.File
			watched.Threads = len(switches.Threads)
		}
	}
	env, err := environment(ctx, o, l.hosts[hostMain])
	return watched, env, err
}

func (l *lineup) watchSituation(ctx context.Context, e *entrant, s situation) (result.ThreadSwitches, error) {
	loadCtx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- l.endlessLoad(loadCtx, e, s) }()
	defer func() { stop(); <-ended }()

	switches := result.ThreadSwitches{Situation: s.name}
	if err := sleep(ctx, ended, l.options.settle()); err != nil {
		return switches, err
	}
	statsBefore, err := e.stats(ctx)
	if err != nil {
		return switches, err
	}
	before, err := e.host.Threads()
	if err != nil {
		return switches, err
	}
	started := time.Now()
	if err := sleep(ctx, ended, l.options.seconds); err != nil {
		return switches, err
	}
	switches.Seconds = time.Since(started).Seconds()
	after, err := e.host.Threads()
	if err != nil {
		return switches, err
	}
	statsAfter, err := e.stats(ctx)
	if err != nil {
		return switches, err
	}
	if err := e.verifySample(ctx, l.keys); err != nil {
		return switches, err
	}
	switches.Calls = statsAfter.Calls - statsBefore.Calls
	switches.Threads = threadRates(before, after, switches.Seconds)
	return switches, nil
}

func (e *entrant) stats(ctx context.Context) (server.CommandStats, error) {
	info, err := e.host.Info(ctx)
	if err != nil {
		return server.CommandStats{}, err
	}
	return info.CommandStats(e.command())
}

// endlessLoad returns when its context ends; without clients it only waits for that.
func (l *lineup) endlessLoad(ctx context.Context, e *entrant, s situation) error {
	if s.clients == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	const endless = 1_000_000_000
	_, err := load.Benchmark(ctx, l.options.benchmark, load.Calls{
		Addr: e.host.Addr(), Args: e.randomCall(e.Args), Keys: l.keys,
		Requests: endless, Clients: s.clients, Pipeline: s.pipeline,
	})
	return err
}

// sleep fails when the load ends before its time.
func sleep(ctx context.Context, ended chan error, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case err := <-ended:
		ended <- err
		return errors.Join(errors.New("the load ended too early"), err)
	}
}

// threadRates turns two readings of the counters into rates. A thread that began in
// between counts from zero.
func threadRates(before, after []server.Thread, seconds float64) []result.Thread {
	first := map[int]server.Thread{}
	for _, t := range before {
		first[t.ID] = t
	}
	var rates []result.Thread
	for _, t := range after {
		rates = append(rates, result.Thread{
			Name:               t.Name,
			VoluntaryPerSecond: float64(t.Voluntary-first[t.ID].Voluntary) / seconds,
			PreemptedPerSecond: float64(t.Preempted-first[t.ID].Preempted) / seconds,
		})
	}
	return rates
}

func wakeupTables(w result.Wakeups) []table.Writer {
	size := newTable("An idle server", "", "threads", "RSS MiB", "anonymous", "of files")
	alignFigures(size, 1, 5)
	for _, s := range w.Servers {
		size.AppendRow(table.Row{s.Name, s.Threads, mib(s.RSS), mib(s.RSSAnon), mib(s.RSSFile)})
	}
	threads := newTable("Threads: how often each was woken, and preempted, a second", "", "calls/s", "thread", "woken/s", "preempted/s")
	alignFigures(threads, 3, 5)
	for _, s := range w.Servers {
		for _, situation := range s.Situations {
			label := s.Name + ", " + situation.Situation
			calls := perSecond(float64(situation.Calls) / situation.Seconds)
			for i, t := range situation.Threads {
				if i > 0 && !t.OfModule && t.VoluntaryPerSecond == 0 {
					continue // the server's own, asleep
				}
				threads.AppendRow(table.Row{label, calls, threadRole(t, i), perSecond(t.VoluntaryPerSecond), perSecond(t.PreemptedPerSecond)})
				label, calls = "", ""
			}
			threads.AppendSeparator()
		}
	}
	return []table.Writer{size, threads}
}

func threadRole(t result.Thread, index int) string {
	switch {
	case index == 0:
		return "main"
	case t.OfModule:
		return "of the module"
	}
	return t.Name
}

func perSecond(rate float64) string { return fmt.Sprintf("%.1f", rate) }

func mib(bytes int) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }
