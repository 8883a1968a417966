package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/bench/throttle-bench/internal/result"
)

func sampleFile() result.File {
	set := result.Contender{Name: baseline, Group: groupBaseline, Command: callSet}
	throttle := result.Contender{Name: "CL.THROTTLE allowed", Group: groupThrottle, Command: callAllowed}
	for round, slowdown := range []float64{1, 4, 1} {
		for i, m := range []result.Metric{result.Exec, result.P50.With(1), result.P95.With(1), result.P99.With(1), result.P50.With(50), result.P95.With(50), result.P99.With(50)} {
			set.Add(m, slowdown*float64(i+1))
			throttle.Add(m, slowdown*float64(i+1)*1.25)
		}
		set.Add(result.Rate, 1_000_000+float64(round))
	}
	return result.File{
		Kind: result.KindBench, Started: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		Environment: result.Environment{Server: "Redis 7.0.15", Module: "throttle 0.1.0", Load: "redis-benchmark 7.0.15", CPU: "a CPU", Cores: 2, Kernel: "Linux 6.1"},
		Settings:    result.Settings{Rounds: 3},
		Contenders:  []result.Contender{set, throttle},
		Notes:       []string{"CL.LIMIT: the server has no CL.LIMIT"},
	}
}

func TestTheTableShowsMedianRangeAndRatio(t *testing.T) {
	f := sampleFile()
	s := section{"Figures", []column{
		{"exec us", result.Exec, partMedian | partRange},
		{"x", result.Exec, partRatio | partRange},
		{"both", result.Exec, partMedian | partRange | partRatio},
		{"calls/s", result.Rate, partMedian},
	}}
	var out bytes.Buffer
	writeTables(&out, f, []table.Writer{sectionTable(s, f.Contenders)}, true)
	assert.Equal(t, `Redis 7.0.15; throttle 0.1.0; redis-benchmark 7.0.15; a CPU, 2 cores, Linux 6.1; 2026-11-20; median (least..greatest) of 3 rounds

# Figures
|  | exec us | x | both | calls/s |
| --- | ---:| ---:| ---:| ---:|
| SET PX | 1.00 (1.00..4.00) | 1.00x (1.00x..1.00x) | 1.00 (1.00..4.00) 1.00x | 1000k |
| CL.THROTTLE allowed | 1.25 (1.25..5.00) | 1.25x (1.25x..1.25x) | 1.25 (1.25..5.00) 1.25x |  |

Not measured: CL.LIMIT: the server has no CL.LIMIT
`, out.String())
}

func TestAContenderWithoutFiguresHasNoRow(t *testing.T) {
	s := section{"Memory", []column{{"bytes", result.BytesOneCall, partMedian}}}
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
	curve.Kind = result.KindCurve
	curve.Curve = &result.Curve{Name: "keys", Axis: "keys", Log: true, Metrics: pipelinedMetrics, Charted: pipelinedMetrics[:1]}
	for _, x := range []float64{1000, 10000} {
		curve.Curve.Points = append(curve.Curve.Points, result.Point{X: x, Label: number(x), Contenders: bench.Contenders})
	}
	for name, f := range map[string]result.File{"bench": bench, "curve-keys": curve} {
		path := filepath.Join(dir, name+".json")
		require.NoError(t, f.Write(path))
		again, err := result.Read(path)
		require.NoError(t, err)
		assert.Equal(t, f, again, "nothing is lost in the file")
		require.NoError(t, renderFile(options{stdout: io.Discard}, path))
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
	assert.ErrorContains(t, renderFile(options{stdout: io.Discard}, path), "no results")
}
