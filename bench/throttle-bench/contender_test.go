package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryContenderIsComplete(t *testing.T) {
	lists := [][]contender{contenders, peerContenders("x.so", "X", peerTemplate)}
	for _, c := range allCurves {
		lists = append(lists, c.Contenders)
	}
	for _, list := range lists {
		var names []string
		for _, c := range list {
			assert.NotContains(t, names, c.Name, "names tell contenders apart")
			names = append(names, c.Name)
			assert.NotEmpty(t, kinds[c.Kind].Reply, "%s: nothing verifies its replies", c.Name)
			assert.Contains(t, []string{"always", "never", ""}, kinds[c.Kind].Writes, c.Name)
			assert.NotEmpty(t, c.Group, c.Name)
			e := entrant{contender: c}
			for _, call := range e.calls(slices.Concat(c.sequence(), c.Setup, c.Keeps)) {
				assert.Empty(t, strings.Trim(strings.NewReplacer(" ", "", "{n}", "").Replace(fill(call, 0, 0)), allButBraces), "%s: an unknown placeholder in %s", c.Name, call)
			}
			assert.NotContains(t, strings.Join(slices.Concat([]string{""}, c.Before, c.After), "\n")+" ", "\n"+c.command()+" ", "%s: the server counts by command", c.Name)
			assert.Len(t, c.replies(), len(c.sequence()), c.Name)
			assert.Equal(t, c.Script != "", strings.Contains(strings.Join(append(c.Setup, c.Call), " "), "{sha}"), "%s: a script and its SHA go together", c.Name)
			if c.Script != "" {
				assert.True(t, strings.HasPrefix(scriptOf(c.Script), "-- "), "%s opens with what it is", c.Script)
			}
		}
		for _, c := range list {
			assert.True(t, c.Beside == "" || slices.Contains(names, c.Beside), "%s: nothing to set it beside", c.Name)
		}
		assert.True(t, slices.Contains(names, baseline) || list[0].Group == groupPeer, "ratios need the baseline")
	}
}

const allButBraces = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:_/-"

func TestPeersAreWordsWithAnOptionalTemplate(t *testing.T) {
	got, err := parsePeers(" /a/libredis_cell.so:CL.THROTTLE /b/rater.so:RATER.LIMIT {key} {count} {period}  /c/x.so:X {key} ")
	require.NoError(t, err)
	var calls []string
	for _, c := range got {
		calls = append(calls, c.Host+" "+c.Call)
		assert.Equal(t, groupPeer, c.Group)
	}
	assert.Equal(t, []string{
		"/a/libredis_cell.so CL.THROTTLE {key} 999 1000 60 1",
		"/a/libredis_cell.so CL.THROTTLE {key} 0 1 3600 1",
		"/b/rater.so RATER.LIMIT {key} 1000 60",
		"/b/rater.so RATER.LIMIT {key} 1 3600",
		"/c/x.so X {key}",
		"/c/x.so X {key}",
	}, calls)
	assert.Equal(t, "libredis_cell: CL.THROTTLE allowed", got[0].Name)

	none, err := parsePeers("")
	require.NoError(t, err)
	assert.Empty(t, none)
	for _, bad := range []string{"x.so", "x.so:", ":CL.THROTTLE", ".so:X", "CL.THROTTLE {key}", "x.so:X {count}"} {
		_, err := parsePeers(bad)
		assert.ErrorContains(t, err, "peers", bad)
	}
}
