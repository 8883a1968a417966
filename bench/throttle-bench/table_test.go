package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sample is a run, and two entrants with their figures.
func sample() results {
	set := entrant{contender: contender{Name: baseline, Group: groupBaseline, Samples: map[metric][]float64{}}}
	throttle := entrant{contender: contender{Name: "CL.THROTTLE allowed", Group: groupThrottle, Beside: baseline, Samples: map[metric][]float64{}}}
	for round, slowdown := range []float64{1, 4, 1} {
		for i, m := range []metric{metricExec, metricP50, metricP95, metricP99} {
			for _, prefix := range []metric{"", "clients_1_", "clients_50_"} {
				set.record(prefix, map[metric]float64{m: slowdown * float64(i+1)})
				throttle.record(prefix, map[metric]float64{m: slowdown * float64(i+1) * 1.25})
			}
		}
		set.record("", map[metric]float64{metricRate: 1_000_000 + float64(round)})
	}
	o := options{Rounds: 3, LatencyRounds: 2, Calls: 4000}
	return results{
		About:      []string{"Redis 7.0.15", "throttle 0.1.0", "a CPU, 2 cores, Linux 6.1", "2026-11-20", o.rounds()},
		Contenders: []contender{set.contender, throttle.contender},
		Notes:      []string{"CL.LIMIT: the server has no CL.LIMIT"},
	}
}

func TestTheTableShowsMedianRangeAndRatio(t *testing.T) {
	r := sample()
	s := section{"Figures", []column{
		{"exec us", metricExec, medianRange},
		{"x", metricExec, ratioRange},
		{"both", metricExec, medianRangeRatio},
		{"calls/s", metricRate, []cell{median}},
	}}
	var out bytes.Buffer
	writeTables(&out, r, []table.Writer{sectionTable(s, r.Contenders)}, "; ", table.Writer.RenderMarkdown)
	assert.Equal(t, `Redis 7.0.15; throttle 0.1.0; a CPU, 2 cores, Linux 6.1; 2026-11-20; median (quartiles) of 3 rounds of 4000 calls, 2 for latencies

# Figures
|  | exec us | x | both | calls/s |
| --- | ---:| ---:| ---:| ---:|
| SET PX | 1.00 (1.00..4.00) | 1.00x (1.00x..1.00x) | 1.00 (1.00..4.00) 1.00x | 1000k |
| CL.THROTTLE allowed | 1.25 (1.25..5.00) | 1.25x (1.25x..1.25x) | 1.25 (1.25..5.00) 1.25x |  |

Not measured: CL.LIMIT: the server has no CL.LIMIT
`, out.String())
}

func TestACallThatTakesFarTooLongIsInTheTableAlone(t *testing.T) {
	list := sample().Contenders
	long := list[1]
	long.Name, long.Samples = "Lua, compiled at each call", map[metric][]float64{metricExec: {101, 102, 500}}
	assert.Equal(t, list, inScale(append(list, long)))
}

func TestARunLeavesItsFiguresTablesAndCharts(t *testing.T) {
	o := options{Out: t.TempDir()}
	bench := sample()
	c := curve{Axis: "keys", Metrics: []metric{metricExec, metricRate}}
	for _, label := range []string{"1000", "10000"} {
		c.Points = append(c.Points, point{Label: label, Contenders: bench.Contenders})
	}
	o.publish("bench", bench, benchTables(bench.Contenders)...)
	drawBench(o.Out, bench.About[0], bench.Contenders)
	o.publish("curve-keys", results{About: bench.About, Curve: &c}, c.table())
	for _, name := range []string{"bench.json", "bench.txt", "bench-execution.svg", "bench-execution-dark.svg", "bench-headline.svg", "curve-keys.json", "curve-keys.txt"} {
		text, err := os.ReadFile(filepath.Join(o.Out, name))
		require.NoError(t, err)
		assert.Contains(t, string(text), "CL.THROTTLE allowed", name)
		assert.NotRegexp(t, "<text|font", string(text), "a picture needs no font: %s", name)
	}
	public := t.TempDir()
	publishShown(o.Out, public)
	files, err := filepath.Glob(filepath.Join(public, "*"))
	require.NoError(t, err)
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	assert.Equal(t, []string{"bench-execution-dark.svg", "bench-execution.svg", "bench-headline-dark.svg", "bench-headline.svg", "bench.txt", "curve-keys.txt"}, files)

	drawn, err := os.ReadFile(filepath.Join(o.Out, "bench-execution.svg"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(o.Out, "bench-execution.svg")))
	redraw(o.Out)
	redrawn, err := os.ReadFile(filepath.Join(o.Out, "bench-execution.svg"))
	require.NoError(t, err)
	assert.Equal(t, string(drawn), string(redrawn), "the file has all that is drawn")

	var again results
	text, err := os.ReadFile(filepath.Join(o.Out, "bench.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &again))
	assert.Equal(t, bench, again, "nothing is lost in the file")
}
