package main

import (
	"fmt"
	"image/color"

	"redis-throttle/bench/throttle-bench/internal/chart"
	"redis-throttle/bench/throttle-bench/internal/result"
	"redis-throttle/bench/throttle-bench/internal/stat"
)

// groupColour sets our own commands apart from everybody else's.
func groupColour(group string) color.Color {
	switch group {
	case groupBaseline:
		return color.Gray{Y: 0x99}
	case groupLua:
		return chart.Colour(1)
	case groupPeer:
		return chart.Colour(2)
	}
	return chart.Colour(0)
}

// drawBench draws execution times, and latencies with one client and with fifty.
func drawBench(stem string, f result.File) ([]string, error) {
	base := samplesOf(f.Contenders, baseline)
	execution := chart.Bars{
		Title: "Execution time per call inside the server, " + f.Environment.Server,
		Axis:  "microseconds (and times " + baseline + "); the line is the range of the rounds",
	}
	for _, c := range f.Contenders {
		s := stat.Summarize(c.Samples[result.Exec])
		times := stat.Median(stat.Ratios(c.Samples[result.Exec], base[result.Exec]))
		if len(c.Samples[result.Exec]) == 0 {
			continue
		}
		execution.Rows = append(execution.Rows, chart.Row{Label: c.Name, Bars: []chart.Bar{{
			Value: s.Median, Min: s.Min, Max: s.Max,
			Text: fmt.Sprintf("%s (%.2f x)", number(s.Median), times), Colour: groupColour(c.Group),
		}}})
	}
	var paths []string
	for _, c := range []struct {
		name  string
		chart chart.Bars
	}{
		{"execution", execution},
		{"latency-1", latencyBars(f, 1)},
		{"latency-50", latencyBars(f, 50)},
	} {
		path := stem + "-" + c.name + ".svg"
		if err := c.chart.Draw(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func latencyBars(f result.File, clients int) chart.Bars {
	bars := chart.Bars{
		Title:  fmt.Sprintf("Latency with %s, not pipelined, %s", unpipelined(clients).name, f.Environment.Server),
		Axis:   "microseconds; the line is the range of the rounds",
		Series: []string{"p50", "p95", "p99"},
	}
	metrics := []result.Metric{result.P50.With(clients), result.P95.With(clients), result.P99.With(clients)}
	for _, c := range f.Contenders {
		row := chart.Row{Label: c.Name}
		for i, m := range metrics {
			s := stat.Summarize(c.Samples[m])
			bar := chart.Bar{}
			if len(c.Samples[m]) > 0 {
				bar = chart.Bar{Value: s.Median, Min: s.Min, Max: s.Max, Text: number(s.Median), Colour: chart.Colour(i)}
			}
			row.Bars = append(row.Bars, bar)
		}
		bars.Rows = append(bars.Rows, row)
	}
	return bars
}
