package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"redis-throttle/bench/internal/must"
)

// options is what a run is asked to do.
type options struct {
	Server        string        `default:"redis-server" help:"Server to measure on: a path, or a name on PATH."`
	Module        string        `default:"build/throttle.so" type:"existingfile" help:"The module, as make build makes it."`
	Builds        []string      `name:"so" sep:"none" type:"existingfile" help:"Another build of the module, to compare this one with."`
	Servers       []string      `name:"beside-on" sep:"none" type:"existingfile" help:"A further server, on which calls beside another module are compared with those alone."`
	Peers         string        `env:"PEERS" help:"Further modules, each on a server of its own: \"path.so:COMMAND\", followed by the arguments of the call unless they are \"{key} {burst} {count} {period} {quantity}\"."`
	Contenders    string        `short:"c" help:"Take only contenders whose name matches this regular expression, what they are compared with, and SET PX."`
	Rounds        int           `short:"r" default:"${rounds}" help:"Rounds for execution times. In a round every contender has a slice."`
	LatencyRounds int           `default:"${latency_rounds}" help:"Rounds for latencies, whose slices take longer."`
	Floors        string        `env:"BENCH_BUILT" help:"Folder with floor.so and floor-go.so, as floors builds them; without one they are compiled."`
	Callers       int           `default:"100000" help:"callers: how many wait, or as many as the process may have files open."`
	Keys          int           `short:"k" default:"${keys}" help:"Keys that calls are spread over."`
	Calls         int           `short:"n" default:"${calls}" help:"Calls of a slice. Latency with many clients takes five times as many."`
	Settle        time.Duration `default:"${settle}" help:"How long servers are left alone at first. The module looks once a second whether anybody listens to its writes."`
	Watch         time.Duration `name:"seconds" default:"${seconds}" help:"wakeups, callers: how long each situation is watched."`
	MemoryKeys    int           `default:"${memory_keys}" help:"Keys whose memory is measured. Best a power of two."`
	Points        int           `default:"${points}" help:"curve: measure only so many points of each."`
	Out           string        `short:"o" default:"${out}" help:"Folder for results and charts."`
	Publish       bool          `xor:"preset" help:"Renew the tables and charts that the documentation shows, in bench/results."`
	Quick         bool          `xor:"preset" help:"A smoke test with few calls, whose figures mean nothing, in build/bench/quick."`

	Bench struct{} `cmd:"" default:"1" help:"Measure all contenders (this is the default)."`
	Curve struct {
		Names []string `arg:"" optional:"" help:"Which curves; by default all."`
	} `cmd:"" help:"Measure how figures change with scale: keys, clients, durability."`
	InLine  struct{} `cmd:"" name:"callers" help:"Measure callers that wait: the memory of each, and the slowest PING meanwhile."`
	Make    struct{} `cmd:"" name:"floors" help:"Build the floors into --floors."`
	Wakeups struct{} `cmd:"" help:"Watch what the module's threads do, idle and under load."`
	Count   struct{} `cmd:"" help:"Count the instructions and cache misses of each call, with valgrind."`

	command string // which of these was named
}

// The defaults of a run, and of a smoke test.
var (
	defaults      = kong.Vars{"rounds": "60", "latency_rounds": "10", "keys": "2000", "calls": "4000", "settle": "2s", "seconds": "10s", "memory_keys": "131072", "points": "100", "out": "build/bench"}
	quickDefaults = kong.Vars{"rounds": "2", "latency_rounds": "2", "keys": "1000", "calls": "1000", "settle": "0s", "seconds": "1s", "memory_keys": "2048", "points": "2", "out": "build/bench/quick"}
)

// parseOptions reads the command line, and ends the program when that asks for help.
func parseOptions(args []string) (o options) {
	vars := defaults.CloneWith(nil)
	if slices.Contains(args, "--quick") {
		vars = quickDefaults
	}
	parser := must.Get(kong.New(&o, kong.Name("throttle-bench"), kong.Description("Measures the module against its rivals, on real servers."), vars))
	o.command, _, _ = strings.Cut(must.Get(parser.Parse(args)).Command(), " ")
	if path, err := exec.LookPath(o.Server); err == nil {
		o.Server = must.Get(filepath.Abs(path))
	} else if o.command != "floors" {
		must.Fail("--server: %w", err)
	}
	for name, value := range map[string]int{
		"rounds": o.Rounds, "latency-rounds": o.LatencyRounds, "keys": o.Keys, "calls": o.Calls,
		"seconds": int(o.Watch), "memory-keys": o.MemoryKeys, "points": o.Points, "callers": o.Callers,
	} {
		if value < 1 {
			must.Fail("--%s must be at least 1", name)
		}
	}
	return o
}

// rounds says what the figures of a run are.
func (o options) rounds() string {
	return fmt.Sprintf("median (quartiles) of %d rounds of %d calls, %d for latencies", o.Rounds, o.Calls, o.LatencyRounds)
}

// chosen are the contenders that were asked for. The baseline is always among them, and
// what one of them is compared with.
func (o options) chosen() (list []contender) {
	pattern, err := regexp.Compile("(?i)" + o.Contenders)
	if err != nil {
		must.Fail("--contenders: %w", err)
	}
	all := append(withServers(withBuilds(contenders, o.Builds), o.Servers), must.Get(parsePeers(o.Peers))...)
	wanted := map[string]bool{}
	for _, c := range all {
		if pattern.MatchString(c.Name) || c.isBuild() && pattern.MatchString(c.Beside) {
			wanted[c.Name], wanted[c.Beside] = true, true
		}
	}
	if len(wanted) == 0 {
		must.Fail("no contender matches %q; their names are in contenders.yaml", o.Contenders)
	}
	for _, c := range all {
		if c.Counted && o.command != "count" {
			continue
		}
		if wanted[c.Name] || c.Name == baseline || c.Beside == baseline {
			list = append(list, c)
		}
	}
	return list
}
