package some

import (
	"testing"

	"redis-throttle/internal/size"
)

func steps() int { return size.Of(1, 2) }

func TestSame(t *testing.T) { t.Run("part", func(*testing.T) {}) }

func TestAsks(*testing.T) { steps() }

func TestAsksInAPart(t *testing.T) {
	t.Run("first", func(t *testing.T) {
		t.Parallel()
		t.Run("second", func(*testing.T) { steps() })
	})
}

func TestNeedsFullInAPart(t *testing.T) {
	t.Run("part", func(t *testing.T) { size.NeedsFull(t) })
}

func TestLacks(t *testing.T) { size.Lacks(t, "nothing") }

func TestIsSkipped(t *testing.T) { t.Skip("for another reason") }

func FuzzAsks(f *testing.F) {
	f.Add(1)
	f.Fuzz(func(*testing.T, int) { steps() })
}

func FuzzSame(f *testing.F) {
	f.Add(1)
	f.Fuzz(func(*testing.T, int) {})
}

func Example() {
	// Output:
}
