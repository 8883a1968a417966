package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/pflag"

	"redis-throttle/bench/throttle-bench/internal/result"
	"redis-throttle/bench/throttle-bench/internal/server"
)

const usage = `Measures the module against its rivals, each on a real server under redis-benchmark's load.

  throttle-bench [flags]                one table of all contenders
  throttle-bench curve [NAME...]        how figures change with scale: %s
  throttle-bench wakeups                what the module's threads do, idle and under load
  throttle-bench --render FILE.json     tables and charts of an earlier run again

`

// options is what a run is asked to do.
type options struct {
	server     string
	module     string
	benchmark  string
	peers      string
	contenders string
	rounds     int
	keys       int
	slice      time.Duration
	requests   int
	seconds    time.Duration
	out        string
	quick      bool
	list       bool
	render     string

	subcommand string
	args       []string // of the subcommand

	stdout io.Writer // for results
	stderr *os.File  // for progress
}

// parseOptions reads the command line. It returns pflag.ErrHelp when help was asked for.
func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	f := pflag.NewFlagSet("throttle-bench", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&o.server, "server", "", "server to measure on: a path, or a name on PATH (default redis-server, or else valkey-server)")
	f.StringVar(&o.module, "module", "build/throttle.so", "the module")
	f.StringVar(&o.benchmark, "redis-benchmark", "", "load generator (default redis-benchmark, or else valkey-benchmark)")
	f.StringVar(&o.peers, "peers", os.Getenv("PEERS"), "further modules, each on a server of its own: \"path.so:COMMAND\", followed by the arguments of the call unless they are \""+peerTemplate+"\" (environment: PEERS)")
	f.StringVarP(&o.contenders, "contenders", "c", "", "take only contenders whose name matches this regular expression, and "+baseline)
	f.IntVarP(&o.rounds, "rounds", "r", 5, "rounds; the table shows their median and range")
	f.IntVarP(&o.keys, "keys", "k", 10_000, "keys that calls are spread over, for each contender")
	f.DurationVar(&o.slice, "slice", 400*time.Millisecond, "how long each slice is to take; a round has three a contender")
	f.IntVarP(&o.requests, "requests", "n", 0, "calls of each slice, instead of --slice")
	f.DurationVar(&o.seconds, "seconds", 10*time.Second, "wakeups: how long each situation is watched")
	f.StringVarP(&o.out, "out", "o", "bench/results", "folder for results and charts")
	f.BoolVar(&o.quick, "quick", false, "a smoke test: few calls, two rounds, figures without meaning, left in build/bench")
	f.BoolVar(&o.list, "list", false, "list the contenders and their calls, and run nothing")
	f.StringVar(&o.render, "render", "", "make tables and charts from this file of results")
	f.Usage = func() {
		fmt.Fprintf(stderr, usage, curveNames())
		fmt.Fprint(stderr, f.FlagUsages())
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		o.subcommand, o.args = f.Arg(0), f.Args()[1:]
	}
	if o.quick {
		o.makeQuick(f)
	}
	return o, o.check()
}

// makeQuick leaves alone what was asked for.
func (o *options) makeQuick(f *pflag.FlagSet) {
	for name, set := range map[string]func(){
		"rounds":   func() { o.rounds = 2 },
		"keys":     func() { o.keys = 1_000 },
		"requests": func() { o.requests = 1_000 },
		"seconds":  func() { o.seconds = time.Second },
		// Not beside results that mean something.
		"out": func() { o.out = "build/bench" },
	} {
		if !f.Changed(name) {
			set()
		}
	}
}

func (o options) check() error {
	switch {
	case o.rounds < 1:
		return errors.New("--rounds must be at least 1")
	case o.keys < 1:
		return errors.New("--keys must be at least 1")
	case o.slice <= 0:
		return errors.New("--slice must be positive")
	case o.requests < 0:
		return errors.New("--requests must not be negative")
	case o.seconds <= 0:
		return errors.New("--seconds must be positive")
	}
	if _, err := regexp.Compile(o.contenders); err != nil {
		return fmt.Errorf("--contenders: %w", err)
	}
	return nil
}

// findPrograms turns what was given or left out into paths.
func (o *options) findPrograms() (err error) {
	if o.server, err = findOr(o.server, "redis-server", "valkey-server"); err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	if o.benchmark, err = findOr(o.benchmark, "redis-benchmark", "valkey-benchmark"); err != nil {
		return fmt.Errorf("--redis-benchmark: %w", err)
	}
	if o.module, err = filepath.Abs(o.module); err != nil {
		return err
	}
	if _, err := os.Stat(o.module); err != nil {
		return fmt.Errorf("--module: %w; make build makes it", err)
	}
	return nil
}

func findOr(given string, defaults ...string) (string, error) {
	if given != "" {
		return server.Find(given)
	}
	return server.Find(defaults...)
}

// settings is what the results keep of the options.
func (o options) settings() result.Settings {
	s := result.Settings{Rounds: o.rounds, Keys: o.keys, Pipeline: pipelineDepth}
	if o.requests > 0 {
		s.Requests = o.requests
	} else {
		s.Slice = o.slice.Seconds()
	}
	return s
}

// chosen are the contenders that were asked for. The baseline is always among them.
func (o options) chosen(all []Contender) ([]Contender, error) {
	pattern, err := regexp.Compile("(?i)" + o.contenders)
	if err != nil {
		return nil, err
	}
	var chosen []Contender
	matches := 0
	for _, c := range all {
		match := pattern.MatchString(c.Name)
		if match {
			matches++
		}
		if match || c.Name == baseline {
			chosen = append(chosen, c)
		}
	}
	if matches == 0 {
		return nil, fmt.Errorf("no contender matches %q; --list names them", o.contenders)
	}
	return chosen, nil
}
