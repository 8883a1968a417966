package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"

	"redis-throttle/bench/internal/must"
)

// serverThreads is what the threads of one server do, idle and under load.
type serverThreads struct {
	Name       string      `json:"name"`
	Situations []situation `json:"situations"`

	idle procfs.ProcStatus
}

// situation is what the threads do under one load.
type situation struct {
	Name    string       `json:"situation"`
	Seconds float64      `json:"seconds"`
	Calls   int          `json:"calls"`
	Threads []threadRate `json:"threads"`
}

// threadRate is one thread. A thread that waits switches voluntarily, and is woken once
// for each time; one that is preempted does not.
type threadRate struct {
	Name               string  `json:"name"`
	OfModule           bool    `json:"of_module"`
	VoluntaryPerSecond float64 `json:"voluntary_per_s"`
	PreemptedPerSecond float64 `json:"preempted_per_s"`
}

// wakeups watches what a server's threads do, first without the module and then with it.
func wakeups(ctx context.Context, o options) {
	set, throttle := allCurves[0].Contenders[0], allCurves[0].Contenders[1]
	set.Name, set.Host, throttle.Name = "without module", hostPlain, "with module"
	plain, _ := watchServer(ctx, o, set)
	with, about := watchServer(ctx, o, throttle)
	markModule(with, plain)
	servers := []serverThreads{plain, with}
	o.publish("wakeups", results{About: about, Wakeups: map[string][]serverThreads{"servers": servers}}, wakeupTables(servers)...)
}

// markModule marks the threads of which a server without the module has none of that name.
// The main thread comes first and is never the module's.
func markModule(with, plain serverThreads) {
	own := map[string]bool{}
	for _, s := range plain.Situations {
		for _, t := range s.Threads[1:] {
			own[t.Name] = true
		}
	}
	for _, s := range with.Situations {
		for i := 1; i < len(s.Threads); i++ {
			s.Threads[i].OfModule = !own[s.Threads[i].Name]
		}
	}
}

// watchServer watches the threads of the contender's server.
func watchServer(ctx context.Context, o options, c contender) (s serverThreads, about []string) {
	defer must.Name("%s", c.Name)
	l := lineup{options: o, keys: o.Keys}
	defer l.close()
	l.assemble(ctx, []contender{c})
	e := l.entrants[0]
	s = serverThreads{Name: c.Name, idle: must.Get(must.Get(procfs.NewProc(e.host.PID())).NewStatus())}
	busy := o.pipelined()
	busy.name = "50 clients, pipelined"
	for _, under := range []shape{{name: "idle"}, o.latency(1), o.latency(50), busy} {
		s.Situations = append(s.Situations, e.watch(ctx, o, under))
	}
	return s, l.about(ctx)
}

// watch watches the threads in one situation, after a second in which it settles.
func (e *entrant) watch(ctx context.Context, o options, under shape) situation {
	loadCtx, stop := context.WithCancel(ctx)
	defer stop()
	var running errgroup.Group
	if under.clients > 0 {
		defer e.host.disconnect() // the load ends its connections
		clients, all := e.host.connect(under.clients), e.randomCalls(under.calls, o.Keys, under.pipeline)
		running.Go(func() error {
			for {
				if _, _, err := load(loadCtx, clients, all, kinds[e.Kind].Reply); loadCtx.Err() != nil {
					return nil // it was stopped
				} else if err != nil {
					return err
				}
			}
		})
	}
	pause(ctx, min(time.Second, o.Watch))
	calls, before := e.counters(ctx)
	started := time.Now()
	pause(ctx, o.Watch)
	seconds := time.Since(started).Seconds()
	callsAfter, after := e.counters(ctx)
	stop()
	must.Do(running.Wait())
	return situation{under.name, seconds, callsAfter - calls, threadRates(before, after, seconds)}
}

// counters are the calls so far, and what the kernel counts of each thread.
func (e *entrant) counters(ctx context.Context) (calls int, threads []procfs.ProcStatus) {
	for _, t := range must.Get(procfs.AllThreads(e.host.PID())) {
		if status, err := t.NewStatus(); err == nil { // it has not ended meanwhile
			threads = append(threads, status)
		}
	}
	return must.Get(e.host.Fields(ctx).CommandStats(e.command())).Calls, threads
}

// threadRates turns two readings of the counters into rates, the main thread's first. A
// thread that began in between counts from zero.
func threadRates(before, after []procfs.ProcStatus, seconds float64) (rates []threadRate) {
	earlier := map[int]procfs.ProcStatus{}
	for _, t := range before {
		earlier[t.PID] = t
	}
	for _, t := range after {
		place := len(rates)
		if t.PID == t.TGID {
			place = 0
		}
		rates = slices.Insert(rates, place, threadRate{
			Name:               t.Name,
			VoluntaryPerSecond: float64(t.VoluntaryCtxtSwitches-earlier[t.PID].VoluntaryCtxtSwitches) / seconds,
			PreemptedPerSecond: float64(t.NonVoluntaryCtxtSwitches-earlier[t.PID].NonVoluntaryCtxtSwitches) / seconds,
		})
	}
	return rates
}

func wakeupTables(servers []serverThreads) []table.Writer {
	one := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	mib := func(bytes uint64) string { return one(float64(bytes) / (1 << 20)) }
	size := newTable("An idle server", 1, "", "threads", "RSS MiB", "anonymous", "of files")
	threads := newTable("Threads: how often each was woken, and preempted, a second", 3, "", "calls/s", "thread", "woken/s", "preempted/s")
	for _, s := range servers {
		size.AppendRow(table.Row{s.Name, len(s.Situations[0].Threads), mib(s.idle.VmRSS), mib(s.idle.RssAnon), mib(s.idle.RssFile)})
		for _, situation := range s.Situations {
			label := s.Name + ", " + situation.Name
			calls := one(float64(situation.Calls) / situation.Seconds)
			for i, t := range situation.Threads {
				role := t.Name
				switch {
				case i == 0:
					role = "main"
				case t.OfModule:
					role = "of the module"
				case t.VoluntaryPerSecond == 0:
					continue // the server's own, asleep
				}
				threads.AppendRow(table.Row{label, calls, role, one(t.VoluntaryPerSecond), one(t.PreemptedPerSecond)})
				label, calls = "", ""
			}
			threads.AppendSeparator()
		}
	}
	return []table.Writer{size, threads}
}
