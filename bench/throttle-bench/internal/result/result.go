// Package result is what a run of the benchmark leaves behind: a JSON file that
// holds every round's figures, so that tables and charts can be made from it again.
package result

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Kinds of results.
const (
	KindBench   = "bench"
	KindCurve   = "curve"
	KindWakeups = "wakeups"
)

// File is one run.
type File struct {
	Kind        string      `json:"kind"`
	Started     time.Time   `json:"started"`
	Environment Environment `json:"environment"`
	Settings    Settings    `json:"settings"`
	Contenders  []Contender `json:"contenders,omitempty"`
	Notes       []string    `json:"notes,omitempty"`
	Curve       *Curve      `json:"curve,omitempty"`
	Wakeups     *Wakeups    `json:"wakeups,omitempty"`
}

// Environment is where the run took place.
type Environment struct {
	Server string `json:"server"` // name and version
	Module string `json:"module"` // version, commit and Go version, as the module says
	Load   string `json:"load"`   // redis-benchmark's version
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"` // of the program that measured
}

// Settings is what was asked for.
type Settings struct {
	Rounds   int     `json:"rounds"`
	Keys     int     `json:"keys"`
	Slice    float64 `json:"slice_s,omitempty"`  // seconds a slice is meant to take
	Requests int     `json:"requests,omitempty"` // a slice's calls, where that was fixed
	Pipeline int     `json:"pipeline"`
}

// Contender is what was measured of one of them.
type Contender struct {
	Name    string             `json:"name"`
	Group   string             `json:"group"`
	Command string             `json:"command"`
	Samples map[Metric]Samples `json:"samples"`
}

// Metric names a measured quantity, with its unit.
type Metric string

// Samples are one figure a round.
type Samples []float64

// What is measured, for each call unless it says otherwise. Execution time is the
// server's own reckoning, INFO commandstats; processor time is that of the whole server
// process, all threads; latencies are what the client saw.
const (
	Exec         Metric = "exec_us"
	CPU          Metric = "cpu_us"
	Rate         Metric = "calls_per_s"
	P50          Metric = "p50_us"
	P95          Metric = "p95_us"
	P99          Metric = "p99_us"
	P999         Metric = "p99.9_us"
	BytesOneCall Metric = "bytes_per_key_1_call"
	BytesHundred Metric = "bytes_per_key_100_calls"
)

// Title is what people call it.
func (m Metric) Title() string {
	switch m {
	case Exec:
		return "execution us"
	case CPU:
		return "server cpu us"
	case Rate:
		return "calls/s"
	case P50, P95, P99, P999:
		return strings.TrimSuffix(string(m), "_us") + " us"
	}
	return string(m)
}

// With is the metric as it is with so many clients that do not pipeline. Without it, the
// calls were pipelined.
func (m Metric) With(clients int) Metric { return Metric(fmt.Sprintf("clients_%d_%s", clients, m)) }

// Add appends a round's figure, with four decimals: more are noise.
func (c *Contender) Add(m Metric, value float64) {
	if c.Samples == nil {
		c.Samples = map[Metric]Samples{}
	}
	c.Samples[m] = append(c.Samples[m], math.Round(value*1e4)/1e4)
}

// Curve is how figures change along one scale.
type Curve struct {
	Name    string   `json:"name"`
	Axis    string   `json:"axis"`    // what the scale is
	Log     bool     `json:"log"`     // spaced by powers of ten; otherwise the points have labels
	Metrics []Metric `json:"metrics"` // in the table
	Charted []Metric `json:"charted"` // in the chart
	Points  []Point  `json:"points"`
}

// Point is one place on the scale.
type Point struct {
	X          float64     `json:"x"`
	Label      string      `json:"label"`
	Contenders []Contender `json:"contenders"`
}

// Wakeups is what the threads of a server do.
type Wakeups struct {
	Servers []ServerThreads `json:"servers"`
}

// ServerThreads is one server, idle and under load.
type ServerThreads struct {
	Name       string           `json:"name"`
	Threads    int              `json:"threads"`
	RSS        int              `json:"rss_bytes"` // idle
	RSSAnon    int              `json:"rss_anon_bytes"`
	RSSFile    int              `json:"rss_file_bytes"`
	Situations []ThreadSwitches `json:"situations"`
}

// ThreadSwitches is how often threads went to sleep and were woken in one situation.
type ThreadSwitches struct {
	Situation string   `json:"situation"`
	Seconds   float64  `json:"seconds"`
	Calls     int      `json:"calls"`
	Threads   []Thread `json:"threads"`
}

// Thread is one thread. A thread that waits switches voluntarily, and is woken once
// for each time; one that is preempted does not.
type Thread struct {
	Name               string  `json:"name"`
	OfModule           bool    `json:"of_module"`
	VoluntaryPerSecond float64 `json:"voluntary_per_s"`
	PreemptedPerSecond float64 `json:"preempted_per_s"`
}

// Write saves the file, making its folder.
func (f File) Write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Read loads a file that Write saved.
func Read(path string) (File, error) {
	var f File
	text, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}
