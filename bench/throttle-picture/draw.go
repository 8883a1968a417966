package main

import (
	"bytes"
	"fmt"
	"image/color"
	"maps"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// What the panels show, in the picture's seconds.
const (
	begin    = 50.0
	end      = 160.0
	binWidth = 2.0
	tallest  = 22.0 // requests in one bin, with some air
)

// Distinct also for colour-blind readers (Okabe and Ito).
var (
	admittedColour = color.RGBA{R: 0x00, G: 0x72, B: 0xB2, A: 0xFF}
	limitedColour  = color.RGBA{R: 0xE6, G: 0x9F, B: 0x00, A: 0xFF}
	offeredColour  = color.Gray{Y: 0x88}
	gridColour     = color.Gray{Y: 0xDD}
	minuteColour   = color.Gray{Y: 0x66}
	textColour     = color.Gray{Y: 0x33}
)

// The SVG names just the font that the layout was measured with. Where that is not
// installed, Arial has the same widths.
const (
	layoutFont = "font-family:Liberation Sans;"
	fontFamily = "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"
)

// picture writes one panel for the traffic, and one for each limiter.
func picture(path string, results []result) error {
	plot.DefaultFont.Variant = "Sans"
	plotter.DefaultFont.Variant = "Sans"
	panels := []*plot.Plot{trafficPanel(results[0])}
	for _, r := range results {
		panels = append(panels, limiterPanel(r))
	}
	const columns = 2
	rows := (len(panels) + columns - 1) / columns
	var grid [][]*plot.Plot
	for i := range rows {
		grid = append(grid, panels[i*columns:(i+1)*columns])
	}
	canvas := vgsvg.New(10*vg.Inch, vg.Length(rows)*2.3*vg.Inch)
	c := draw.New(canvas)
	c.SetColor(color.White) // so that it reads on a dark page too
	c.Fill(c.Rectangle.Path())
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: vg.Points(18), PadY: vg.Points(14),
		PadTop: vg.Points(8), PadBottom: vg.Points(8), PadLeft: vg.Points(8), PadRight: vg.Points(12)}
	for i, row := range plot.Align(grid, tiles, c) {
		for j, cell := range row {
			grid[i][j].Draw(cell)
		}
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(svg.String(), layoutFont, fontFamily)), 0o644)
}

func trafficPanel(r result) *plot.Plot {
	p := newPanel("What comes", "20 in second 58, 20 in second 62, then 1 a second")
	var offered []float64
	for _, q := range r.requests {
		offered = append(offered, q.at)
	}
	bars := newBars(offered, offeredColour)
	p.Add(bars)
	p.Legend.Add("requests in 2 s", bars)
	return p
}

func limiterPanel(r result) *plot.Plot {
	p := newPanel(r.limiter.words, fmt.Sprintf("%s; %d in the fullest minute", r.limiter.note, r.fullestMinute()))
	var turnedAway []float64
	for _, q := range r.requests {
		if q.limited {
			turnedAway = append(turnedAway, q.at)
		}
	}
	admitted := newBars(r.admitted(), admittedColour)
	limited := newBars(append(turnedAway, r.admitted()...), limitedColour) // the others hide what is admitted of it
	p.Add(limited, admitted)
	p.Legend.Add("admitted", admitted)
	p.Legend.Add("limited", limited)
	return p
}

// newPanel has a line at every full minute.
func newPanel(title, note string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title + "\n" + note
	p.Title.TextStyle.Font.Size = 10
	p.Title.TextStyle.Color = textColour
	p.Title.Padding = vg.Points(4)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = textColour, textColour
		axis.Tick.Label.Font.Size, axis.Tick.Label.Color = 9, textColour
		axis.Label.TextStyle.Font.Size, axis.Label.TextStyle.Color = 9, textColour
	}
	p.X.Label.Text = "seconds"
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = begin, end, 0, tallest
	p.X.Tick.Marker = everyTenSeconds{}
	p.Y.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: 10, Label: "10"}, {Value: 20, Label: "20"}}
	p.Legend.Top = true
	p.Legend.XOffs = -vg.Points(128) // clear of the line at 120 s
	p.Legend.TextStyle.Font.Size, p.Legend.TextStyle.Color = 9, textColour
	p.Legend.Padding = vg.Points(2)

	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	grid.Horizontal.Color = gridColour
	p.Add(grid)
	for at := minute; at < end; at += minute {
		line := &plotter.Line{XYs: plotter.XYs{{X: at, Y: 0}, {X: at, Y: tallest}}, LineStyle: draw.LineStyle{
			Color: minuteColour, Width: vg.Points(0.8), Dashes: []vg.Length{vg.Points(3), vg.Points(3)}}}
		p.Add(line)
	}
	return p
}

// newBars counts instants by bin.
func newBars(at []float64, colour color.Color) *plotter.Histogram {
	counts := map[int]float64{}
	for _, t := range at {
		counts[int((t-begin)/binWidth)]++
	}
	bars := &plotter.Histogram{FillColor: colour, LineStyle: draw.LineStyle{Color: color.White, Width: vg.Points(0.5)}}
	for _, bin := range slices.Sorted(maps.Keys(counts)) {
		from := begin + float64(bin)*binWidth
		if from < end {
			bars.Bins = append(bars.Bins, plotter.HistogramBin{Min: from, Max: from + binWidth, Weight: counts[bin]})
		}
	}
	return bars
}

type everyTenSeconds struct{}

func (everyTenSeconds) Ticks(least, greatest float64) (ticks []plot.Tick) {
	for t := least; t <= greatest; t += 10 {
		ticks = append(ticks, plot.Tick{Value: t, Label: fmt.Sprint(t)})
	}
	return ticks
}
