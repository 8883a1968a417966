// Throttle-bench measures the module against its rivals: every figure beside the others'
// in one run, on real servers, under the load of redis-benchmark.
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
	"syscall"

	"github.com/spf13/pflag"
)

func main() {
	// Servers are stopped on the way out, so a signal must not end the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
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

func run(ctx context.Context, args []string, stdout, stderr *os.File) error {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	o.stdout, o.stderr = stdout, stderr
	if o.render != "" {
		return renderFile(o, o.render)
	}
	peers, err := parsePeers(o.peers)
	if err != nil {
		return err
	}
	list, err := o.chosen(append(contenders, peers...))
	if err != nil {
		return err
	}
	if o.list {
		return listContenders(o, list)
	}
	if err := o.findPrograms(); err != nil {
		return err
	}
	switch o.subcommand {
	case "":
		return bench(ctx, o, list)
	case "curve":
		return curves(ctx, o)
	case "wakeups":
		return wakeups(ctx, o)
	}
	return fmt.Errorf("there is no %q; --help says what there is", o.subcommand)
}
