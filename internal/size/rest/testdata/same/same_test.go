package same

import "testing"

func TestOfSame(*testing.T) {}

// The name of a test that asks, in another package.
func TestAsks(*testing.T) {}
