// The promise itself, from the log of admitted requests alone: no more than the
// rate allows, and not noticeably less.
package gcra_test

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/gcra"
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

// admission is units let through for an instant.
type admission struct{ at, units int64 }

// askQueue sends callers that reserve and callers that do not to one bucket. It returns what they were let through for,
// in the time of a watch that runs on when the limiter's clock is set back.
func askQueue(t require.TestingT, pick chance.Draw, drawParams func(chance.Draw) params, setBacks bool, steps int) (params, []admission) {
	p := drawParams(pick)
	limit := p.limit(t)
	longest := math.MaxInt64 - tolerance(limit)
	s := gcra.Bucket{Limit: limit}
	var log []admission
	tr := traffic{pick: pick, limit: limit, nowNs: start, forwards: true}
	behind := int64(0)
	for range steps {
		trueNow, quantity := tr.next()
		quantity = min(quantity, limit.Capacity())
		if setBacks && pick("set back", 1, 8) == 1 {
			behind += pick("set back by", 0, min(tolerance(limit), trueNow-behind))
		}
		now := trueNow - behind
		corrected := s.BringTo(now)
		require.True(t, setBacks || !corrected)
		tr.last = gcra.Decision{RetryAfter: s.RetryAfter(now, quantity), ResetAfter: resetAfter(&s, now)}
		wait := tr.last.RetryAfter
		if reserves := pick("caller", 1, 3) == 3; wait > 0 && !reserves || wait > longest || wait > math.MaxInt64-trueNow {
			continue
		}
		s.Charge(now, quantity, wait)
		if quantity > 0 {
			log = append(log, admission{trueNow + wait, quantity})
		}
	}
	return p, log
}

// requirePromise fails if an interval holds more units than the rate allows.
func requirePromise(t require.TestingT, p params, log []admission) {
	slices.SortFunc(log, func(a, b admission) int { return int(min(max(a.at-b.at, -1), 1)) })
	count := newLedger(p)
	for _, a := range log {
		if !count.admit(a.at, a.units) {
			require.Fail(t, "more units than capacity + rate x time", "%+v: %+v", p, log)
		}
	}
}

func TestNoIntervalHoldsMoreUnitsThanTheRateWhoeverReserves(t *testing.T) {
	pick := drawFromSeed(t)
	buckets := size.Of(100, 1000)
	for _, setBacks := range []bool{false, true} {
		admissions := 0
		for i := range buckets {
			drawParams := drawRealistic
			if i%2 == 0 {
				drawParams = drawExtreme
			}
			p, log := askQueue(t, pick, drawParams, setBacks, 300)
			requirePromise(t, p, log)
			admissions += len(log)
		}
		require.Greater(t, admissions, buckets*300/20)
	}
}

func TestNoIntervalHoldsMoreUnitsThanTheRateWhoeverReservesShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, log := askQueue(t, chance.FromRapid(t), drawEither(t), rapid.Bool().Draw(t, "set backs"), 30)
		requirePromise(t, p, log)
	})
}
