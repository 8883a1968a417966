package svg

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// drawn is a picture with all that charts have, for light pages and for dark ones.
func drawn(t *testing.T) (light, dark string) {
	t.Helper()
	p := NewPlot("A < B & C × D")
	Grid(p, true, true)
	p.X.Label.Text, p.Y.Label.Text = "seconds", "us"
	bars, err := plotter.NewBarChart(plotter.Values{1, 2, 3}, 10)
	require.NoError(t, err)
	bars.Color, bars.LineStyle.Color = Palette[0], TextColour
	p.Add(bars)
	path := filepath.Join(t.TempDir(), "a.svg")
	Write(path, "What <it> shows", 4*vg.Inch, 3*vg.Inch, []Key{{"ours", Palette[0]}, {"theirs", Palette[1]}}, [][]*plot.Plot{{p}})
	for _, file := range []struct {
		path string
		text *string
	}{{path, &light}, {DarkPath(path), &dark}} {
		text, err := os.ReadFile(file.path)
		require.NoError(t, err)
		*file.text = string(text)
	}
	return light, dark
}

func TestPicturesNeedNoFont(t *testing.T) {
	light, dark := drawn(t)
	for _, text := range []string{light, dark} {
		assert.NotContains(t, text, "<text")
		assert.NotContains(t, text, "font")
		assert.Contains(t, text, "<title>What &lt;it&gt; shows</title>")
		defined := map[string]bool{}
		for _, m := range regexp.MustCompile(`<path id="(g\d+)" d="M`).FindAllStringSubmatch(text, -1) {
			assert.False(t, defined[m[1]], "a letter is there once")
			defined[m[1]] = true
		}
		for _, m := range regexp.MustCompile(`xlink:href="#(g\d+)"`).FindAllStringSubmatch(text, -1) {
			assert.True(t, defined[m[1]], m[1])
		}
		assert.Greater(t, len(defined), 10)
		decoder := xml.NewDecoder(strings.NewReader(text))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else {
				require.NoError(t, err)
			}
		}
	}
}
