// Package chart draws the benchmark's charts as SVG.
package chart

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
)

const width = 9 * vg.Inch

// Palette is the series' colours: distinct also for colour-blind readers (Okabe and Ito).
var Palette = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xB2, A: 0xFF}, // blue
	color.RGBA{R: 0xE6, G: 0x9F, B: 0x00, A: 0xFF}, // orange
	color.RGBA{R: 0x00, G: 0x9E, B: 0x73, A: 0xFF}, // green
	color.RGBA{R: 0xCC, G: 0x79, B: 0xA7, A: 0xFF}, // purple
	color.RGBA{R: 0xD5, G: 0x5E, B: 0x00, A: 0xFF}, // red
	color.RGBA{R: 0x56, G: 0xB4, B: 0xE9, A: 0xFF}, // light blue
}

// Colour is the palette's, over again when it ends.
func Colour(i int) color.Color { return Palette[i%len(Palette)] }

var (
	gridColour = color.Gray{Y: 0xDD}
	textColour = color.Gray{Y: 0x33}
)

func init() {
	plot.DefaultFont.Variant = "Sans"
	plotter.DefaultFont.Variant = "Sans"
}

// fontFamily: the SVG names just the font that the layout was measured with. Where that
// is not installed, Arial has the same widths.
const (
	layoutFont = "font-family:Liberation Sans;"
	fontFamily = "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"
)

func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = 11
	p.Title.Padding = vg.Points(8)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Size = 10
		axis.Label.TextStyle.Color = textColour
		axis.Tick.Label.Font.Size = 9.5
		axis.Tick.Label.Color = textColour
		axis.LineStyle.Color = textColour
		axis.Tick.LineStyle.Color = textColour
	}
	p.Legend.Top = true
	p.Legend.TextStyle.Font.Size = 9.5
	p.Legend.Padding = vg.Points(2)
	return p
}

func save(path string, canvas *vgsvg.Canvas) error {
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	text := strings.ReplaceAll(svg.String(), layoutFont, fontFamily)
	return os.WriteFile(path, []byte(text), 0o644)
}

// newCanvas is white, so that the chart reads on a dark page too.
func newCanvas(height vg.Length) (*vgsvg.Canvas, draw.Canvas) {
	canvas := vgsvg.New(width, height)
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	return canvas, draw.Crop(c, vg.Points(6), -vg.Points(6), vg.Points(6), -vg.Points(6))
}
