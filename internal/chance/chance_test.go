package chance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
)

func TestASeedRepeatsTheNumbersOfATest(t *testing.T) {
	t.Setenv("SEED", "42")
	first := chance.New(t).Uint64()
	require.Equal(t, first, chance.New(t).Uint64())
	t.Run("another test has others", func(t *testing.T) {
		require.NotEqual(t, first, chance.New(t).Uint64())
	})
	for _, other := range []string{"43", "", "0"} {
		t.Setenv("SEED", other)
		require.NotEqual(t, first, chance.New(t).Uint64(), "SEED=%s", other)
	}
}
