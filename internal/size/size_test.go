package size_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/internal/size"
)

func TestShortTestsAreSmall(t *testing.T) {
	t.Setenv("PROVE", "")
	assert.Equal(t, testing.Short(), size.Of("small", "full") == "small")
	assert.Equal(t, size.Of(1, 2), size.OfProof(1, 2, 3))
	t.Run("what has no small size is skipped", func(t *testing.T) {
		t.Cleanup(func() { assert.Equal(t, testing.Short(), t.Skipped()) })
		size.NeedsFull(t)
	})
	t.Setenv("PROVE", "1")
	assert.Equal(t, 3, size.OfProof(1, 2, 3))
}
