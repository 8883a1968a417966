package command

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/proof/arithmetic"
	"redis-throttle/proof/smt"
)

// What proof/arithmetic shows of formulas is shown of these functions: both compute the same.
func TestWhatRepliesComputeAreTheFormulas(t *testing.T) {
	ns, fullAt, count, unit := smt.Var("ns", smt.Int64), smt.Var("full_at", smt.Uint64), smt.Var("n", smt.Int64), smt.Var("unit", smt.Int64)
	program := smt.Compile(arithmetic.CeilTo(ns, nsPerSecond), arithmetic.CeilTo(ns, 1_000_000), arithmetic.ExpireAtMs(fullAt),
		arithmetic.PeriodNs(count, unit))
	random := chance.New(t)
	near := []uint64{0, 1, 1_000_000, nsPerSecond, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64 - 3}
	number := func() uint64 {
		if random.IntN(2) == 0 {
			return random.Uint64() >> random.IntN(64)
		}
		return near[random.IntN(len(near))] + uint64(random.IntN(7)) - 3
	}
	positive := func() int64 { return int64(max(number()&math.MaxInt64, 1)) }
	for range 20_000 {
		n, full, c, u := max(int64(number()), -1), max(number(), 1), positive(), positive()
		got := program.Run(smt.Values{"ns": big.NewInt(n), "full_at": new(big.Int).SetUint64(full), "n": big.NewInt(c), "unit": big.NewInt(u)})
		want := []int64{ceilSeconds(n), ceilMs(n), expireAtMs(full), periodNs(c, time.Duration(u))}
		for i := range want {
			require.Equal(t, want[i], got[i].Int64(), "%d: %d, %d, %d x %d", i, n, full, c, u)
		}
	}
	for _, word := range []string{"9223372036854775806", "9223372036854775807"} {
		_, _, problem := parseLimit([]byte(word), []byte("1"), []byte("1"))
		assert.Equal(t, word[18] == '7', problem == badMaxBurst, "max_burst + 1 has to fit")
	}
}
