// Package neighbours_test tries the module beside other modules: calls in the middle of its own, keys that they change,
// and events that they hear. Package neighbour is such a module.
package neighbours_test

import (
	"testing"

	"redis-throttle/tests/kit"
)

func TestMain(m *testing.M) { kit.Run(m) }
