package replay

import "slices"

// series divides the time of a log into equal parts.
type series struct {
	startNs, widthNs int64
	n                int
}

// widthsNs are the lengths that parts can have.
var widthsNs = []int64{1e9, 2e9, 5e9, 10e9, 15e9, 30e9, minuteNs, 2 * minuteNs, 5 * minuteNs, 10 * minuteNs, 15 * minuteNs, 30 * minuteNs, hourNs,
	2 * hourNs, 3 * hourNs, 6 * hourNs, 12 * hourNs,
	dayNs, 2 * dayNs, 7 * dayNs, 14 * dayNs, 28 * dayNs, 56 * dayNs, 364 * dayNs}

const (
	minuteNs = int64(60e9)
	hourNs   = 60 * minuteNs
	dayNs    = 24 * hourNs
)

// mostParts is how many parts there are at most, unless the log is of many years.
const mostParts = 180

func newSeries(firstNs, lastNs int64) series {
	at := slices.IndexFunc(widthsNs, func(width int64) bool { return lastNs/width-firstNs/width < mostParts })
	if at < 0 {
		at = len(widthsNs) - 1
	}
	width := widthsNs[at]
	return series{firstNs / width * width, width, int(lastNs/width-firstNs/width) + 1}
}

func (s *series) index(ns int64) int { return int((ns - s.startNs) / s.widthNs) }
