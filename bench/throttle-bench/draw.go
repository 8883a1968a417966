package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/svg"
)

const (
	chartWidth   = 9 * vg.Inch
	titleSize    = 11
	textSize     = 9.5
	barThickness = 13
	rowGap       = 8
)

// drawBench draws execution times, and latencies with one client and with fifty.
func drawBench(stem string, f file) []string {
	drawBars(stem+"-execution.svg", "Execution time per call inside the server", f, metricExec)
	for _, n := range []int{1, 50} {
		title := fmt.Sprintf("Latency with %v, not pipelined", unpipelined(n))
		drawBars(fmt.Sprintf("%s-latency-%d.svg", stem, n), title, f, metricP50.with(n), metricP95.with(n), metricP99.with(n))
	}
	return []string{stem + "-execution.svg", stem + "-latency-1.svg", stem + "-latency-50.svg"}
}

// groupColour sets our own commands apart from everybody else's.
func groupColour(group string) color.Color {
	switch group {
	case groupBaseline, groupFloor:
		return color.Gray{Y: 0x99}
	case groupLua:
		return svg.Palette[1]
	case groupPeer:
		return svg.Palette[2]
	}
	return svg.Palette[0]
}

// drawBars draws horizontal bars, the first contender on top. One metric is coloured by
// group and compared with the baseline; several are told apart by colour.
func drawBars(path, title string, f file, metrics ...metric) {
	p := svg.NewPlot(title+", "+f.Environment.Server, titleSize, textSize)
	svg.Grid(p, true, false)
	p.X.Label.Text = "microseconds; the line is the middle half of the rounds"
	rowHeight := vg.Length(len(metrics)*barThickness + rowGap)
	longest := 0.0
	var names []string
	for _, c := range slices.Backward(f.Contenders) {
		if c.Group == groupBuild || len(c.Samples[metrics[0]]) == 0 {
			continue
		}
		for j, m := range metrics {
			s := summarize(c.Samples[m])
			label, colour := number(s.median), svg.Palette[j]
			if len(metrics) == 1 {
				times := summarize(ratios(c.Samples[m], samplesOf(f.Contenders, baseline)[m])).median
				label, colour = fmt.Sprintf("%s (%.2f x %s)", label, times, baseline), groupColour(c.Group)
			}
			offset := (float64(len(metrics)-1)/2 - float64(j)) * barThickness / float64(rowHeight) // in rows
			addBar(p, s, label, colour, float64(len(names))+offset)
			longest = max(longest, s.high)
		}
		names = append(names, c.Name)
	}
	for j := 0; len(metrics) > 1 && j < len(metrics); j++ {
		swatch := must.Get(plotter.NewBarChart(plotter.Values{0}, 1))
		swatch.Color, swatch.LineStyle.Width = svg.Palette[j], 0
		p.Legend.Add([]string{"p50", "p95", "p99"}[j], swatch)
	}
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, longest*1.3 // room for the texts
	p.Y.Min, p.Y.Max = -0.5, float64(len(names))-0.5
	svg.Write(path, chartWidth, rowHeight*vg.Length(len(names))+vg.Points(84), [][]*plot.Plot{{p}})
}

func addBar(p *plot.Plot, s summary, label string, colour color.Color, at float64) {
	bar := must.Get(plotter.NewBarChart(plotter.Values{s.median}, barThickness-1))
	bar.Horizontal, bar.XMin, bar.Color, bar.LineStyle.Width = true, at, colour, 0
	whisker := must.Get(plotter.NewLine(plotter.XYs{{X: s.low, Y: at}, {X: s.high, Y: at}}))
	whisker.Color, whisker.Width = svg.TextColour, vg.Points(1)
	text := must.Get(plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: s.high, Y: at}}, Labels: []string{label}}))
	style := &text.TextStyle[0]
	style.Font.Size, style.Color, style.YAlign = 9, svg.TextColour, draw.YCenter
	text.Offset = vg.Point{X: vg.Points(5), Y: vg.Points(1)} // digits have no descenders
	p.Add(bar, whisker, text)
}

// drawCurve draws each charted figure, and beside it its ratio to the baseline.
func drawCurve(stem string, f file) string {
	var rows [][]*plot.Plot
	for _, m := range f.Curve.Charted {
		value := curvePlot(*f.Curve, m.title()+", "+f.Environment.Server, m.title(), func(at curvedAt, i int) summary {
			return summarize(at.Contenders[i].Samples[m])
		})
		times := curvePlot(*f.Curve, m.title()+", times "+baseline, "times "+baseline, func(at curvedAt, i int) summary {
			return summarize(ratios(at.Contenders[i].Samples[m], samplesOf(at.Contenders, baseline)[m]))
		})
		rows = append(rows, []*plot.Plot{value, times})
	}
	svg.Write(stem+".svg", chartWidth, 3.7*vg.Inch*vg.Length(len(rows)), rows)
	return stem + ".svg"
}

// curvePlot is a line for each contender, with the middle half of the rounds at each point.
func curvePlot(c curveResult, title, axis string, y func(at curvedAt, contender int) summary) *plot.Plot {
	p := svg.NewPlot(title, titleSize, textSize)
	svg.Grid(p, true, true)
	p.X.Label.Text, p.Y.Label.Text = c.Axis, axis
	highest := 0.0
	for i, contender := range c.Points[0].Contenders {
		var line struct {
			plotter.XYs
			plotter.YErrors
		}
		for _, at := range c.Points {
			s := y(at, i)
			line.XYs = append(line.XYs, plotter.XY{X: at.X, Y: s.median})
			line.YErrors = append(line.YErrors, struct{ Low, High float64 }{s.median - s.low, s.high - s.median})
			highest = max(highest, s.high)
		}
		stroke, points, err := plotter.NewLinePoints(line.XYs)
		must.Do(err)
		errors := must.Get(plotter.NewYErrorBars(line))
		stroke.Color, points.Color, errors.Color = svg.Palette[i], svg.Palette[i], svg.Palette[i]
		stroke.Width, points.Shape, points.Radius = vg.Points(1.6), draw.CircleGlyph{}, vg.Points(2.5)
		p.Add(stroke, points, errors)
		p.Legend.Add(contender.Name, stroke, points)
	}
	p.Y.Min, p.Y.Max = 0, highest*1.35 // room for the legend
	if c.Log {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(powersOfTen)
		return p
	}
	var names []string
	for _, at := range c.Points {
		names = append(names, at.Label)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.4, float64(len(names))-0.6
	return p
}

// powersOfTen marks and names only those.
func powersOfTen(least, greatest float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(greatest)); e++ {
		label := fmt.Sprintf("10^%.0f", e)
		if e < 3 {
			label = fmt.Sprint(math.Pow(10, e))
		}
		ticks = append(ticks, plot.Tick{Value: math.Pow(10, e), Label: label})
	}
	return ticks
}
