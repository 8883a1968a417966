// Package charge says what a call costs.
package charge

// Units is how many units a call takes or gives back by its fields Cost and NoCost: Cost, 1 where that is 0, or 0 with NoCost.
func Units(cost int64, noCost bool) int64 {
	switch {
	case noCost:
		return 0
	case cost == 0:
		return 1
	}
	return cost
}
