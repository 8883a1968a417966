package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"redis-throttle/bench/internal/must"
)

// What valgrind counts for each call, in the whole server, whosever code it is. A miss of the first cache fetches a
// line of 64 bytes: I1 of code, D1 of data.
const (
	metricInstructions metric = "instructions"
	metricI1           metric = "i1_misses"
	metricD1           metric = "d1_misses"
)

// The keys of a count are so few that their values stay in the cache: what is counted is the code and its own data.
const countedKeys = 8

// Both first caches are those of most processors. The second, which is not shown, is given so that the machine's own
// does not matter. A server may be started by a script, which becomes the server.
var cachegrind = []string{"--tool=cachegrind", "--trace-children=yes", "--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"}

// count runs the contenders under valgrind and counts what each call executes and touches. The figures say nothing
// about time, but differ by some percent only between two runs and between machines that have the same server.
func count(ctx context.Context, o options) {
	if _, err := exec.LookPath("valgrind"); err != nil {
		must.Fail("%w: it counts; Debian's package valgrind has it", err)
	}
	l := lineup{options: o, keys: countedKeys}
	defer l.close()
	l.assemble(ctx, o.chosen())
	for i, e := range l.entrants {
		fmt.Fprintf(os.Stderr, "count: %d of %d, %s\n", i+1, len(l.entrants), e.Name)
		// The first calls of a key do more.
		few := 10 * countedKeys
		without, with := l.countRun(ctx, e, few), l.countRun(ctx, e, few+o.Calls)
		for m := range with {
			with[m] = (with[m] - without[m]) / float64(o.Calls)
		}
		if with[metricInstructions] < 1 {
			must.Fail("%s: valgrind counted no instructions of its calls", e.Name)
		}
		e.record("", with)
	}
	list := l.contenders()
	about := append(l.about(ctx), fmt.Sprintf("%d calls on %d keys", o.Calls, countedKeys))
	o.publish("count", results{About: about, Contenders: list, Notes: l.skipped}, countTable(list))
}

// countRun counts what a server does from its start to its end, with calls calls of a contender.
func (l *lineup) countRun(ctx context.Context, of *entrant, calls int) map[metric]float64 {
	defer must.Name("%s", of.Name)
	dir := must.Get(os.MkdirTemp("", "throttle-bench-"))
	defer os.RemoveAll(dir)
	counts := filepath.Join(dir, "counts")
	run := lineup{options: l.options, hosts: map[string]*host{}}
	run.options.Server = valgrindServer(dir, l.options.Server, counts)
	func() {
		defer run.close()
		run.enter(ctx, of.contender, of.prefix, "--hz", "1")
		e := run.entrants[0]
		e.each(ctx, e.keys(l.keys), e.Setup...)
		_, _, err := load(ctx, e.host.connect(1), e.randomCalls(calls, e.keys(l.keys), pipelineDepth), e.replies()...)
		must.Do(err)
		_ = e.host.ShutdownNoSave(ctx).Err() // ends at once, where a signal waits for the server's next second
	}()
	return readCounts(counts)
}

// valgrindServer writes a program that starts the server under valgrind, and leaves the counts in a file.
func valgrindServer(dir, server, counts string) string {
	path := filepath.Join(dir, "server")
	command := "exec valgrind " + strings.Join(cachegrind, " ") + " --cachegrind-out-file=" + counts + " " + server + ` "$@"`
	must.Do(os.WriteFile(path, []byte("#!/bin/sh\n"+command+"\n"), 0o755))
	return path
}

var (
	eventsLine = regexp.MustCompile(`(?m)^events: (.*)$`)
	totalsLine = regexp.MustCompile(`(?m)^summary: (.*)$`)
)

// readCounts reads the totals of a file that valgrind wrote.
func readCounts(path string) map[metric]float64 {
	text := string(must.Get(os.ReadFile(path)))
	names, totals := eventsLine.FindStringSubmatch(text), totalsLine.FindStringSubmatch(text)
	if names == nil || totals == nil {
		must.Fail("%s has no events or no totals", filepath.Base(path))
	}
	events := map[string]float64{}
	numbers := strings.Fields(totals[1])
	for i, name := range strings.Fields(names[1]) {
		if i >= len(numbers) {
			must.Fail("%s has no total of %s", filepath.Base(path), name)
		}
		events[name] = must.Get(strconv.ParseFloat(numbers[i], 64))
	}
	return map[metric]float64{metricInstructions: events["Ir"], metricI1: events["I1mr"], metricD1: events["D1mr"] + events["D1mw"]}
}

// whole shows a count with all its digits: they are not noise.
func whole(samples, _ []float64) string {
	return message.NewPrinter(language.English).Sprintf("%.0f", summarize(samples).median)
}

func countTable(list []contender) table.Writer {
	return sectionTable(section{"The whole server, for each call: instructions, and misses of first caches of 32 KB", []column{
		{"instructions", metricInstructions, []cell{whole, ratio}},
		{"I1 misses", metricI1, []cell{whole}},
		{"D1 misses", metricD1, []cell{whole}},
	}}, list)
}
