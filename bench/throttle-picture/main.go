// Throttle-picture draws docs/images/limiters.svg: the same traffic through every kind of
// limit, as a real server answered it. Beside it, it draws gateway.svg.
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

	"github.com/alecthomas/kong"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/server"
)

func main() {
	// The server is stopped on the way out, so a signal must not end the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "throttle-picture:", err)
		os.Exit(1)
	}
}

type options struct {
	Server string        `default:"redis-server" help:"Server to ask: a path, or a program on PATH."`
	Module string        `default:"build/throttle.so" type:"existingfile" help:"Module to load."`
	Out    string        `default:"docs/images/limiters.svg" help:"File to write."`
	Minute time.Duration `default:"6s" help:"How long a minute of the picture takes. Longer where the machine is busy."`
}

const (
	shortestMinute = time.Second // leaves a request 6 ms to be late
	attempts       = 10
)

func run(ctx context.Context, args []string) (err error) {
	defer must.Catch(&err)
	var o options
	must.Get(must.Get(kong.New(&o, kong.Name("throttle-picture"))).Parse(args))
	if o.Minute < shortestMinute || o.Minute%time.Millisecond != 0 {
		must.Fail("--minute must be whole milliseconds, at least %v", shortestMinute)
	}
	if o.Server, err = exec.LookPath(o.Server); err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	o.Server = must.Get(filepath.Abs(o.Server))
	results, err := ask(ctx, o)
	for attempt := 1; errors.Is(err, errLate) && attempt < attempts; attempt++ {
		o.Minute = slower(o.Minute)
		fmt.Fprintf(os.Stderr, "throttle-picture: %v; once more, a minute in %v\n", err, o.Minute)
		results, err = ask(ctx, o)
	}
	must.Do(err)
	for _, r := range results {
		fmt.Printf("%-31s admitted %2d of %d, %d in the fullest minute\n",
			r.limiter.words, len(r.admitted()), len(r.requests), r.fullestMinute())
	}
	picture(o.Out, results)
	gatewayPicture(filepath.Join(filepath.Dir(o.Out), "gateway.svg"))
	return nil
}

// ask has a server of its own answer the traffic.
func ask(ctx context.Context, o options) ([]result, error) {
	s := server.Start(ctx, o.Server, "--loadmodule", o.Module)
	defer s.Close()
	return play(ctx, s.Client, limiters, traffic(), o.Minute)
}

// slower is half as long again as a minute took, up to a real minute.
func slower(took time.Duration) time.Duration {
	return max(took, min(took*3/2, time.Minute)).Round(time.Millisecond)
}
