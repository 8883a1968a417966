package main

import (
	"fmt"
	"image/color"
	"maps"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"redis-throttle/bench/internal/svg"
)

// What the panels show, in the picture's seconds.
const (
	begin    = 50.0
	end      = 160.0
	binWidth = 2.0
	tallest  = 22.0 // requests in one bin, with some air
)

var (
	admittedColour = svg.Palette[0]
	limitedColour  = svg.Palette[1]
	reservedColour = svg.Palette[2]
	offeredColour  = color.Gray{Y: 0x88}
	minuteColour   = color.Gray{Y: 0x66}
)

// picture writes one panel for the traffic, and one for each limiter.
func picture(path string, results []result) {
	panels := []*plot.Plot{trafficPanel(results[0])}
	for _, r := range results {
		panels = append(panels, limiterPanel(r))
	}
	rows := slices.Collect(slices.Chunk(panels, 2))
	svg.Write(path, "Requests in each two seconds: what comes, and what each kind of limit admits, reserves for later and limits",
		10*vg.Inch, vg.Length(len(rows))*2.2*vg.Inch+vg.Points(24), []svg.Key{
			{Label: "requests in 2 s", Colour: offeredColour},
			{Label: "admitted at once", Colour: admittedColour},
			{Label: "reserved: admitted when its turn comes", Colour: reservedColour},
			{Label: "limited", Colour: limitedColour},
		}, rows)
}

func trafficPanel(r result) *plot.Plot {
	p := newPanel("What comes", "20 in second 58, 20 in second 62, then 1 a second")
	var offered []float64
	for _, q := range r.requests {
		offered = append(offered, q.at)
	}
	p.Add(newBars(offered, offeredColour))
	return p
}

// limiterPanel stacks what is admitted at once, what is admitted later, at the time when it
// is, and what is limited.
func limiterPanel(r result) *plot.Plot {
	note := fmt.Sprintf("%s; %d in the fullest minute", r.limiter.note, r.fullestMinute())
	p := newPanel(r.limiter.words, note)
	var limited, reserved, atOnce []float64
	for _, q := range r.requests {
		switch {
		case q.limited:
			limited = append(limited, q.at)
		case q.wait > 0:
			reserved = append(reserved, q.served())
		default:
			atOnce = append(atOnce, q.at)
		}
	}
	// Each hides the part of those behind it that it has in common with them.
	p.Add(newBars(slices.Concat(limited, reserved, atOnce), limitedColour))
	p.Add(newBars(slices.Concat(reserved, atOnce), reservedColour))
	p.Add(newBars(atOnce, admittedColour))
	return p
}

// newPanel has a line at every full minute.
func newPanel(title, note string) *plot.Plot {
	p := svg.NewPlot(title + "\n" + note)
	p.X.Label.Text = "seconds"
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = begin, end, 0, tallest
	p.X.Tick.Marker = everyTenSeconds{}
	p.Y.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: 10, Label: "10"}, {Value: 20, Label: "20"}}
	svg.Grid(p, false, true)
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
