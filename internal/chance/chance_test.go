package chance_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
)

func TestASeedRepeatsTheNumbersOfATest(t *testing.T) {
	t.Setenv("SEED", "42")
	first := chance.New(t).Uint64()
	require.Equal(t, first, chance.New(t).Uint64())
	require.EqualValues(t, 42, chance.Seed(t))
	t.Run("another test has others", func(t *testing.T) {
		require.NotEqual(t, first, chance.New(t).Uint64())
	})
	t.Setenv("SEED", "43")
	require.NotEqual(t, first, chance.New(t).Uint64())
}

func TestWithoutASeedEachRunIsNew(t *testing.T) {
	for _, none := range []string{"", "0"} {
		t.Setenv("SEED", none)
		require.NotEqual(t, chance.Seed(t), chance.Seed(t))
	}
}

func TestTheNumberOfCallsIsThatOfTheEnvironment(t *testing.T) {
	require.Equal(t, 30, chance.Calls(t, "CHANCE_CALLS", 30))
	t.Setenv("CHANCE_CALLS", "7")
	require.Equal(t, 7, chance.Calls(t, "CHANCE_CALLS", 30))
}

func TestNumbersAreWithinTheirBounds(t *testing.T) {
	seeded := chance.FromSeed(t)
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.Int64Range(0, math.MaxInt64).Draw(t, "lo")
		hi := rapid.Int64Range(lo, math.MaxInt64).Draw(t, "hi")
		for _, pick := range []chance.Draw{chance.FromRapid(t), seeded} {
			for _, n := range []int64{pick("n", lo, hi), pick.OfAnyMagnitude("m", lo, hi)} {
				assert.GreaterOrEqual(t, n, lo)
				assert.LessOrEqual(t, n, hi)
			}
		}
	})
}
