package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/prometheus/procfs"

	"redis-throttle/bench/internal/must"
)

// wakeupsResult is what the threads of servers do.
type wakeupsResult struct {
	Servers []serverThreads `json:"servers"`
}

// serverThreads is one server, idle and under load.
type serverThreads struct {
	Name       string           `json:"name"`
	Threads    int              `json:"threads"`
	RSS        uint64           `json:"rss_bytes"` // idle
	RSSAnon    uint64           `json:"rss_anon_bytes"`
	RSSFile    uint64           `json:"rss_file_bytes"`
	Situations []threadSwitches `json:"situations"`
}

// threadSwitches is how often threads went to sleep and were woken in one situation.
type threadSwitches struct {
	Situation string       `json:"situation"`
	Seconds   float64      `json:"seconds"`
	Calls     int          `json:"calls"`
	Threads   []threadRate `json:"threads"`
}

// threadRate is one thread. A thread that waits switches voluntarily, and is woken once
// for each time; one that is preempted does not.
type threadRate struct {
	Name               string  `json:"name"`
	OfModule           bool    `json:"of_module"`
	VoluntaryPerSecond float64 `json:"voluntary_per_s"`
	PreemptedPerSecond float64 `json:"preempted_per_s"`
}

// situations are the loads under which threads are watched; no clients is idle.
var situations = []struct {
	name  string
	shape shape
}{
	{"idle", shape{}},
	{"1 client", unpipelined(1)},
	{"50 clients", unpipelined(50)},
	{"50 clients, pipelined", pipelined},
}

// wakeups watches what a server's threads do, first without the module and then with it.
// A thread is the module's when the server without it has none of that name.
func wakeups(ctx context.Context, o options) {
	f := newFile(o, kindWakeups)
	f.Wakeups = &wakeupsResult{}
	var own []string // names of the server's own threads
	for _, c := range []Contender{
		{Name: "without module", Host: hostPlain, Args: callSetLong, Verify: is("OK")},
		{Name: "with module", Host: hostMain, Args: lastingContenders[1].Args, Verify: isAllowed},
	} {
		watched := watch(ctx, o, c, &f)
		markModule(&watched, &own)
		f.Wakeups.Servers = append(f.Wakeups.Servers, watched)
	}
	publish(o, kindWakeups, f)
}

// markModule learns the names of the first server's threads, and marks in the next one
// those it has not seen. The main thread comes first and is never the module's.
func markModule(s *serverThreads, own *[]string) {
	learn := *own == nil
	for _, situation := range s.Situations {
		for i := 1; i < len(situation.Threads); i++ {
			t := &situation.Threads[i]
			if learn {
				*own = append(*own, t.Name)
			} else {
				t.OfModule = !slices.Contains(*own, t.Name)
			}
		}
	}
}

func watch(ctx context.Context, o options, c Contender, f *file) serverThreads {
	defer must.Name("%s", c.Name)
	l := lineup{options: o, keys: o.keys}
	defer l.close()
	l.assemble(ctx, []Contender{c})
	l.describe(ctx, f)
	e := l.entrants[0]
	watched := serverThreads{Name: c.Name}
	for _, s := range situations {
		loadCtx, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		if clients := e.host.connect(s.shape.clients); len(clients) > 0 {
			running.Go(func() { _, _ = load(loadCtx, clients, e.batches(o.calls, o.keys, s.shape.pipeline), true) }) // until it is stopped
		}
		pause(ctx, min(time.Second, o.seconds))
		calls, before := e.counters(ctx)
		started := time.Now()
		pause(ctx, o.seconds)
		seconds := time.Since(started).Seconds()
		callsAfter, after := e.counters(ctx)
		must.Do(e.verifySample(ctx, o.keys))
		watched.Situations = append(watched.Situations, threadSwitches{s.name, seconds, callsAfter - calls, threadRates(before, after, seconds)})
		if s.shape.clients == 0 {
			status := must.Get(must.Get(procfs.NewProc(e.host.PID())).NewStatus())
			watched.RSS, watched.RSSAnon, watched.RSSFile, watched.Threads = status.VmRSS, status.RssAnon, status.RssFile, len(after)
		} else if callsAfter == calls {
			must.Fail("%s: the load has ended too early", s.name)
		}
		stop()
		running.Wait()
		e.host.disconnect() // the load has ended its connections
	}
	return watched
}

// thread is what the kernel counts of one thread since it began.
type thread struct {
	ID                   int
	Name                 string
	Voluntary, Preempted uint64 // times it went to sleep, and so was woken; or did not
}

// counters are the calls so far, and the threads, of which the main one comes first.
func (e *entrant) counters(ctx context.Context) (calls int, threads []thread) {
	for _, t := range must.Get(procfs.AllThreads(e.host.PID())) {
		status, err := t.NewStatus()
		if err != nil {
			continue // ended meanwhile
		}
		place := len(threads)
		if t.PID == e.host.PID() {
			place = 0
		}
		threads = slices.Insert(threads, place, thread{t.PID, status.Name, status.VoluntaryCtxtSwitches, status.NonVoluntaryCtxtSwitches})
	}
	return must.Get(e.host.Fields(ctx).CommandStats(e.command())).Calls, threads
}

// threadRates turns two readings of the counters into rates. A thread that began in
// between counts from zero.
func threadRates(before, after []thread, seconds float64) (rates []threadRate) {
	first := map[int]thread{}
	for _, t := range before {
		first[t.ID] = t
	}
	for _, t := range after {
		rates = append(rates, threadRate{
			Name:               t.Name,
			VoluntaryPerSecond: float64(t.Voluntary-first[t.ID].Voluntary) / seconds,
			PreemptedPerSecond: float64(t.Preempted-first[t.ID].Preempted) / seconds,
		})
	}
	return rates
}

func wakeupTables(w wakeupsResult) []table.Writer {
	one := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	mib := func(bytes uint64) string { return one(float64(bytes) / (1 << 20)) }
	size := newTable("An idle server", 1, "", "threads", "RSS MiB", "anonymous", "of files")
	threads := newTable("Threads: how often each was woken, and preempted, a second", 3, "", "calls/s", "thread", "woken/s", "preempted/s")
	for _, s := range w.Servers {
		size.AppendRow(table.Row{s.Name, s.Threads, mib(s.RSS), mib(s.RSSAnon), mib(s.RSSFile)})
		for _, situation := range s.Situations {
			label := s.Name + ", " + situation.Situation
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
