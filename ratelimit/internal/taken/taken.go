// Package taken says what a call costs.
package taken

// Of returns how many units a call takes or gives back by its fields Cost and NoCost: Cost, 1 where that is 0, or 0
// with NoCost.
func Of(cost int64, noCost bool) int64 {
	switch {
	case noCost:
		return 0
	case cost == 0:
		return 1
	}
	return cost
}
