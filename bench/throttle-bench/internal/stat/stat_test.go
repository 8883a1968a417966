package stat_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/bench/throttle-bench/internal/stat"
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
		assert.Equal(t, tt.want, stat.Median(tt.samples), "%v", tt.samples)
	}
	assert.True(t, math.IsNaN(stat.Median(nil)))
}

func TestMedianLeavesTheSamplesInTheirOrder(t *testing.T) {
	samples := []float64{3, 1, 2}
	stat.Median(samples)
	assert.Equal(t, []float64{3, 1, 2}, samples)
}

func TestSummaryOfNothingIsNotANumber(t *testing.T) {
	s := stat.Summarize(nil)
	assert.True(t, math.IsNaN(s.Median) && math.IsNaN(s.Min) && math.IsNaN(s.Max))
	assert.Equal(t, stat.Summary{Median: 2, Min: 1, Max: 6}, stat.Summarize([]float64{6, 1, 2}))
}

func TestARoundThatIsSlowForAllLeavesTheRatioAlone(t *testing.T) {
	set, throttle := []float64{1, 1, 10}, []float64{2, 2, 20}
	assert.Equal(t, []float64{2, 2, 2}, stat.Ratios(throttle, set))
	assert.Len(t, stat.Ratios(throttle, set[:1]), 1)
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]int, 100)
	thousand := make([]int, 1000)
	for i := range thousand {
		thousand[i] = i + 1
		hundred[i%100] = i%100 + 1
	}
	for _, tt := range []struct {
		sorted []int
		p      float64
		want   int
	}{
		{hundred, 50, 50},
		{hundred, 95, 95},
		{hundred, 99, 99},
		{hundred, 99.9, 100},
		{hundred, 100, 100},
		{hundred, 0.1, 1},
		{thousand, 99.9, 999},
		{thousand, 99.91, 1000},
		{[]int{5}, 50, 5},
		{[]int{5, 6, 7}, 50, 6},
	} {
		assert.Equal(t, tt.want, stat.Percentile(tt.sorted, tt.p), "p%v of %d", tt.p, len(tt.sorted))
	}
}
