package chart

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Bars is a chart of horizontal bars, the first row on top.
type Bars struct {
	Title  string
	Axis   string
	Rows   []Row
	Series []string // names of each row's bars, for the legend; one needs none
}

// Row is a label and its bars, one for each series.
type Row struct {
	Label string
	Bars  []Bar
}

// Bar is a value with its range; a Bar with an empty Text is not there.
type Bar struct {
	Value, Min, Max float64
	Text            string // written at its end
	Colour          color.Color
}

const (
	barThickness = 13 // points
	rowGap       = 8  // points
)

// Draw writes the chart to a file.
func (b Bars) Draw(path string) error {
	p := newPlot(b.Title)
	p.X.Label.Text = b.Axis
	p.X.Min = 0
	perRow := max(1, len(b.Series))
	rowHeight := vg.Length(perRow*barThickness + rowGap)

	grid := plotter.NewGrid()
	grid.Horizontal.Color = nil
	grid.Vertical.Color = gridColour
	p.Add(grid)

	names := make([]string, len(b.Rows))
	longest := 0.0
	for i, row := range b.Rows {
		place := len(b.Rows) - 1 - i
		names[place] = row.Label
		for j, bar := range row.Bars {
			if bar.Text == "" {
				continue
			}
			longest = max(longest, bar.Value, bar.Max)
			// From the row's middle, in rows.
			offset := (float64(len(row.Bars)-1)/2 - float64(j)) * barThickness / float64(rowHeight)
			if err := addBar(p, bar, float64(place)+offset); err != nil {
				return err
			}
		}
	}
	p.X.Max = longest * 1.22 // room for the texts
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.5, float64(len(b.Rows))-0.5
	for j, name := range b.Series {
		chart, err := plotter.NewBarChart(plotter.Values{0}, 1)
		if err != nil {
			return err
		}
		chart.Color, chart.LineStyle.Width = Colour(j), 0
		p.Legend.Add(name, chart)
	}

	canvas, c := newCanvas(rowHeight*vg.Length(len(b.Rows)) + vg.Points(80))
	p.Draw(c)
	return save(path, canvas)
}

func addBar(p *plot.Plot, bar Bar, at float64) error {
	chart, err := plotter.NewBarChart(plotter.Values{bar.Value}, barThickness-1)
	if err != nil {
		return err
	}
	chart.Horizontal = true
	chart.XMin = at
	chart.Color = bar.Colour
	chart.LineStyle.Width = 0
	whisker, err := plotter.NewLine(plotter.XYs{{X: bar.Min, Y: at}, {X: bar.Max, Y: at}})
	if err != nil {
		return err
	}
	whisker.Color = textColour
	whisker.Width = vg.Points(1)
	text, err := plotter.NewLabels(plotter.XYLabels{
		XYs:    plotter.XYs{{X: max(bar.Value, bar.Max), Y: at}},
		Labels: []string{bar.Text},
	})
	if err != nil {
		return err
	}
	text.TextStyle[0].Font.Size = 9
	text.TextStyle[0].Color = textColour
	text.TextStyle[0].YAlign = draw.YCenter
	text.Offset.X = vg.Points(5)
	text.Offset.Y = vg.Points(1) // digits have no descenders
	p.Add(chart, whisker, text)
	return nil
}
