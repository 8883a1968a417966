package main

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"redis-throttle/bench/internal/svg"
)

// flow is boxes and the arrows between them, in points from the lower left.
type flow struct {
	boxes  []box
	arrows []arrow
}

type box struct {
	x, y, width, height vg.Length
	ours                bool
	lines               []string
}

type arrow struct {
	from, to vg.Point
	words    string // in the middle of it
	above    vg.Length
}

// gatewayPicture shows how a request passes a proxy that asks throttle-gateway.
func gatewayPicture(path string) {
	pt := func(x, y vg.Length) vg.Point { return vg.Point{X: x, Y: y} }
	const over, below = 7, -8
	f := flow{
		boxes: []box{
			{x: 95, y: 78, width: 125, height: 58, lines: []string{"your proxy", "Envoy, nginx, Caddy,", "HAProxy, Traefik"}},
			{x: 320, y: 78, width: 115, height: 58, ours: true, lines: []string{"throttle-gateway", "limits as YAML"}},
			{x: 535, y: 78, width: 115, height: 58, ours: true, lines: []string{"Redis or Valkey", "with throttle.so"}},
			{x: 95, y: 4, width: 125, height: 34, lines: []string{"your service"}},
		},
		arrows: []arrow{
			{pt(2, 120), pt(94, 120), "a request", over}, {pt(94, 94), pt(2, 94), "429, when to retry", below},
			{pt(221, 120), pt(319, 120), "may it pass?", over}, {pt(319, 94), pt(221, 94), "yes, or no", below},
			{pt(436, 120), pt(534, 120), "one command", over}, {pt(534, 94), pt(436, 94), "all or none", below},
			{pt(157, 77), pt(157, 39), "", 0},
		},
	}
	p := svg.NewPlot("")
	p.HideAxes()
	p.Add(f)
	svg.Write(path, "A request comes to your proxy, which asks throttle-gateway whether it may pass. That is one command to Redis or Valkey, which charges all limits or none. What may pass goes on to your service",
		668, 158, nil, [][]*plot.Plot{{p}})
}

// Plot draws the boxes and arrows, at their places on the canvas.
func (f flow) Plot(c draw.Canvas, _ *plot.Plot) {
	style := draw.TextStyle{Color: svg.TextColour, Font: font.From(plot.DefaultFont, svg.TextSize), Handler: plot.DefaultTextHandler,
		XAlign: draw.XCenter, YAlign: draw.YCenter}
	place := func(at vg.Point) vg.Point { return at.Add(c.Min) }
	for _, b := range f.boxes {
		line := draw.LineStyle{Color: minuteColour, Width: 1}
		if b.ours {
			line = draw.LineStyle{Color: svg.Palette[0], Width: 2}
		}
		low, high := place(vg.Point{X: b.x, Y: b.y}), place(vg.Point{X: b.x + b.width, Y: b.y + b.height})
		c.StrokeLines(line, []vg.Point{low, {X: high.X, Y: low.Y}, high, {X: low.X, Y: high.Y}, low})
		const apart = 14
		top := (low.Y+high.Y)/2 + apart*vg.Length(len(b.lines)-1)/2
		for i, words := range b.lines {
			c.FillText(style, vg.Point{X: (low.X + high.X) / 2, Y: top - apart*vg.Length(i)}, words)
		}
	}
	for _, a := range f.arrows {
		from, to := place(a.from), place(a.to)
		c.StrokeLine2(draw.LineStyle{Color: minuteColour, Width: 1}, from.X, from.Y, to.X, to.Y)
		const long, wide = 6, 3
		along, across := vg.Point{X: 1}, vg.Point{Y: 1}
		switch {
		case to.X < from.X:
			along = vg.Point{X: -1}
		case to.Y < from.Y:
			along, across = vg.Point{Y: -1}, vg.Point{X: 1}
		}
		back := to.Sub(along.Scale(long))
		c.FillPolygon(minuteColour, []vg.Point{to, back.Add(across.Scale(wide)), back.Sub(across.Scale(wide))})
		c.FillText(style, vg.Point{X: (from.X + to.X) / 2, Y: (from.Y+to.Y)/2 + a.above}, a.words)
	}
}
