package wholeonce

import (
	"sync"
	"testing"

	"redis-throttle/internal/size"
)

var n = sync.OnceValue(func() int { return size.Of(1, 2) })

func TestOnce(t *testing.T) { t.Log(n()) }

func TestAgain(t *testing.T) { t.Log(n()) }

func Example() {
	// Output:
}
