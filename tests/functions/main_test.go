package functions_test

import (
	"testing"

	"redis-throttle/tests/kit"
)

func TestMain(m *testing.M) { kit.Run(m) }
