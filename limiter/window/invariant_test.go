// The two promises themselves, from the log of granted units alone: never too many in any
// interval, and nobody told to wait noticeably too long.
package window_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
	"redis-throttle/limiter/window"
)

// grants is a log of granted units, oldest first.
type grants []event

// most is the largest number of units in any half-open interval of the period's length.
func (g grants) most(period int64) int64 {
	most, sum, first := int64(0), int64(0), 0
	for _, newest := range g {
		sum += newest.units
		for newest.at-g[first].at >= period {
			sum -= g[first].units
			first++
		}
		most = max(most, sum)
	}
	return most
}

// takeBack removes the most recent units, as a refund does. What a refund gives back of
// denied units may be more than was granted.
func (g grants) takeBack(units int64) grants {
	for units > 0 && len(g) > 0 {
		last := &g[len(g)-1]
		back := min(last.units, units)
		last.units -= back
		units -= back
		if last.units == 0 {
			g = g[:len(g)-1]
		}
	}
	return g
}

// wait is the time from now until quantity units more leave no interval with over count.
func (g grants) wait(now, quantity, count, period int64) int64 {
	room := count - quantity
	for i := len(g) - 1; i >= 0; i-- {
		if room -= g[i].units; room < 0 {
			return max(g[i].at+period-now, 0)
		}
	}
	return 0
}

// observe sends random traffic and logs what is granted in true time: that of a watch
// which runs on when the limiter's clock is set back. It returns the limit and the log.
func observe(t require.TestingT, pick chance.Draw, steps int, setBacks, strict bool) (window.Limit, grants) {
	period := []int64{1, 50, 64, 127, 4096, 100_000, second, minute}[pick("period", 0, 7)]
	perPeriod := []int64{5, 60, 80, 200, 1000}[pick("steps per period", 0, 4)]
	maxQuantity := pick("max quantity", 1, 10)
	limit := newLimit(t, pick("count", 1, perPeriod*maxQuantity), period)
	s := window.Window{Limit: limit}
	var log grants

	trueNow, behind := start, int64(0)
	for range steps {
		trueNow += pick("step", 0, 2*(period/perPeriod)+1)
		if setBacks && pick.OneIn("set back", 100) {
			behind += pick.OfAnyMagnitude("set back by", 0, 2*period)
		}
		now := trueNow - behind
		quantity := pick("quantity", 1, maxQuantity)
		if pick.OneIn("refund", 10) {
			log = log.takeBack(s.Refund(now, quantity))
			continue
		}
		told := s.RetryAfter(now, quantity)
		if !setBacks && !strict {
			needed := log.wait(now, quantity, count(limit), period)
			if quantity > count(limit) {
				needed = window.Never
			}
			if told < needed || told > needed+period/64 {
				require.Failf(t, "retry after", "told to wait %d, needs to wait %d, %+v", told, needed, limit)
			}
		}
		if told != 0 && s.BringTo(now) {
			require.True(t, setBacks)
		}
		if told == 0 || pick.OneIn("as many as fit", 8) {
			if units := charge(&s, now, quantity); units > 0 {
				log = append(log, event{at: trueNow, units: units})
			}
		} else if strict && told != 0 && pick.OneIn("hammering", 4) {
			s.ChargeDenied(now, quantity, 0)
		}
	}
	return limit, log
}

func TestNoIntervalHoldsMoreThanCount(t *testing.T) {
	for _, tt := range []struct {
		name             string
		setBacks, strict bool
	}{
		{"steady clock", false, false},
		{"clock set back", true, false},
		{"denied calls charged", false, true},
		{"both", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pick, full := chance.FromSeed(t), 0
			const runs = 250
			for range runs {
				limit, log := observe(t, pick, 2000, tt.setBacks, tt.strict)
				most := log.most(period(limit))
				require.LessOrEqual(t, most, count(limit), "%+v", limit)
				if most == count(limit) {
					full++
				}
			}
			assert.Greater(t, full, runs/4, "traffic too light to show anything")
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		setBacks, strict := rapid.Bool().Draw(t, "set backs"), rapid.Bool().Draw(t, "strict")
		limit, log := observe(t, chance.FromRapid(t), 100, setBacks, strict)
		require.LessOrEqual(t, log.most(period(limit)), count(limit))
	})
}
