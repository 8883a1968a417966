package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMedianIsTheMiddleOrTheMeanOfTheTwoInTheMiddle(t *testing.T) {
	assert.Equal(t, 2.0, summarize([]float64{9, 1, 2}).median)
	assert.Equal(t, 2.5, summarize([]float64{4, 1, 3, 2}).median)
}

func TestARoundThatIsSlowForAllLeavesTheRatioAlone(t *testing.T) {
	set, throttle := []float64{1, 1, 10}, []float64{2, 2, 20}
	assert.Equal(t, []float64{2, 2, 2}, ratios(throttle, set))
	assert.Len(t, ratios(throttle, set[:1]), 1)
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	sorted := make([]float64, 1000)
	for i := range sorted {
		sorted[i] = float64(i + 1)
	}
	for p, want := range map[float64]float64{0.01: 1, 50: 500, 99.9: 999, 99.91: 1000, 100: 1000} {
		assert.Equal(t, want, percentile(sorted, p), "p%v", p)
	}
}
