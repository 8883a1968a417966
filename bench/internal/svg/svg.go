// Package svg is the common look of the benchmark's charts and the picture. Each is written
// twice, for light pages and for dark ones, and needs no font of the reader's.
package svg

import (
	"bytes"
	"image/color"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
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

// TextSize is the size of all text but titles, in points.
const TextSize = 9

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

// Key is a row of the legend: what is drawn in a colour.
type Key struct {
	Label  string
	Colour color.Color
}

const (
	border, between = 8, 16
	legendHeight    = 24
)

// Write draws rows of plots, aligned, below one legend for all of them, to a file for light
// pages and, as NAME-dark.svg, to one for dark ones. The title is for readers who do not see
// the picture.
func Write(path, title string, width, height vg.Length, legend []Key, rows [][]*plot.Plot) {
	canvas := vgsvg.New(width, height)
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	drawLegend(c, legend)
	tiles := draw.Tiles{
		Rows: len(rows), Cols: len(rows[0]), PadX: between, PadY: between,
		PadTop: border, PadBottom: border, PadLeft: border, PadRight: border,
	}
	if len(legend) > 0 {
		tiles.PadTop += legendHeight
	}
	for i, row := range plot.Align(rows, tiles, c) {
		for j, cell := range row {
			// White behind each plot would cover the legend.
			rows[i][j].BackgroundColor = nil
			rows[i][j].Draw(cell)
		}
	}
	var drawn bytes.Buffer
	must.Get(canvas.WriteTo(&drawn))
	text := outlined(titled(drawn.String(), title))
	must.Do(os.WriteFile(path, []byte(text), 0o644))
	must.Do(os.WriteFile(DarkPath(path), []byte(darkened(text)), 0o644))
}

// drawLegend writes a line of keys in the middle of the upper edge.
func drawLegend(c draw.Canvas, legend []Key) {
	style := draw.TextStyle{Color: TextColour, Font: font.From(plot.DefaultFont, TextSize), Handler: plot.DefaultTextHandler, YAlign: draw.YCenter}
	const swatch, gap, apart = 9, 5, 22
	var wide vg.Length
	for _, key := range legend {
		wide += swatch + gap + style.Width(key.Label) + apart
	}
	at := vg.Point{X: c.Center().X - (wide-apart)/2, Y: c.Max.Y - border - legendHeight/2}
	for _, key := range legend {
		c.FillPolygon(key.Colour, []vg.Point{
			{X: at.X, Y: at.Y - swatch/2}, {X: at.X + swatch, Y: at.Y - swatch/2},
			{X: at.X + swatch, Y: at.Y + swatch/2}, {X: at.X, Y: at.Y + swatch/2},
		})
		c.FillText(style, at.Add(vg.Point{X: swatch + gap, Y: 0.5}), key.Label)
		at.X += swatch + gap + style.Width(key.Label) + apart
	}
}

// DarkPath is where Write puts the picture for dark pages.
func DarkPath(path string) string { return strings.TrimSuffix(path, ".svg") + "-dark.svg" }

// What each colour is on a dark page.
var darkened = strings.NewReplacer(
	"#FFFFFF", "#0D1117", // the page
	"#333333", "#E6EDF3", // text
	"#DDDDDD", "#30363D", // grid
	"#666666", "#9BA5B0",
	"#888888", "#8B949E",
	"#999999", "#8B949E",
	"#0072B2", "#58A6FF",
	"#E69F00", "#F0B429",
	"#009E73", "#3FB98E",
	"#CC79A7", "#E39BC3",
).Replace
