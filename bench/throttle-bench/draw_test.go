package main

import (
	"encoding/json"
	"image/color"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/bench/internal/svg"
)

func TestColoursTellWhoseCommandItIs(t *testing.T) {
	list := slices.Concat(contenders, peerContenders("x.so", "CL.THROTTLE", peerTemplate))
	got := map[string]color.Color{}
	for _, c := range list {
		got[c.Name] = c.colour()
	}
	for name, want := range map[string]color.Color{
		"SET PX":                                 colourOfServer,
		"floor denied":                           colourOfServer,
		"ZADD, 100 holders":                      colourOfServer,
		"ZREM, 10,000 holders":                   colourOfServer,
		"CL.LEASE, 100 holders":                  coloursOfOurs[0],
		"CL.SETTLE, 100 holders":                 coloursOfOurs[0],
		"Lua semaphore, 100 holders":             colourOfLua,
		"Lua admission, 100 holders":             colourOfLua,
		"Lua GCRA of two keys, allowed":          colourOfLua,
		"x: CL.THROTTLE allowed":                 colourOfPeers,
		"cl_throttle allowed":                    coloursOfOurs[1],
		"cl_limit as a script, allowed, COMPACT": coloursOfOurs[1],
		"Lua GCRA without the module, allowed":   colourOfLua,
		"CL.THROTTLE allowed":                    coloursOfOurs[0],
		"Lua semaphore limited, 10,000 holders":  colourOfLua,
	} {
		require.Contains(t, got, name)
		assert.Equal(t, want, got[name], name)
	}
}

func TestLinesOfACurveDiffer(t *testing.T) {
	for _, c := range allCurves {
		colours := curveColours(c.Contenders)
		assert.Equal(t, color.Color(colourOfServer), colours[0], "%s: SET", c.Name)
		for i := range colours {
			assert.NotContains(t, colours[:i], colours[i], c.Name)
		}
	}
}

// A legend names the colours that a chart has, also where it is drawn again from its results, which hold only a part of a contender.
func TestTheLegendNamesTheColoursOfAChart(t *testing.T) {
	leases := slices.DeleteFunc(slices.Clone(contenders), func(c contender) bool { return c.Group != "leases" })
	require.NotEmpty(t, leases)
	text, err := json.Marshal(leases)
	require.NoError(t, err)
	var list []contender
	require.NoError(t, json.Unmarshal(text, &list))
	assert.Equal(t, []svg.Key{
		{Label: "this module", Colour: coloursOfOurs[0]},
		{Label: "commands of the server", Colour: colourOfServer},
		{Label: "Lua scripts", Colour: colourOfLua},
	}, legend(list))
}
