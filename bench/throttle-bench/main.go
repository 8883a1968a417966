// Throttle-bench measures the module against its rivals: every figure beside the others'
// in one run, on real servers.
//
//	make bench
//	build/throttle-bench --help
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/pflag"

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
	case errors.Is(err, pflag.ErrHelp):
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\nthrottle-bench: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "throttle-bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	defer must.Catch(&err)
	o := parseOptions(args)
	if o.render != "" {
		renderFile(os.Stdout, o.render)
		return nil
	}
	list := o.chosen()
	if o.list {
		t := newTable("", 3, "contender", "group", "call")
		for _, c := range list {
			t.AppendRow(table.Row{c.Name, c.Group, c.Args})
		}
		fmt.Println(t.Render())
		return nil
	}
	o.findFiles()
	switch o.subcommand {
	case "":
		bench(ctx, o, list)
	case "curve":
		curves(ctx, o)
	case "wakeups":
		wakeups(ctx, o)
	default:
		must.Fail("there is no %q; --help says what there is", o.subcommand)
	}
	return nil
}

// bench measures all contenders.
func bench(ctx context.Context, o options, list []Contender) {
	f := newFile(o, kindBench)
	l := lineup{options: o, keys: o.keys}
	defer l.close()
	l.assemble(ctx, list)
	l.measure(ctx, pipelined, unpipelined(1), unpipelined(50))
	l.memory(ctx)
	l.describe(ctx, &f)
	f.Contenders, f.Notes = l.results(), l.skipped
	publish(o, kindBench, f)
}
