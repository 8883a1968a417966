// Package twins_test makes the same calls in two places, which have to answer alike: a server, the module without one,
// the naive model, and another version.
package twins_test

import (
	"testing"

	"redis-throttle/tests/kit"
)

func TestMain(m *testing.M) { kit.Run(m) }
