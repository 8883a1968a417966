// The promise itself, from the log of admitted requests alone: no more than the
// rate allows, and not noticeably less.
package gcra_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
)

// ledger checks that in every interval the units admitted are at most
// capacity + rate x length, the rate being count / period exactly.
//
// With A(i) the units admitted before the i-th admission at instant t(i), that is
//
//	A(j+1) - A(i) <= capacity + count x (t(j) - t(i)) / period    for all i <= j
//
// or, in units of 1/period with the i's on one side, that the newest
// A(j+1) x period - count x t(j) exceeds the lowest A(i) x period - count x t(i)
// by capacity x period at most. One comparison covers all intervals that end here.
type ledger struct {
	capacity, count, period *big.Int
	admitted                *big.Int // units x period
	lowest                  *big.Int // nil before the first admission
}

func newLedger(p params) *ledger {
	period := big.NewInt(p.periodNs)
	return &ledger{
		capacity: new(big.Int).Mul(big.NewInt(p.capacity), period),
		count:    big.NewInt(p.count),
		period:   period,
		admitted: new(big.Int),
	}
}

// admit logs an admission and says whether the promise still holds.
func (l *ledger) admit(nowNs, quantity int64) bool {
	due := big.NewInt(nowNs)
	due.Mul(due, l.count)

	before := new(big.Int).Sub(l.admitted, due)
	if l.lowest == nil || before.Cmp(l.lowest) < 0 {
		l.lowest = before
	}
	units := big.NewInt(quantity)
	l.admitted.Add(l.admitted, units.Mul(units, l.period))

	used := new(big.Int).Sub(l.admitted, due)
	return used.Sub(used, l.lowest).Cmp(l.capacity) <= 0
}

// askForwards sends random traffic under a clock that never goes back, and returns
// how often something was admitted.
func askForwards(t require.TestingT, pick chance.Draw, drawParams func(chance.Draw) params, steps int) (admissions int) {
	p := drawParams(pick)
	b, log := bucket{limit: p.limit(t)}, newLedger(p)
	tr := traffic{pick: pick, limit: b.limit, nowNs: start, forwards: true}
	for range steps {
		nowNs, quantity := tr.next()
		tr.last = b.take(nowNs, quantity)
		if tr.last.Allowed && quantity > 0 {
			admissions++
			if !log.admit(nowNs, quantity) {
				require.Fail(t, "more admitted than burst + 1 + rate x time", "%+v, now %d, quantity %d", p, nowNs, quantity)
			}
		}
	}
	return admissions
}

func TestNoIntervalAdmitsMoreThanTheRate(t *testing.T) {
	pick := drawFromSeed(t)
	buckets, requests := size.Of(100, 2000), 500
	for _, drawParams := range []func(chance.Draw) params{drawRealistic, drawExtreme} {
		admissions := 0
		for range buckets {
			admissions += askForwards(t, pick, drawParams, requests)
		}
		require.Greater(t, admissions, buckets*requests/10)
	}
}

func TestNoIntervalAdmitsMoreThanTheRateShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { askForwards(t, chance.FromRapid(t), drawEither(t), 50) })
}
