// Package wait_test tries who of the callers of CL.WAIT, and of CL.LEASE with a TIMEOUT, is let in, and when.
package wait_test

import (
	"testing"

	"redis-throttle/tests/kit"
)

func TestMain(m *testing.M) { kit.Run(m) }
