package wholemain

import (
	"flag"
	"testing"

	"redis-throttle/internal/size"
)

var n int

func TestMain(m *testing.M) {
	flag.Parse()
	n = size.Of(1, 2)
	m.Run()
}

func TestOfMain(t *testing.T) { t.Log(n) }
