package inspect_test

import (
	"testing"

	"redis-throttle/ratelimit/internal/examples"
)

var addr = examples.Addr

func TestMain(m *testing.M) { examples.Main(m) }
