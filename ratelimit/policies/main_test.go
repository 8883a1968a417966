package policies

import (
	"testing"

	"redis-throttle/ratelimit/internal/examples"
)

func TestMain(m *testing.M) { examples.Main(m) }
