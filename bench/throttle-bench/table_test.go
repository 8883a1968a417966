package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/bench/internal/must"
)

func sampleFile() file {
	set := contenderResult{Name: baseline, Group: groupBaseline, Command: callSet}
	throttle := contenderResult{Name: "CL.THROTTLE allowed", Group: groupThrottle, Command: callAllowed, Beside: baseline}
	for round, slowdown := range []float64{1, 4, 1} {
		for i, m := range []metric{metricExec, metricP50.with(1), metricP95.with(1), metricP99.with(1), metricP50.with(50), metricP95.with(50), metricP99.with(50)} {
			set.add(m, slowdown*float64(i+1))
			throttle.add(m, slowdown*float64(i+1)*1.25)
		}
		set.add(metricRate, 1_000_000+float64(round))
	}
	f := file{
		Kind: kindBench, Started: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		Contenders: []contenderResult{set, throttle},
		Notes:      []string{"CL.LIMIT: the server has no CL.LIMIT"},
	}
	e, s := &f.Environment, &f.Settings
	e.Server, e.Module, e.CPU, e.Cores, e.Kernel = "Redis 7.0.15", "throttle 0.1.0", "a CPU", 2, "Linux 6.1"
	s.Rounds, s.LatencyRounds, s.Calls = 3, 2, 4000
	return f
}

func TestTheTableShowsMedianRangeAndRatio(t *testing.T) {
	f := sampleFile()
	s := section{"Figures", []column{
		{"exec us", metricExec, partMedian | partRange},
		{"x", metricExec, partRatio | partRange},
		{"both", metricExec, partMedian | partRange | partRatio},
		{"calls/s", metricRate, partMedian},
	}}
	var out bytes.Buffer
	writeTables(&out, f, []table.Writer{sectionTable(s, f.Contenders)}, true)
	assert.Equal(t, `Redis 7.0.15; throttle 0.1.0; a CPU, 2 cores, Linux 6.1; 2026-11-20; median (quartiles) of 3 rounds of 4000 calls, 2 for latencies

# Figures
|  | exec us | x | both | calls/s |
| --- | ---:| ---:| ---:| ---:|
| SET PX | 1.00 (1.00..4.00) | 1.00x (1.00x..1.00x) | 1.00 (1.00..4.00) 1.00x | 1000k |
| CL.THROTTLE allowed | 1.25 (1.25..5.00) | 1.25x (1.25x..1.25x) | 1.25 (1.25..5.00) 1.25x |  |

Not measured: CL.LIMIT: the server has no CL.LIMIT
`, out.String())
}

func TestAContenderWithoutFiguresHasNoRow(t *testing.T) {
	s := section{"Memory", []column{{"bytes", metricBytesOneCall, partMedian}}}
	assert.NotContains(t, sectionTable(s, sampleFile().Contenders).Render(), baseline)
}

func TestNumbersShowThreeDigitsOrSo(t *testing.T) {
	for v, want := range map[float64]string{0.047: "0.05", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 5252: "5252", 45678: "46k", 2e6: "2000k"} {
		assert.Equal(t, want, number(v))
	}
}

func TestAFileIsRenderedAgainWithoutARun(t *testing.T) {
	dir := t.TempDir()
	bench := sampleFile()
	curve := sampleFile()
	curve.Kind = kindCurve
	curve.Curve = &curveResult{Name: "keys", Axis: "keys", Log: true, Metrics: pipelinedMetrics, Charted: pipelinedMetrics[:1]}
	for _, x := range []float64{1000, 10000} {
		curve.Curve.Points = append(curve.Curve.Points, curvedAt{X: x, Label: number(x), Contenders: bench.Contenders})
	}
	for name, f := range map[string]file{"bench": bench, "curve-keys": curve} {
		path := filepath.Join(dir, name+".json")
		text, err := json.Marshal(f)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o644))
		var again file
		require.NoError(t, json.Unmarshal(text, &again))
		assert.Equal(t, f, again, "nothing is lost in the file")
		renderFile(io.Discard, path)
	}
	for _, name := range []string{"bench.md", "bench-execution.svg", "bench-latency-1.svg", "bench-latency-50.svg", "curve-keys.md", "curve-keys.svg"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Contains(t, string(text), "CL.THROTTLE allowed", name)
	}
}

func TestAFileOfSomethingElseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"kind":"curve"}`), 0o644))
	err := func() (err error) {
		defer must.Catch(&err)
		renderFile(io.Discard, path)
		return nil
	}()
	assert.ErrorContains(t, err, "no results")
}
