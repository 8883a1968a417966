// Package svg is the common look of the benchmark's charts and the picture.
package svg

import (
	"bytes"
	"image/color"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"redis-throttle/bench/internal/must"
)

// Palette is distinct also for colour-blind readers (Okabe and Ito).
var Palette = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xB2, A: 0xFF}, // blue
	color.RGBA{R: 0xE6, G: 0x9F, B: 0x00, A: 0xFF}, // orange
	color.RGBA{R: 0x00, G: 0x9E, B: 0x73, A: 0xFF}, // green
	color.RGBA{R: 0xCC, G: 0x79, B: 0xA7, A: 0xFF}, // purple
}

// The colours of what is no data.
var (
	GridColour = color.Gray{Y: 0xDD}
	TextColour = color.Gray{Y: 0x33}
)

// TextSize is that of all text but titles, in points.
const TextSize = 9

// The SVG names just the font that the layout was measured with. Where that is not
// installed, Arial has the same widths.
const (
	layoutFont = "font-family:Liberation Sans;"
	fontFamily = "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"
)

func init() {
	plot.DefaultFont.Variant = "Sans"
	plotter.DefaultFont.Variant = "Sans"
}

// NewPlot is an empty plot.
func NewPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font.Size, p.Title.TextStyle.Color = TextSize+1, TextColour
	p.Title.Padding = vg.Points(6)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = TextColour, TextColour
		axis.Label.TextStyle.Font.Size, axis.Label.TextStyle.Color = TextSize, TextColour
		axis.Tick.Label.Font.Size, axis.Tick.Label.Color = TextSize, TextColour
	}
	p.Legend.Top = true
	p.Legend.TextStyle.Font.Size, p.Legend.TextStyle.Color = TextSize, TextColour
	p.Legend.Padding = vg.Points(2)
	return p
}

// Grid adds lines at the ticks of either axis.
func Grid(p *plot.Plot, vertical, horizontal bool) {
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = nil, nil
	if vertical {
		grid.Vertical.Color = GridColour
	}
	if horizontal {
		grid.Horizontal.Color = GridColour
	}
	p.Add(grid)
}

// Write draws rows of plots, aligned, to a file. It is white behind them, so that they
// read on a dark page too.
func Write(path string, width, height vg.Length, rows [][]*plot.Plot) {
	canvas := vgsvg.New(width, height)
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	const border, between = 8, 16
	tiles := draw.Tiles{
		Rows: len(rows), Cols: len(rows[0]), PadX: between, PadY: between,
		PadTop: border, PadBottom: border, PadLeft: border, PadRight: border,
	}
	for i, row := range plot.Align(rows, tiles, c) {
		for j, cell := range row {
			rows[i][j].Draw(cell)
		}
	}
	var text bytes.Buffer
	must.Get(canvas.WriteTo(&text))
	must.Do(os.WriteFile(path, []byte(strings.ReplaceAll(text.String(), layoutFont, fontFamily)), 0o644))
}
