package main

import (
	"fmt"
	"image/color"
	"path/filepath"
	"slices"
	"strings"

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

// drawBench draws the charts that pages show: execution times, of all contenders and of the few that a front page has
// room for. Other figures are in tables.
func drawBench(dir, server string, list []contender) {
	list = inScale(withoutTwins(list))
	title := "Execution time per call inside the server, " + server
	chart := func(name string, list []contender) {
		height := rowHeight*vg.Length(len(list)) + vg.Points(108)
		svg.Write(filepath.Join(dir, name), title, chartWidth, height, legend(list), [][]*plot.Plot{{barPlot(title, list, metricExec)}})
	}
	chart("bench-execution.svg", list)
	chart("bench-headline.svg", headline(list))
}

// mostOfScale is how many times as long as the baseline a call of the charts takes at most.
const mostOfScale = 100

// inScale leaves out calls beside whose bars the others could not be seen. The tables have them.
func inScale(list []contender) []contender {
	most := mostOfScale * summarize(samplesOf(list, baseline)[metricExec]).median
	return slices.DeleteFunc(slices.Clone(list), func(c contender) bool { return summarize(c.Samples[metricExec]).median > most })
}

// headlines are the contenders of the chart on the front page, most important first. Where
// peers were measured, their allowed calls come before the last of these.
var headlines = []string{
	baseline, "CL.THROTTLE allowed", "CL.THROTTLE denied", "CL.LIMIT allowed", "CL.LIMIT allowed, COMPACT",
	"Lua fixed window, allowed", "Lua GCRA, allowed", "Lua token bucket, allowed",
}

const mostHeadlines = 8

// headline picks them, in the order of the table.
func headline(list []contender) (few []contender) {
	last := len(headlines) - 1
	names := slices.Clone(headlines[:last])
	for _, c := range list {
		if c.Group == groupPeer && strings.Contains(c.Name, "allowed") {
			names = append(names, c.Name)
		}
	}
	names = append(names, headlines[last])
	names = names[:min(len(names), mostHeadlines)]
	return slices.DeleteFunc(slices.Clone(list), func(c contender) bool { return !slices.Contains(names, c.Name) })
}

// What colours mean, in all charts. The second of our own is the function library's.
var (
	coloursOfOurs  = []color.Color{svg.Palette[0], svg.Palette[3]}
	colourOfLua    = svg.Palette[1]
	colourOfPeers  = svg.Palette[2]
	colourOfServer = color.Gray{Y: 0x99}
)

// legend says what the colours of a chart's bars mean.
func legend(list []contender) (keys []svg.Key) {
	server := "commands of the server"
	if slices.ContainsFunc(list, func(c contender) bool { return c.Group == groupFloor }) {
		server += ", and the floor"
	}
	for _, key := range []svg.Key{
		{Label: "this module", Colour: coloursOfOurs[0]},
		{Label: "its function library", Colour: coloursOfOurs[1]},
		{Label: server, Colour: colourOfServer},
		{Label: "Lua scripts", Colour: colourOfLua},
		{Label: "other modules", Colour: colourOfPeers},
	} {
		if slices.ContainsFunc(list, func(c contender) bool { return c.colour() == key.Colour }) {
			keys = append(keys, key)
		}
	}
	return keys
}

// colour sets our own commands apart from everybody else's. A group may hold both: ZADD is beside CL.LEASE.
func (c contender) colour() color.Color {
	command := c.command()
	switch {
	case c.Group == groupPeer:
		return colourOfPeers
	case c.isOfLibrary():
		return coloursOfOurs[1]
	case strings.HasPrefix(command, "EVAL"):
		return colourOfLua
	case strings.HasPrefix(command, "CL."):
		return coloursOfOurs[0]
	}
	return colourOfServer
}

// isOfLibrary says whether it is a function of ours, or the library as a script.
func (c contender) isOfLibrary() bool {
	return c.Group == groupFunction && strings.Contains(c.Call, " cl_")
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
		bar.Horizontal, bar.XMin, bar.Color, bar.LineStyle.Width = true, at, c.colour(), 0
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

// ranges are medians, where they stand in a plot, and the middle half of what each is of, along the axis of the
// medians.
type ranges struct {
	plotter.XYs
	plotter.XErrors
}

func (r *ranges) add(at plotter.XY, s summary) {
	r.XYs = append(r.XYs, at)
	r.XErrors = append(r.XErrors, struct{ Low, High float64 }{s.median - s.low, s.high - s.median})
}
