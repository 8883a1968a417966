// Throttle-bench measures the module against its rivals: every figure beside the others'
// in one run, on real servers.
//
//	make bench
//	build/throttle-bench --help
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"redis-throttle/bench/internal/must"
)

func main() {
	// Servers are stopped on the way out, so a signal must not end the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// The server has the other processors for itself.
	runtime.GOMAXPROCS(1)
	err := run(ctx, os.Args[1:])
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "throttle-bench: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "throttle-bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	defer must.Catch(&err)
	o := parseOptions(args)
	switch o.command {
	case "bench":
		bench(ctx, o)
	case "curve":
		curves(ctx, o)
	case "wakeups":
		wakeups(ctx, o)
	case "callers":
		callers(ctx, o)
	case "floors":
		floors(ctx, o.Floors)
	case "count":
		count(ctx, o)
	}
	if o.Publish {
		publishShown(o.Out, "bench/results")
	}
	return nil
}

// shown are the files of a run that the documentation shows: the tables and two charts. The figures behind them stay in
// the folder of the run.
var shown = []string{"*.txt", "bench-headline*.svg", "bench-execution*.svg"}

// publishShown copies them.
func publishShown(from, to string) {
	for _, pattern := range shown {
		for _, path := range must.Get(filepath.Glob(filepath.Join(from, pattern))) {
			must.Do(os.WriteFile(filepath.Join(to, filepath.Base(path)), must.Get(os.ReadFile(path)), 0o644))
		}
	}
}

// bench measures all contenders.
func bench(ctx context.Context, o options) {
	l := lineup{options: o, keys: o.Keys}
	defer l.close()
	l.assemble(ctx, o.chosen())
	l.measure(ctx, o.pipelined(), o.latency(1), o.latency(50))
	l.memory(ctx)
	list := l.contenders()
	about := append(l.about(ctx), o.rounds())
	o.publish("bench", results{About: about, Contenders: list, Notes: l.skipped}, benchTables(list)...)
	drawBench(o.Out, about[0], list)
}
