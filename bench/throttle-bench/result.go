package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/prometheus/procfs"

	"redis-throttle/bench/internal/must"
)

// results is what a run leaves behind: every round's figures, and what they are of.
type results struct {
	About      []string                   `json:"about"` // server, module, machine, day, rounds; names no machine and no path
	Contenders []contender                `json:"contenders,omitempty"`
	Notes      []string                   `json:"notes,omitempty"` // what was not measured
	Curve      *curve                     `json:"curve,omitempty"`
	Queues     []*queue                   `json:"queues,omitempty"`
	Wakeups    map[string][]serverThreads `json:"wakeups,omitempty"`
}

// metric names a measured quantity, with its unit. A prefix says with how many clients that
// do not pipeline; without it, the calls were pipelined.
type metric string

// What is measured, for each call unless it says otherwise. Execution time is the
// server's own reckoning, INFO commandstats; processor time is that of the whole server
// process, all threads; latencies are what the client saw.
const (
	metricExec         metric = "exec_us"
	metricCPU          metric = "cpu_us"
	metricRate         metric = "calls_per_s"
	metricP50          metric = "p50_us"
	metricP95          metric = "p95_us"
	metricP99          metric = "p99_us"
	metricP999         metric = "p99.9_us"
	metricBytesOneCall metric = "bytes_per_key_1_call"
	metricBytesHundred metric = "bytes_per_key_100_calls"
)

// title is what people call it.
func (m metric) title() string {
	switch m {
	case metricExec:
		return "execution us"
	case metricCPU:
		return "server cpu us"
	case metricRate:
		return "calls/s"
	}
	return strings.TrimSuffix(string(m), "_us") + " us"
}

// samplesOf are the figures of the contender of a name, none where there is no such.
func samplesOf(list []contender, name string) map[metric][]float64 {
	if i := slices.IndexFunc(list, func(c contender) bool { return c.Name == name }); i >= 0 {
		return list[i].Samples
	}
	return nil
}

// summary is the median of repeated measurements, and the range of the middle half.
type summary struct{ median, low, high float64 }

// summarize returns NaNs for no samples.
func summarize(samples []float64) summary {
	if len(samples) == 0 {
		return summary{math.NaN(), math.NaN(), math.NaN()}
	}
	s := slices.Sorted(slices.Values(samples))
	return summary{(s[(len(s)-1)/2] + s[len(s)/2]) / 2, percentile(s, 25), percentile(s, 75)}
}

// ratios divides round by round: what slowed down a whole round cancels.
func ratios(samples, base []float64) []float64 {
	r := make([]float64, min(len(samples), len(base)))
	for i := range r {
		r[i] = samples[i] / base[i]
	}
	return r
}

// percentile is the smallest of the sorted samples that p percent of them do not
// exceed (nearest rank). p is above 0 and at most 100; there is at least one sample.
func percentile(sorted []float64, p float64) float64 {
	// The tolerance keeps 99.9 % of 1000 at rank 999 though 99.9/100 is no binary fraction.
	rank := math.Ceil(p/100*float64(len(sorted)) - 1e-9)
	return sorted[int(max(rank, 1))-1]
}

// readyLine is what the module logs when it is loaded.
var readyLine = regexp.MustCompile(`<throttle> (throttle .*\)) ready`)

// about says what was measured, and where and when.
func (l *lineup) about(ctx context.Context) []string {
	main, module := l.hosts[hostMain], "unknown module"
	if m := readyLine.FindStringSubmatch(main.Log()); m != nil {
		module = m[1]
	}
	cpus := must.Get(must.Get(procfs.NewDefaultFS()).CPUInfo())
	kernel := strings.TrimSpace(string(must.Get(os.ReadFile("/proc/sys/kernel/osrelease"))))
	machine := fmt.Sprintf("%s, %d cores, caches %s, Linux %s", cmp.Or(cpus[0].ModelName, runtime.GOARCH), runtime.NumCPU(), caches("/sys/devices/system/cpu/cpu0/cache"), kernel)
	loads := fmt.Sprintf("load %s, at the end %s", l.load, machineLoad())
	return []string{main.Fields(ctx).Version(), module, machine, loads, time.Now().UTC().Format(time.DateOnly)}
}

// caches lists those of a processor, as the kernel knows them.
func caches(dir string) string {
	var all []string
	for _, index := range must.Get(filepath.Glob(filepath.Join(dir, "index*"))) {
		of := func(name string) string {
			text, _ := os.ReadFile(filepath.Join(index, name)) // virtual machines may lack some
			return strings.TrimSpace(string(text))
		}
		kind := map[string]string{"Data": "d", "Instruction": "i"}[of("type")]
		all = append(all, fmt.Sprintf("L%s%s %s", of("level"), kind, of("size")))
	}
	return cmp.Or(strings.Join(all, ", "), "unknown")
}

// machineLoad is how many threads of the machine ran or could have run, on average of the last minute.
func machineLoad() string {
	one, _, _ := strings.Cut(string(must.Get(os.ReadFile("/proc/loadavg"))), " ")
	return one
}

// publish prints a run's tables, and saves them as NAME.txt and the figures as NAME.json.
func (o options) publish(name string, r results, tables ...table.Writer) {
	must.Do(os.MkdirAll(o.Out, 0o755))
	figures := must.Get(json.MarshalIndent(r, "", "  "))
	must.Do(os.WriteFile(filepath.Join(o.Out, name+".json"), append(figures, '\n'), 0o644))
	var text bytes.Buffer
	writeTables(&text, r, tables, "; ", table.Writer.RenderMarkdown)
	must.Do(os.WriteFile(filepath.Join(o.Out, name+".txt"), text.Bytes(), 0o644))
	writeTables(os.Stdout, r, tables, "\n", table.Writer.Render)
	fmt.Println("\n" + filepath.Join(o.Out, name+".*"))
}
