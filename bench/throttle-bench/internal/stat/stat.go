// Package stat is the little statistics that repeated measurements need.
package stat

import (
	"math"
	"slices"
)

// Summary is what a table says of repeated measurements of one thing.
type Summary struct{ Median, Min, Max float64 }

// Summarize returns NaNs for no samples.
func Summarize(samples []float64) Summary {
	if len(samples) == 0 {
		return Summary{math.NaN(), math.NaN(), math.NaN()}
	}
	return Summary{Median(samples), slices.Min(samples), slices.Max(samples)}
}

// Median is the middle one, or the mean of the two in the middle; NaN for none.
func Median(samples []float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(samples))
	middle := len(s) / 2
	if len(s)%2 == 1 {
		return s[middle]
	}
	return (s[middle-1] + s[middle]) / 2
}

// Ratios divides round by round: what slowed down a whole round cancels.
func Ratios(samples, base []float64) []float64 {
	n := min(len(samples), len(base))
	ratios := make([]float64, n)
	for i := range n {
		ratios[i] = samples[i] / base[i]
	}
	return ratios
}

// Percentile is the smallest of the sorted samples that p percent of them do not
// exceed (nearest rank). p is above 0 and at most 100; there is at least one sample.
func Percentile[T any](sorted []T, p float64) T {
	// The tolerance keeps 99.9 % of 1000 at rank 999 though 99.9/100 is no binary fraction.
	rank := math.Ceil(p/100*float64(len(sorted)) - 1e-9)
	return sorted[int(max(rank, 1))-1]
}
