package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
