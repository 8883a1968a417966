package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/bench/internal/must"
)

func countsOf(t *testing.T, text string) (counts map[metric]float64, err error) {
	path := filepath.Join(t.TempDir(), "counts")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	defer must.Catch(&err)
	return readCounts(path), nil
}

func TestCountsAreTheTotalsByTheNameOfTheEvent(t *testing.T) {
	counts, err := countsOf(t, "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr\nfn=main\n7 1 2\nsummary: 1000 300 200 50 7 4 3\n")
	require.NoError(t, err)
	assert.Equal(t, map[metric]float64{metricInstructions: 1000, metricI1: 50, metricD1: 11}, counts)
}
