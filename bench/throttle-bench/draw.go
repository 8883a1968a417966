package main

import (
	"fmt"
	"image/color"
	"math"

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
func drawBench(stem string, f file) (paths []string) {
	draw := func(name, title, unit string, series []bars) {
		paths = append(paths, stem+"-"+name+".svg")
		drawBars(stem+"-"+name+".svg", title+", "+f.Environment.Server, "microseconds"+unit+"; the line is the middle half of the rounds", series)
	}
	base := samplesOf(f.Contenders, baseline)[metricExec]
	draw("execution", "Execution time per call inside the server", " (and times "+baseline+")", []bars{
		newBars(f, "", metricExec, func(c contenderResult, label string) (string, color.Color) {
			return fmt.Sprintf("%s (%.2f x)", label, summarize(ratios(c.Samples[metricExec], base)).median), groupColour(c.Group)
		}),
	})
	for _, clients := range []int{1, 50} {
		var series []bars
		for i, m := range []metric{metricP50, metricP95, metricP99} {
			series = append(series, newBars(f, m.title(), m.with(clients), func(_ contenderResult, label string) (string, color.Color) {
				return label, svg.Palette[i]
			}))
		}
		draw(fmt.Sprintf("latency-%d", clients), fmt.Sprintf("Latency with %v, not pipelined", unpipelined(clients)), "", series)
	}
	return paths
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

// bars is one bar for each contender, the first one on top.
type bars struct {
	title   string
	names   []string
	values  []summary
	labels  []string
	colours []color.Color
}

func newBars(f file, title string, m metric, style func(c contenderResult, label string) (string, color.Color)) bars {
	b := bars{title: title}
	for i := range f.Contenders {
		c := f.Contenders[len(f.Contenders)-1-i]
		s := summarize(c.Samples[m])
		if len(c.Samples[m]) == 0 || c.Group == groupBuild {
			continue
		}
		label, colour := style(c, number(s.median))
		b.names, b.values = append(b.names, c.Name), append(b.values, s)
		b.labels, b.colours = append(b.labels, label), append(b.colours, colour)
	}
	return b
}

// drawBars draws horizontal bars; those of several series stand together.
func drawBars(path, title, axis string, series []bars) {
	p := svg.NewPlot(title, titleSize, textSize)
	svg.Grid(p, true, false)
	rows := len(series[0].names)
	rowHeight := vg.Length(len(series)*barThickness + rowGap)
	longest := 0.0
	for j, b := range series {
		offset := (float64(len(series)-1)/2 - float64(j)) * barThickness / float64(rowHeight) // in rows
		for i, s := range b.values {
			addBar(p, s, b.labels[i], b.colours[i], float64(i)+offset)
			longest = max(longest, s.high)
		}
		if len(series) > 1 {
			swatch := must.Get(plotter.NewBarChart(plotter.Values{0}, 1))
			swatch.Color, swatch.LineStyle.Width = b.colours[0], 0
			p.Legend.Add(b.title, swatch)
		}
	}
	p.NominalY(series[0].names...)
	p.X.Label.Text = axis
	p.X.Min, p.X.Max = 0, longest*1.22 // room for the texts
	p.Y.Min, p.Y.Max = -0.5, float64(rows)-0.5
	svg.Write(path, chartWidth, rowHeight*vg.Length(rows)+vg.Points(84), [][]*plot.Plot{{p}})
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
