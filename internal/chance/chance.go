// Package chance is where random tests get their numbers from.
//
// All of them follow from one seed, so that a run can be repeated. SEED in the environment is that seed, from 1 to
// 2^64-1; without it, or with 0, each test takes a new one. scripts/test derives it from the commit: what it says of a
// commit is said again when it is run again, and the next commit is tried with other numbers. Loads of many clients at
// once draw for themselves: no seed repeats their timing.
package chance

import (
	"hash/fnv"
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Seed is the seed of a test's run. The log of the test says how to repeat it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := fromEnv(t, "SEED", 0)
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to repeat it: SEED=%d go test -run '^%s$'", seed, t.Name())
	return seed
}

// New returns the random numbers of a test. Tests of different names get different ones from the same seed.
func New(t testing.TB) *rand.Rand {
	t.Helper()
	name := fnv.New64a()
	_, _ = name.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(Seed(t), name.Sum64()))
}

// Calls is how many calls a test makes: the number of that name in the environment, or otherwise.
func Calls(t testing.TB, name string, otherwise int) int {
	t.Helper()
	return int(fromEnv(t, name, uint64(otherwise)))
}

func fromEnv(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return value
}

// Draw picks a number from lo to hi, both included. The same traffic is drawn from rapid, which shrinks a failure, and
// from a seed, which is fast enough for millions of numbers.
type Draw func(what string, lo, hi int64) int64

// FromRapid draws what rapid then knows by the name.
func FromRapid(t *rapid.T) Draw {
	return func(what string, lo, hi int64) int64 { return rapid.Int64Range(lo, hi).Draw(t, what) }
}

// FromSeed draws from New. Each number is as likely as any other.
func FromSeed(t testing.TB) Draw {
	t.Helper()
	r := New(t)
	return func(_ string, lo, hi int64) int64 {
		return lo + int64(r.Uint64N(uint64(hi)-uint64(lo)+1))
	}
}

// OfAnyMagnitude picks from lo to hi such that small and large numbers are as likely.
func (d Draw) OfAnyMagnitude(what string, lo, hi int64) int64 {
	length := d(what+": bits", 0, int64(bits.Len64(uint64(hi-lo))))
	return lo + min(d(what, 0, int64(1)<<length-1), hi-lo)
}

// OneIn is true once in n times, on average.
func (d Draw) OneIn(what string, n int64) bool { return d(what, 1, n) == 1 }
