// Limits that a call does not name: what is kept of them, for how long, and how it is stored.
package stack_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
	"redis-throttle/limiter/stack"
)

const day = 24 * hour

// drawCame makes up limits that share no state, for calls that name some of them. A key that holds a lone rate does not
// know its period, so there is one rate; or there are several, and another limit that is never full.
func drawCame(d *drawer) (specs, always []spec) {
	mostRates := 1
	if d.OneIn("several rates", 3) {
		mostRates, always = 3, []spec{first(10, 1<<61)}
	}
	d.kinds = []stack.Kind{stack.Rate, stack.Window, stack.Fixed, stack.First}
	d.periods = []int64{50, 64, second, minute, minute + second, hour, day}
	rates, n := 0, int(d.Draw("limits", 2, int64(stack.MaxLimits-len(always))))
	for len(specs) < n {
		d.periods[1] = d.Draw("a period", 10, 100)
		s := d.spec()
		if slices.ContainsFunc(specs, s.isOf) || s.kind == stack.Rate && rates == mostRates {
			continue
		}
		if s.kind == stack.Rate {
			rates++
		}
		specs = append(specs, s)
	}
	return specs, always
}

// A key with several limits, of which each call names some, answers as one key for each limit does: no limit admits more
// than if it was asked by itself, nor less.
func comeAndGo(t require.TestingT, pick chance.Draw, atMost int, seen *seen) {
	d := newDrawer(pick)
	specs, always := drawCame(d)
	one, apart := key{t: t}, keys{t: t, values: make([][]byte, len(specs))}
	if len(always) > 0 {
		one.take(limits(t, always...), cost(1), d.nowNs)
	}
	mayWait := d.OneIn("may wait", 2) // a lone rate has no lifts, which a refund undoes
	for range atMost {
		order := permutation(d, len(specs))[:d.Draw("named", 1, int64(len(specs)))]
		if d.OneIn("rates only", 4) { // which may be reserved
			order = slices.DeleteFunc(permutation(d, len(specs)), func(i int) bool { return specs[i].kind != stack.Rate })
		}
		if len(order) == 0 {
			continue
		}
		var named []spec
		several := keys{t: t}
		for _, i := range order {
			named, several.values = append(named, specs[i]), append(several.values, apart.values[i])
		}
		before := d.nowNs
		d.moveClock(named)
		d.nowNs = max(d.nowNs, before)
		if d.nowNs > 1<<61 {
			return // always is full
		}
		r := d.request(named)
		if !mayWait {
			r.MaxWaitNs = 0
		}
		var each [][]spec
		for _, s := range named {
			each = append(each, []spec{s})
		}
		var got, want stack.Result
		if !mayWait && d.OneIn("refund", 6) {
			got = one.refund(limits(t, named...), r.Cost, d.nowNs)
			for i, s := range each {
				alone := key{t: t, value: several.values[i]}
				result := alone.refund(limits(t, s...), r.Cost, d.nowNs)
				several.values[i] = alone.value
				want.Changed = want.Changed || result.Changed
				if i == got.Rule {
					changed := want.Changed
					want = result
					want.Rule, want.Changed = i, changed
				}
			}
			seen.refunds++
		} else {
			got = one.take(limits(t, named...), r, d.nowNs)
			want, _ = several.call(each, d.nowNs, func(j *stack.Joint) stack.Result { return j.Take(r, d.nowNs) })
		}
		if got != want {
			require.Equal(t, want, got, "%+v of %+v, %+v at %d of %x", named, specs, r, d.nowNs, one.value)
		}
		for i, at := range order {
			apart.values[at] = several.values[i]
		}
		d.last = got
		seen.count(r, got, one.value)
	}
}

func permutation(d *drawer, n int) []int {
	order := make([]int, n)
	for i := range order {
		j := int(d.Draw("place", 0, int64(i)))
		order[i], order[j] = order[j], i
	}
	return order
}

func TestLimitsThatComeAndGoAreEachAsIfAskedAlone(t *testing.T) {
	pick := chance.FromSeed(t)
	var s seen
	n := steps(100_000)
	seldom := func() int { return min(s.allowed, s.limited, s.waits, s.refunds, s.rules[6]) }
	for s.steps < n || seldom() <= n/1000 && s.steps < 50*n {
		comeAndGo(t, pick, 100, &s)
	}
	require.Greater(t, seldom(), n/1000, "%+v", s)
}

func TestLimitsThatComeAndGoAreEachAsIfAskedAloneShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { comeAndGo(t, chance.FromRapid(t), 20, &seen{}) })
}

func (s spec) taking(units int64) spec {
	s.terms.Take, s.terms.HasTake = units, true
	return s
}

// Of windows of the calendar that number their windows alike, the one goes that was not named for longest.
func TestWhichWindowOfTheCalendarGoesFirst(t *testing.T) {
	day, otherDay, week, month := in(calendars[0], 3), in(calendars[1], 3), in(calendars[3], 3), in(calendars[5], 3)
	six := []spec{first(5, 2*hour), first(5, 3*hour), first(5, 4*hour), first(5, 5*hour), first(5, 6*hour), first(5, 7*hour)}
	for _, tt := range []struct {
		named []spec
		stay  []bool
	}{
		{[]spec{day, week, month}, []bool{false, true, true}},
		{[]spec{month, week, day}, []bool{true, true, false}},
		{[]spec{week, day, month}, []bool{true, false, true}},
		{[]spec{day, otherDay, month}, []bool{false, true, true}},
		{[]spec{otherDay, month, day}, []bool{false, true, true}},
	} {
		k := key{t: t}
		for _, s := range tt.named {
			require.False(t, k.take(limits(t, s), cost(1), start).Limited)
		}
		require.False(t, k.take(limits(t, six...), cost(1), start).Limited)
		for i, s := range tt.named {
			remaining := map[bool]int64{true: 2, false: 3}[tt.stay[i]]
			assert.Equal(t, remaining, k.peek(limits(t, s), 0, start).Remaining, "%d of %+v", i, tt.named)
		}
	}
}
