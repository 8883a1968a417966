package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

const (
	kindBench   = "bench"
	kindCurve   = "curve"
	kindWakeups = "wakeups"
)

// file is what a run leaves behind: every round's figures, so that tables and charts can
// be made from it again.
type file struct {
	Kind        string    `json:"kind"`
	Started     time.Time `json:"started"`
	Environment struct {
		Server string `json:"server"` // name and version
		Module string `json:"module"` // version, commit and Go version, as the module says
		CPU    string `json:"cpu"`
		Cores  int    `json:"cores"`
		Kernel string `json:"kernel"`
		Go     string `json:"go"` // of the program that measured
	} `json:"environment"`
	Settings struct {
		Rounds        int `json:"rounds"`
		LatencyRounds int `json:"latency_rounds"`
		Keys          int `json:"keys"`
		Calls         int `json:"calls"`
		Pipeline      int `json:"pipeline"`
	} `json:"settings"`
	Contenders []contenderResult `json:"contenders,omitempty"`
	Notes      []string          `json:"notes,omitempty"`
	Curve      *curveResult      `json:"curve,omitempty"`
	Wakeups    *wakeupsResult    `json:"wakeups,omitempty"`
}

// contenderResult is what was measured of one of them.
type contenderResult struct {
	Name    string               `json:"name"`
	Group   string               `json:"group"`
	Command string               `json:"command"`
	Beside  string               `json:"beside,omitempty"`
	Samples map[metric][]float64 `json:"samples"` // one a round
}

// metric names a measured quantity, with its unit.
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

// with is the metric as it is with so many clients that do not pipeline. Without it, the
// calls were pipelined.
func (m metric) with(clients int) metric {
	return metric(fmt.Sprintf("clients_%d_%s", clients, m))
}

// add appends a round's figure, with four decimals: more are noise.
func (c *contenderResult) add(m metric, value float64) {
	if c.Samples == nil {
		c.Samples = map[metric][]float64{}
	}
	c.Samples[m] = append(c.Samples[m], math.Round(value*1e4)/1e4)
}

// samplesOf are the figures of the contender of a name, none where there is no such.
func samplesOf(list []contenderResult, name string) map[metric][]float64 {
	if i := slices.IndexFunc(list, func(c contenderResult) bool { return c.Name == name }); i >= 0 {
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

// newFile begins a run's results. They name no machine and no path.
func newFile(o options, kind string) file {
	f := file{Kind: kind, Started: time.Now().UTC().Truncate(time.Second)}
	f.Settings.Rounds, f.Settings.LatencyRounds = o.rounds, o.latencyRounds
	f.Settings.Keys, f.Settings.Calls, f.Settings.Pipeline = o.keys, o.calls, pipelineDepth
	e := &f.Environment
	e.CPU, e.Cores, e.Go = runtime.GOARCH, runtime.NumCPU(), runtime.Version()
	if cpus := must.Get(must.Get(procfs.NewDefaultFS()).CPUInfo()); len(cpus) > 0 && cpus[0].ModelName != "" {
		e.CPU = cpus[0].ModelName
	}
	e.Kernel = "Linux " + strings.TrimSpace(string(must.Get(os.ReadFile("/proc/sys/kernel/osrelease"))))
	return f
}

// readyLine is what the module logs when it is loaded.
var readyLine = regexp.MustCompile(`<throttle> (throttle .*\)) ready`)

// describe adds the server and the module to a run's results.
func (l *lineup) describe(ctx context.Context, f *file) {
	f.Environment.Server, f.Environment.Module = l.hosts[hostMain].Fields(ctx).Version(), "unknown module"
	if m := readyLine.FindStringSubmatch(l.hosts[hostMain].Log()); m != nil {
		f.Environment.Module = m[1]
	}
}

// publish saves a run as NAME.json in the results' folder and renders it.
func publish(o options, name string, f file) {
	path := filepath.Join(o.out, name+".json")
	must.Do(os.MkdirAll(o.out, 0o755))
	text := must.Get(json.MarshalIndent(f, "", "  "))
	must.Do(os.WriteFile(path, append(text, '\n'), 0o644))
	renderFile(os.Stdout, path)
}

// renderFile prints a run's tables, and leaves them as Markdown beside its file, and its
// charts.
func renderFile(stdout io.Writer, path string) {
	defer must.Name("%s", path)
	var f file
	must.Do(json.Unmarshal(must.Get(os.ReadFile(path)), &f))
	stem := strings.TrimSuffix(path, ".json")
	paths := []string{path, stem + ".md"}
	var tables []table.Writer
	switch {
	case f.Kind == kindBench:
		tables, paths = benchTables(f), append(paths, drawBench(stem, f)...)
	case f.Kind == kindCurve && f.Curve != nil:
		tables, paths = []table.Writer{curveTable(*f.Curve)}, append(paths, drawCurve(stem, f))
	case f.Kind == kindWakeups && f.Wakeups != nil:
		tables = wakeupTables(*f.Wakeups)
	default:
		must.Fail("it holds no results of this program")
	}
	var markdown bytes.Buffer
	writeTables(&markdown, f, tables, true)
	must.Do(os.WriteFile(stem+".md", markdown.Bytes(), 0o644))
	writeTables(stdout, f, tables, false)
	fmt.Fprintf(stdout, "\n%s\n", strings.Join(paths, "\n"))
}
