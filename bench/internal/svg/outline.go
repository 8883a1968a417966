package svg

import (
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot"
	plotfont "gonum.org/v1/plot/font"

	"redis-throttle/bench/internal/must"
)

var (
	textElement = regexp.MustCompile(`<text x="([^"]*)" y="([^"]*)" transform="scale\(1, -1\)"\s+style="([^"]*)">([^<]*)</text>`)
	sizeStyle   = regexp.MustCompile(`font-size:([0-9.]+)px`)
	fillStyle   = regexp.MustCompile(`fill:(#[0-9A-F]{6})`)
	opening     = regexp.MustCompile(`<svg [^>]*>\n`)
)

// titled gives the picture a title for readers who do not see it.
func titled(svg, title string) string {
	return opening.ReplaceAllStringFunc(svg, func(tag string) string {
		return strings.Replace(tag, "<svg ", `<svg role="img" `, 1) + "<title>" + html.EscapeString(title) + "</title>\n"
	})
}

// outlined replaces text by the outlines of its letters, of the font that the layout was
// measured with. The same letter is in the file once.
func outlined(svg string) string {
	o := outliner{font: plotfont.DefaultCache.Lookup(plot.DefaultFont, TextSize).Face, paths: map[sfnt.GlyphIndex]string{}}
	svg = textElement.ReplaceAllStringFunc(svg, func(element string) string {
		m := textElement.FindStringSubmatch(element)
		size := must.Get(strconv.ParseFloat(sizeStyle.FindStringSubmatch(m[3])[1], 64))
		fill := "#000000"
		if f := fillStyle.FindStringSubmatch(m[3]); f != nil {
			fill = f[1]
		}
		y := must.Get(strconv.ParseFloat(m[2], 64))
		return o.line(html.UnescapeString(m[4]), m[1], -y, size, fill)
	})
	var defs strings.Builder
	for _, glyph := range slices.Sorted(maps.Keys(o.paths)) {
		fmt.Fprintf(&defs, "<path id=\"g%d\" d=\"%s\"/>\n", glyph, o.paths[glyph])
	}
	i := strings.Index(svg, "</title>\n") + len("</title>\n")
	return svg[:i] + "<defs>\n" + defs.String() + "</defs>\n" + svg[i:]
}

type outliner struct {
	font   *sfnt.Font
	buffer sfnt.Buffer
	paths  map[sfnt.GlyphIndex]string // of the letters that were used, in units of the font
}

// scale has the font answer in its own units.
func (o *outliner) scale() fixed.Int26_6 { return fixed.I(int(o.font.UnitsPerEm())) }

// line is a group of letters, each moved to its place on the line; it says what they spell. The picture's origin is
// below, as that of letters is.
func (o *outliner) line(text, x string, y, size float64, fill string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<g aria-label="%s" fill="%s" transform="translate(%s,%.5g) scale(%.5g)">`,
		html.EscapeString(text), fill, x, y, size/float64(o.font.UnitsPerEm()))
	var at fixed.Int26_6
	var before sfnt.GlyphIndex
	for i, letter := range text {
		glyph := must.Get(o.font.GlyphIndex(&o.buffer, letter))
		if glyph == 0 {
			must.Fail("the font has no letter for %q in %q", letter, text)
		}
		if i > 0 {
			if kern, err := o.font.Kern(&o.buffer, before, glyph, o.scale(), font.HintingNone); err == nil {
				at += kern
			}
		}
		if o.path(glyph) != "" { // a blank has none
			fmt.Fprintf(&b, `<use xlink:href="#g%d" x="%d"/>`, glyph, at.Round())
		}
		at += must.Get(o.font.GlyphAdvance(&o.buffer, glyph, o.scale(), font.HintingNone))
		before = glyph
	}
	b.WriteString("</g>")
	return b.String()
}

// path is the outline of a letter.
func (o *outliner) path(glyph sfnt.GlyphIndex) string {
	if path, ok := o.paths[glyph]; ok {
		return path
	}
	var b strings.Builder
	for _, s := range must.Get(o.font.LoadGlyph(&o.buffer, glyph, o.scale(), nil)) {
		verb, points := "Z", 0
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			verb, points = "M", 1
		case sfnt.SegmentOpLineTo:
			verb, points = "L", 1
		case sfnt.SegmentOpQuadTo:
			verb, points = "Q", 2
		case sfnt.SegmentOpCubeTo:
			verb, points = "C", 3
		}
		b.WriteString(verb)
		for i, p := range s.Args[:points] {
			if i > 0 {
				b.WriteByte(' ')
			}
			fmt.Fprintf(&b, "%d %d", p.X.Round(), -p.Y.Round())
		}
	}
	if b.Len() > 0 {
		o.paths[glyph] = b.String() + "Z"
	}
	return o.paths[glyph]
}
