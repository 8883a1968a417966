package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMedianIsTheMiddleOrTheMeanOfTheTwoInTheMiddle(t *testing.T) {
	for _, tt := range []struct {
		samples []float64
		want    float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1, 1, 1, 1000}, 1},
	} {
		assert.Equal(t, tt.want, summarize(tt.samples).median, "%v", tt.samples)
	}
	assert.True(t, math.IsNaN(summarize(nil).median))
}

func TestARoundThatIsSlowForAllLeavesTheRatioAlone(t *testing.T) {
	set, throttle := []float64{1, 1, 10}, []float64{2, 2, 20}
	assert.Equal(t, []float64{2, 2, 2}, ratios(throttle, set))
	assert.Len(t, ratios(throttle, set[:1]), 1)
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]float64, 100)
	thousand := make([]float64, 1000)
	for i := range thousand {
		thousand[i] = float64(i + 1)
		hundred[i%100] = float64(i%100 + 1)
	}
	for _, tt := range []struct {
		sorted []float64
		p      float64
		want   float64
	}{
		{hundred, 50, 50},
		{hundred, 95, 95},
		{hundred, 99, 99},
		{hundred, 99.9, 100},
		{hundred, 100, 100},
		{hundred, 0.1, 1},
		{thousand, 99.9, 999},
		{thousand, 99.91, 1000},
		{[]float64{5}, 50, 5},
		{[]float64{5, 6, 7}, 50, 6},
	} {
		assert.Equal(t, tt.want, percentile(tt.sorted, tt.p), "p%v of %d", tt.p, len(tt.sorted))
	}
}
