// Throttle-picture draws docs/images/limiters.svg: the same traffic through every kind of
// limit, as a real server answered it.
//
//	make build
//	go run ./bench/throttle-picture --server "$(scripts/find-server)"
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/server"
)

func main() {
	// The server is stopped on the way out, so a signal must not end the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "throttle-picture:", err)
		os.Exit(1)
	}
}

type options struct {
	server string
	module string
	out    string
	minute time.Duration
}

const (
	shortestMinute = time.Second // leaves a request 6 ms to be late
	attempts       = 10
)

func run(ctx context.Context, args []string) (err error) {
	defer must.Catch(&err)
	var o options
	flags := pflag.NewFlagSet("throttle-picture", pflag.ContinueOnError)
	flags.StringVar(&o.server, "server", "redis-server", "server to ask, a path or a program on PATH")
	flags.StringVar(&o.module, "module", "build/throttle.so", "module to load")
	flags.StringVar(&o.out, "out", "docs/images/limiters.svg", "file to write")
	flags.DurationVar(&o.minute, "minute", 6*time.Second, "how long a minute of the picture takes; longer where the machine is busy")
	must.Do(flags.Parse(args))
	if flags.NArg() > 0 {
		must.Fail("unexpected argument %q", flags.Arg(0))
	}
	if o.minute < shortestMinute || o.minute%time.Millisecond != 0 {
		must.Fail("--minute must be whole milliseconds, at least %v", shortestMinute)
	}
	if o.server, err = exec.LookPath(o.server); err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	o.server = must.Get(filepath.Abs(o.server))
	o.module = must.Get(filepath.Abs(o.module))
	results, err := ask(ctx, o)
	for attempt := 1; errors.Is(err, errLate) && attempt < attempts; attempt++ {
		o.minute = slower(o.minute)
		fmt.Fprintf(os.Stderr, "throttle-picture: %v; once more, a minute in %v\n", err, o.minute)
		results, err = ask(ctx, o)
	}
	must.Do(err)
	for _, r := range results {
		fmt.Printf("%-31s admitted %2d of %d, %d in the fullest minute\n",
			r.limiter.words, len(r.admitted()), len(r.requests), r.fullestMinute())
	}
	picture(o.out, results)
	return nil
}

// ask has a server of its own answer the traffic.
func ask(ctx context.Context, o options) ([]result, error) {
	s := server.Start(ctx, server.Spec{Program: o.server, Modules: [][]string{{o.module}}})
	defer s.Close()
	return play(ctx, s.Client, limiters, traffic(), o.minute)
}

// slower is half as long again as a minute took, up to a real minute.
func slower(took time.Duration) time.Duration {
	return max(took, min(took*3/2, time.Minute)).Round(time.Millisecond)
}
