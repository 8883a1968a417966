package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/pflag"

	"redis-throttle/bench/internal/must"
)

const usage = `Measures the module against its rivals, each on a real server.

  throttle-bench [flags]                one table of all contenders
  throttle-bench curve [NAME...]        how figures change with scale: %s
  throttle-bench wakeups                what the module's threads do, idle and under load
  throttle-bench --render FILE.json     tables and charts of an earlier run again

%s`

// options is what a run is asked to do.
type options struct {
	server, module, peers, contenders string
	builds                            []string
	rounds, latencyRounds             int
	keys, calls                       int
	settle, seconds                   time.Duration
	out, render                       string
	publish, quick, list              bool

	subcommand string
	args       []string // of the subcommand
}

// Results that the documentation shows, and those of a smoke test.
const (
	publishedFolder = "bench/results"
	quickFolder     = "build/bench/quick"
)

// parseOptions reads the command line. It fails with pflag.ErrHelp when help was asked for.
func parseOptions(args []string) (o options) {
	f := pflag.NewFlagSet("throttle-bench", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&o.server, "server", "redis-server", "server to measure on: a path, or a name on PATH")
	f.StringVar(&o.module, "module", "build/throttle.so", "the module")
	f.StringArrayVar(&o.builds, "so", nil, "another build of the module, whose figures this one's are set beside")
	f.StringVar(&o.peers, "peers", os.Getenv("PEERS"), "further modules, each on a server of its own: \"path.so:COMMAND\", followed by the arguments of the call unless they are \""+peerTemplate+"\" (environment: PEERS)")
	f.StringVarP(&o.contenders, "contenders", "c", "", "take only contenders whose name matches this regular expression, what they are set beside, and "+baseline)
	f.IntVarP(&o.rounds, "rounds", "r", 60, "rounds for execution times; in a round every contender has a slice")
	f.IntVar(&o.latencyRounds, "latency-rounds", 10, "rounds for latencies, whose slices take longer")
	f.IntVarP(&o.keys, "keys", "k", 2000, "keys that calls are spread over")
	f.IntVarP(&o.calls, "calls", "n", 4000, "calls of a slice; five times as many for the latency of many clients")
	f.DurationVar(&o.settle, "settle", 2*time.Second, "how long servers are left alone at first: the module looks once a second whether anybody listens to its writes")
	f.DurationVar(&o.seconds, "seconds", 10*time.Second, "wakeups: how long each situation is watched")
	f.StringVarP(&o.out, "out", "o", "build/bench", "folder for results and charts")
	f.BoolVar(&o.publish, "publish", false, "renew the results that the documentation shows, in "+publishedFolder)
	f.BoolVar(&o.quick, "quick", false, "a smoke test: few calls, two rounds, figures without meaning, in "+quickFolder)
	f.BoolVar(&o.list, "list", false, "list the contenders and their calls, and run nothing")
	f.StringVar(&o.render, "render", "", "make tables and charts from this file of results")
	f.Usage = func() { fmt.Fprintf(os.Stderr, usage, curveNames(), f.FlagUsages()) }
	must.Do(f.Parse(args))
	if f.NArg() > 0 {
		o.subcommand, o.args = f.Arg(0), f.Args()[1:]
	}
	preset := map[string]string{}
	switch {
	case o.quick && o.publish:
		must.Fail("--quick makes nothing to --publish")
	case o.publish:
		preset["out"] = publishedFolder
	case o.quick:
		preset = map[string]string{"rounds": "2", "latency-rounds": "2", "keys": "1000", "calls": "1000", "settle": "0s", "seconds": "1s", "out": quickFolder}
	}
	for name, value := range preset {
		if !f.Changed(name) { // what was asked for stays
			must.Do(f.Set(name, value))
		}
	}
	for name, value := range map[string]int{"rounds": o.rounds, "latency-rounds": o.latencyRounds, "keys": o.keys, "calls": o.calls, "seconds": int(o.seconds)} {
		if value < 1 {
			must.Fail("--%s must be at least 1", name)
		}
	}
	return o
}

// findFiles turns names into paths.
func (o *options) findFiles() {
	path, err := exec.LookPath(o.server)
	if err != nil {
		must.Fail("--server: %w", err)
	}
	o.server = must.Get(filepath.Abs(path))
	if o.module, err = findFile(o.module); err != nil {
		must.Fail("--module: %w; make build makes it", err)
	}
}

// findFile returns the path of a file that is there.
func findFile(name string) (string, error) {
	if _, err := os.Stat(name); err != nil {
		return "", err
	}
	return filepath.Abs(name)
}

// chosen are the contenders that were asked for. The baseline is always among them, and
// what one of them is set beside.
func (o options) chosen() (list []Contender) {
	pattern, err := regexp.Compile("(?i)" + o.contenders)
	if err != nil {
		must.Fail("--contenders: %w", err)
	}
	all := append(withBuilds(contenders, o.builds), must.Get(parsePeers(o.peers))...)
	wanted := map[string]bool{}
	for _, c := range all {
		if pattern.MatchString(c.Name) || c.Group == groupBuild && pattern.MatchString(c.Beside) {
			wanted[c.Name], wanted[c.Beside] = true, true
		}
	}
	if len(wanted) == 0 {
		must.Fail("no contender matches %q; --list names them", o.contenders)
	}
	for _, c := range all {
		if wanted[c.Name] || c.Name == baseline || c.Beside == baseline {
			list = append(list, c)
		}
	}
	return list
}
