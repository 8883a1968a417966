// Package line_test tries what becomes of callers in line when something happens: a key that is written by others, a
// clock that steps, a client that leaves, a server that changes its role.
package line_test

import (
	"testing"

	"redis-throttle/tests/kit"
)

func TestMain(m *testing.M) { kit.Run(m) }
