package main

import (
	"fmt"
	"image/color"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/svg"
)

const (
	chartWidth = 9 * vg.Inch
	rowHeight  = 21
)

// drawBench draws execution times, and latencies with one client and with fifty.
func drawBench(dir, server string, list []contender) {
	list = slices.DeleteFunc(slices.Clone(list), func(c contender) bool { return c.Group == groupBuild })
	draw := func(name string, panels ...*plot.Plot) {
		height := rowHeight*vg.Length(len(list)) + vg.Points(84)
		svg.Write(filepath.Join(dir, name), chartWidth, height*vg.Length(len(panels)), slices.Collect(slices.Chunk(panels, 1)))
	}
	draw("bench-execution.svg", barPlot("Execution time per call inside the server, "+server, list, metricExec))
	for _, clients := range []string{"1", "50"} {
		var panels []*plot.Plot
		for _, m := range []metric{metricP50, metricP95, metricP99} {
			title := fmt.Sprintf("Latency, not pipelined, clients: %s; %s, %s", clients, m.title(), server)
			panels = append(panels, barPlot(title, list, "clients_"+metric(clients)+"_"+m))
		}
		draw("bench-latency-"+clients+".svg", panels...)
	}
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

// barPlot has a horizontal bar for each contender, the first on top.
func barPlot(title string, list []contender, m metric) *plot.Plot {
	p := svg.NewPlot(title)
	svg.Grid(p, true, false)
	p.X.Label.Text = "microseconds; the line is the middle half of the rounds"
	var names []string
	var medians ranges
	var labels plotter.XYLabels
	base := samplesOf(list, baseline)[m]
	for _, c := range slices.Backward(list) {
		s, at := summarize(c.Samples[m]), float64(len(names))
		bar := must.Get(plotter.NewBarChart(plotter.Values{s.median}, rowHeight-9))
		bar.Horizontal, bar.XMin, bar.Color, bar.LineStyle.Width = true, at, groupColour(c.Group), 0
		p.Add(bar)
		medians.add(plotter.XY{X: s.median, Y: at}, s)
		labels.XYs = append(labels.XYs, plotter.XY{X: s.high, Y: at})
		labels.Labels = append(labels.Labels, fmt.Sprintf("%s (%.2f x %s)", number(s.median), summarize(ratios(c.Samples[m], base)).median, baseline))
		names = append(names, c.Name)
		p.X.Max = max(p.X.Max, s.high*1.3) // room for the texts
	}
	whiskers := must.Get(plotter.NewXErrorBars(medians))
	whiskers.Color, whiskers.CapWidth = svg.TextColour, 0
	texts := must.Get(plotter.NewLabels(labels))
	for i := range texts.TextStyle {
		style := &texts.TextStyle[i]
		style.Font.Size, style.Color, style.YAlign = svg.TextSize, svg.TextColour, draw.YCenter
	}
	texts.Offset = vg.Point{X: vg.Points(5), Y: vg.Points(1)} // digits have no descenders
	p.Add(whiskers, texts)
	p.NominalY(names...)
	return p
}

// ranges are medians, where they stand in a plot, and the middle half of what each is of.
type ranges struct {
	plotter.XYs
	errors plotter.YErrors
}

func (r *ranges) add(at plotter.XY, s summary) {
	r.XYs = append(r.XYs, at)
	r.errors = append(r.errors, struct{ Low, High float64 }{s.median - s.low, s.high - s.median})
}

// The whiskers lie along the axis that shows the medians.
func (r ranges) XError(i int) (low, high float64) { return r.errors.YError(i) }
func (r ranges) YError(i int) (low, high float64) { return r.errors.YError(i) }

// drawCurve draws each charted figure, and beside it its ratio to the baseline.
func drawCurve(path, server string, c curve) {
	var rows [][]*plot.Plot
	for _, m := range c.Charted {
		value := c.plot(m.title()+", "+server, m.title(), func(p point, i int) []float64 { return p.Contenders[i].Samples[m] })
		times := c.plot(m.title()+", times "+baseline, "times "+baseline, func(p point, i int) []float64 {
			return ratios(p.Contenders[i].Samples[m], samplesOf(p.Contenders, baseline)[m])
		})
		rows = append(rows, []*plot.Plot{value, times})
	}
	svg.Write(path, chartWidth, 3.7*vg.Inch*vg.Length(len(rows)), rows)
}

// plot has a line for each contender, with the middle half of the rounds at each point.
func (c curve) plot(title, axis string, samples func(p point, contender int) []float64) *plot.Plot {
	p := svg.NewPlot(title)
	svg.Grid(p, true, true)
	p.X.Label.Text, p.Y.Label.Text = c.Axis, axis
	for i, contender := range c.Points[0].Contenders {
		var line ranges
		for x, at := range c.Points {
			s := summarize(samples(at, i))
			line.add(plotter.XY{X: float64(x), Y: s.median}, s)
			p.Y.Max = max(p.Y.Max, s.high*1.35) // room for the legend
		}
		stroke, points, err := plotter.NewLinePoints(line.XYs)
		must.Do(err)
		whiskers := must.Get(plotter.NewYErrorBars(line))
		stroke.Color, points.Color, whiskers.Color = svg.Palette[i], svg.Palette[i], svg.Palette[i]
		stroke.Width, points.Shape, points.Radius = vg.Points(1.6), draw.CircleGlyph{}, vg.Points(2.5)
		p.Add(stroke, points, whiskers)
		p.Legend.Add(contender.Name, stroke, points)
	}
	var labels []string
	for _, at := range c.Points {
		labels = append(labels, at.Label)
	}
	p.NominalX(labels...)
	p.Y.Min = 0
	return p
}
