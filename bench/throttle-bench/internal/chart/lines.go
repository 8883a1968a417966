package chart

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Panel is one of the charts with lines that stand side by side.
type Panel struct {
	Title  string
	XAxis  string
	YAxis  string
	Log    bool     // x by powers of ten
	Names  []string // of the places on the x axis; empty for numbers
	Series []Series
}

// Series is a line with the range of each of its points.
type Series struct {
	Name   string
	Points []Point
}

// Point is a value with its range.
type Point struct{ X, Y, Min, Max float64 }

// DrawPanels writes rows of panels to a file; each row has as many.
func DrawPanels(path string, rows [][]Panel) error {
	canvas, c := newCanvas(3.7 * vg.Inch * vg.Length(len(rows)))
	plots := make([][]*plot.Plot, len(rows))
	for i, row := range rows {
		for _, panel := range row {
			p, err := panel.plot()
			if err != nil {
				return err
			}
			plots[i] = append(plots[i], p)
		}
	}
	tiles := draw.Tiles{Rows: len(rows), Cols: len(rows[0]), PadX: vg.Points(14), PadY: vg.Points(14)}
	for i, row := range plot.Align(plots, tiles, c) {
		for j, cell := range row {
			plots[i][j].Draw(cell)
		}
	}
	return save(path, canvas)
}

func (panel Panel) plot() (*plot.Plot, error) {
	p := newPlot(panel.Title)
	p.X.Label.Text, p.Y.Label.Text = panel.XAxis, panel.YAxis
	p.Y.Min = 0
	if panel.Log {
		p.X.Scale = plot.LogScale{}
		p.X.Tick.Marker = powersOfTen{}
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = gridColour, gridColour
	p.Add(grid)
	highest := 0.0
	for i, s := range panel.Series {
		line, points, bars, err := s.plotters()
		if err != nil {
			return nil, err
		}
		line.Color, points.Color, bars.Color = Colour(i), Colour(i), Colour(i)
		line.Width = vg.Points(1.6)
		points.Shape, points.Radius = draw.CircleGlyph{}, vg.Points(2.5)
		p.Add(line, points, bars)
		p.Legend.Add(s.Name, line, points)
		for _, q := range s.Points {
			highest = max(highest, q.Max)
		}
	}
	p.Y.Max = highest * 1.35 // room for the legend
	if len(panel.Names) > 0 {
		p.NominalX(panel.Names...)
		p.X.Min, p.X.Max = -0.4, float64(len(panel.Names))-0.6
	}
	return p, nil
}

func (s Series) plotters() (*plotter.Line, *plotter.Scatter, *plotter.YErrorBars, error) {
	values := plotter.XYs{}
	errors := plotter.YErrors{}
	for _, p := range s.Points {
		values = append(values, plotter.XY{X: p.X, Y: p.Y})
		errors = append(errors, struct{ Low, High float64 }{p.Y - p.Min, p.Max - p.Y})
	}
	line, points, err := plotter.NewLinePoints(values)
	if err != nil {
		return nil, nil, nil, err
	}
	bars, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{values, errors})
	return line, points, bars, err
}

// powersOfTen marks and names only those.
type powersOfTen struct{}

func (powersOfTen) Ticks(least, greatest float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(greatest)); e++ {
		value := math.Pow(10, e)
		label := fmt.Sprintf("%.0f", value)
		if e >= 3 {
			label = fmt.Sprintf("10^%.0f", e)
		}
		ticks = append(ticks, plot.Tick{Value: value, Label: label})
	}
	return ticks
}
