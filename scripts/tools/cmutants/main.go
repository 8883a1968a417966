// cmutants breaks the C of the bridge in places drawn at random, one at a time, and checks that a test against a server
// fails:
//
//	cmutants [-seed n] [-n count] [-from i] [-only file:line] LIST SOURCE OUT TESTS...
//
// SOURCE is a copy of what the module is built from, which it changes. TESTS are the compiled packages of tests; they
// run in the current folder, one after the other. LIST has the mutants that do the same as the code (package
// mutantlist); they are not run. The modules and the output of the tests go to OUT.
//
// It fails if a mutant survives, if a line of LIST names no mutant, and if there is nothing to try.
package main

import (
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"modernc.org/cc/v4"

	"redis-throttle/scripts/tools/mutation"
)

// nearest are the tests that are most likely to find a change of a file. They run first; the others run only if none of
// them fails.
var nearest = map[string]string{
	"module/alarm.c":      `Step|Clock|Overdue|Timeout|Wait|Lines`,
	"module/api.c":        `Loading|Load|Module|Limit`,
	"module/api.h":        `Loading|Load|Module|Limit`,
	"module/apply.c":      `Transcripts|Replicat|Keyspace|Trace|Touches|Limit|Nested|Event|Expir|Carr`,
	"module/call.h":       `Limit|Lease|Nested|Admission|Document|KeyOf|Line`,
	"module/clock.c":      `Step|Clock|Timeout|Wait|Line`,
	"module/cold.c":       `Replicat|Trace|Touches|Errors|OOM|Maxmemory|Expir|Carr`,
	"module/command.c":    `Multi|Script|Lua|Nested|MLimit|Routed|KeyOf|Bad|Errors|InfoCounts|ACL`,
	"module/commands.c":   `Categor|Document|Flags|ACL|Busy|Loading|Administrators`,
	"module/config.c":     `Configuration|Config|Top|LoadArguments`,
	"module/crash.c":      `Crash|Inside|Watchdog|Unload|Threads`,
	"module/events.c":     `Replica|Promoted|Step|BGSAVE|Listen`,
	"module/fork.c":       `ForkedChild`,
	"module/gather.c":     `Transcripts|Nested|Arguments|Words|MLimit|TAT|Virtual|Throttle`,
	"module/info.h":       `EachKey|KeyOf|Document|ACL|Flags|Routed`,
	"module/line.c":       `Transcripts|Lease|Line|Turn|Window|Lapse|Wait|Caller|Leave|Order|Pause|Slots|Wakes|Crowd`,
	"module/listeners.c":  `Replica|AppendOnly|Missed|Listen|Promoted|BGSAVE|Effects`,
	"module/load.c":       `Load|Unload|Module|Watch|Second|Panic`,
	"module/open.h":       `Transcripts|Throttle|Limit|Nested|Expir|Neighbour`,
	"module/path.h":       `Transcripts|Replicat|Keyspace|Throttle|Limit|Nested|Expir|Info|Errors|TAT|Words`,
	"module/unload.c":     `Unload|NoConnectionKeeps`,
	"module/log.c":        `Log|Panic|Load|Unload`,
	"module/members.c":    `Transcripts|Lease|Line|Lapse`,
	"module/memory.c":     `Maxmemory|Memory|Grow`,
	"module/neighbours.c": `Neighbour|Nested|Adds|Undisturbed|Carr`,
	"module/obstacle.c":   `Pause|Refused|Memory|Slot|Node|ZADD|Line`,
	"module/reply.c":      `Transcripts|Answer|Protocols|Repl|Top|Lease|Compact`,
	"module/stats.c":      `Info|Counter|Counted|Crash`,
	"module/timerslack.c": `Inside|Timers|Sleep`,
	"module/waiting.c":    `Waiting|Wait|Line|Lease|Full|Maxmemory`,
	"module/zones.c":      `Zone|Folder`,
}

func main() {
	flags, b := mutation.Parse()
	m := modules{source: b.Source, module: filepath.Join(b.Out, "throttle.so"), check: filepath.Join(b.Out, "throttle-check.so")}
	b.Env = []string{"THROTTLE_SO=" + m.module, "THROTTLE_CHECK_SO=" + m.check}
	b.Built, b.Build = []string{m.module, m.check}, m.build
	b.Stages = func(file string) []mutation.Stage {
		first := nearest[file]
		if first == "" {
			first = "."
		}
		return []mutation.Stage{{Run: first, Timeout: "4m"}, {Skip: first, Timeout: "10m"}}
	}
	all, err := findAll(b.Source, b.Out)
	if err != nil {
		log.Fatal(err)
	}
	b.Run(flags, all)
}

// modules are those that the tests load.
type modules struct{ source, module, check string }

// build makes both modules, as make build and make build-check do; a warning is an error. Go compiles anew only what
// changed.
func (m modules) build() ([]byte, error) {
	for _, flags := range [][]string{
		{"-ldflags", "-s -w", "-o", m.module},
		{"-tags", "faultinject", "-o", m.check},
	} {
		build := exec.Command("go", append([]string{"build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false"}, append(flags, "./throttle")...)...)
		build.Dir = filepath.Join(m.source, "module")
		build.Env = append(os.Environ(), "GOWORK=off", "CGO_CFLAGS=-O2 -Werror")
		if flags[0] == "-tags" {
			build.Env = append(build.Env, "GOEXPERIMENT=cgocheck2")
		}
		if output, err := build.CombinedOutput(); err != nil {
			return output, err
		}
	}
	for _, path := range []string{m.module, m.check} {
		if err := os.Chmod(path, 0o755); err != nil { // the server insists
			return nil, err
		}
	}
	return nil, nil
}

// findAll returns the mutants of all files of the module, in order.
func findAll(source, out string) (all []mutation.Mutant, err error) {
	config, err := cc.NewConfig("", "")
	if err != nil {
		return nil, err
	}
	// cgo writes this file with the declarations of what Go exports, of which the C is not told here.
	exports := filepath.Join(out, "include")
	if err := os.MkdirAll(exports, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(exports, "_cgo_export.h"), nil, 0o644); err != nil {
		return nil, err
	}
	config.IncludePaths = append(config.IncludePaths, "", filepath.Join(source, "module"), exports)
	paths, err := files(source)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		found, err := find(config, source, strings.TrimPrefix(path, source+"/"))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// files are the files of the module that hold C to mutate. Headers have what is inlined.
func files(root string) (paths []string, err error) {
	for _, pattern := range []string{"*.c", "*.h"} {
		found, err := filepath.Glob(filepath.Join(root, "module", pattern))
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	return paths, nil
}
