// The promises themselves: never too many units in any interval, nothing charged for a
// request that is turned away, and a refund that undoes what was taken.
package stack_test

import (
	"encoding/binary"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/gcra"
	"redis-throttle/internal/chance"
	"redis-throttle/limiter/stack"
)

// requirePromise fails if the units let through, each at its instant, are more than a
// limit allows in some interval.
func requirePromise(t require.TestingT, s spec, granted []event) {
	granted = slices.Clone(granted)
	slices.SortStableFunc(granted, func(a, b event) int { return int(min(max(a.at-b.at, -1), 1)) })
	switch s.kind {
	case stack.Rate:
		requireRate(t, s, granted)
	case stack.Window:
		requireCount(t, s, granted, func(a, b event) bool { return b.at-a.at < s.periodNs })
	case stack.Fixed:
		requireCount(t, s, granted, func(a, b event) bool { return s.number(b.at) == s.number(a.at) })
	case stack.First:
		s.count *= 2 // an interval can meet two windows
		requireCount(t, s, granted, func(a, b event) bool { return b.at-a.at < s.periodNs })
	}
}

// requireCount sums the units of all that lie together with each.
func requireCount(t require.TestingT, s spec, granted []event, together func(a, b event) bool) {
	units, first := int64(0), 0
	for _, e := range granted {
		units += e.units
		for !together(granted[first], e) {
			units -= granted[first].units
			first++
		}
		if units > s.count {
			require.Fail(t, "more units than count", "%d of %+v up to %d: %v", units, s, e.at, granted)
		}
	}
}

// requireRate holds the units against capacity + rate x time in exact fractions. With
// A(i) the units before the i-th at t(i), it says that A(j+1) - count x t(j) / period exceeds
// the lowest A(i) - count x t(i) / period by the capacity at most.
func requireRate(t require.TestingT, s spec, granted []event) {
	units, lowest := new(big.Rat), new(big.Rat)
	for i, e := range granted {
		due := new(big.Rat).Mul(big.NewRat(s.count, s.periodNs), new(big.Rat).SetInt64(e.at-granted[0].at))
		if above := new(big.Rat).Sub(units, due); i == 0 || above.Cmp(lowest) < 0 {
			lowest = above
		}
		units = new(big.Rat).Add(units, new(big.Rat).SetInt64(e.units))
		above := new(big.Rat).Sub(units, due)
		if above.Sub(above, lowest).Cmp(new(big.Rat).SetInt64(s.capacity)) > 0 {
			require.Fail(t, "more units than capacity + rate x time", "%+v up to %d: %v", s, e.at, granted)
		}
	}
}

// watch sends random callers to one stack, whose limits stay, and returns what each of them was
// let through for, in the time of a watch that runs on when the server's clock is set back. Some
// give units back, of any number: those that were charged last are then not used.
func watch(t require.TestingT, pick chance.Draw, atMost int, setBacks bool) ([]spec, []event) {
	d := newDrawer(pick)
	d.nowNs = start
	specs := d.stack()
	k := key{t: t}
	var granted []event
	behind := int64(0)
	for range atMost {
		d.moveClockOn(specs)
		if setBacks && d.OneIn("set back", 8) {
			behind += d.OfAnyMagnitude("set back by", 0, min(2*specs[0].periodNs, (d.nowNs-behind)/2))
		}
		now := d.nowNs - behind
		if d.OneIn("give back", 6) {
			units := d.cost(specs)
			if n := len(granted); n > 0 && d.OneIn("what was granted last", 2) {
				units = granted[n-1].units
			}
			d.last = k.refund(limits(t, specs...), units, now)
			granted = withoutLast(granted, units)
			continue
		}
		d.last = k.take(limits(t, specs...), d.request(specs), now)
		if d.last.Granted > 0 {
			granted = append(granted, event{d.nowNs + d.last.WaitNs, d.last.Granted})
		}
	}
	return specs, granted
}

func withoutLast(granted []event, units int64) []event {
	for n := len(granted); n > 0 && units > 0; n-- {
		last := &granted[n-1]
		if last.units > units {
			last.units -= units
			break
		}
		units -= last.units
		granted = granted[:n-1]
	}
	return granted
}

// moveClockOn is moveClock that never goes back.
func (d *drawer) moveClockOn(specs []spec) {
	before := d.nowNs
	d.moveClock(specs)
	d.nowNs = max(d.nowNs, before)
}

func TestNoIntervalHoldsTooManyUnits(t *testing.T) {
	pick := chance.FromSeed(t)
	for _, setBacks := range []bool{false, true} {
		events := 0
		for range steps(3000) {
			specs, granted := watch(t, pick, 150, setBacks)
			events += len(granted)
			for _, s := range specs {
				if !setBacks || s.kind != stack.Fixed && s.kind != stack.First { // whose windows go by the clock
					requirePromise(t, s, granted)
				}
			}
		}
		assert.Greater(t, events, steps(3000)*10)
	}
}

// Reservations on stacks of rates, of which any number of units is given back at any time: what
// lifted a rate must not go before the last unit that is to come then.
func TestNoIntervalHoldsTooManyUnitsWhoeverGivesReservationsBack(t *testing.T) {
	pick := chance.FromSeed(t)
	refunds := 0
	for range steps(5000) {
		d := newDrawer(pick)
		d.nowNs = start
		var specs []spec
		for range pick("limits", 2, 3) {
			periodNs := []int64{100, 1000, 10_000}[pick("period", 0, 2)]
			specs = append(specs, rate(pick("count", 1, 5), periodNs, pick("capacity", 5, 9)))
		}
		// The first rate alone has callers waiting, so that it makes those of all wait.
		k := key{t: t}
		for range pick("callers before", 0, 5) {
			k.take(limits(t, specs[0]), stack.Request{Cost: specs[0].capacity, MaxWaitNs: hour}, d.nowNs)
		}
		var granted []event
		for range 40 {
			d.nowNs += max(0, pick("elapsed", -3000, 1000))
			if n := len(granted); n > 0 && d.OneIn("give back", 3) {
				units := pick("units", 1, granted[n-1].units+1)
				k.refund(limits(t, specs...), units, d.nowNs)
				granted = withoutLast(granted, units)
				refunds++
				continue
			}
			r := stack.Request{Cost: pick("cost", 1, 5)}
			if d.OneIn("may wait", 2) {
				r.MaxWaitNs = pick("max wait", 0, 100_000)
			}
			if result := k.take(limits(t, specs...), r, d.nowNs); result.Granted > 0 {
				granted = append(granted, event{d.nowNs + result.WaitNs, result.Granted})
			}
		}
		for _, s := range specs {
			requirePromise(t, s, granted)
		}
	}
	assert.Greater(t, refunds, steps(5000))
}

func TestNoIntervalHoldsTooManyUnitsShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		specs, granted := watch(t, chance.FromRapid(t), 30, false)
		for _, s := range specs {
			requirePromise(t, s, granted)
		}
	})
}

// fill brings a key to where random traffic left it. The longest wait of anyone in it was
// waitedNs.
func fill(t require.TestingT, d *drawer, specs []spec) (k *key, waitedNs int64) {
	k = &key{t: t}
	for range d.Draw("calls before", 0, 20) {
		d.moveClockOn(specs)
		d.last = k.take(limits(t, specs...), d.request(specs), d.nowNs)
		waitedNs = max(waitedNs, d.last.WaitNs)
	}
	return k, waitedNs
}

// asOfNow is the value as a write at nowNs leaves it: without what is over by then.
func asOfNow(t require.TestingT, specs []spec, value []byte, nowNs int64) []byte {
	k := key{t: t, value: slices.Clone(value)}
	k.call(limits(t, specs...), nowNs, func(s *stack.Stack) stack.Result {
		s.Refund(0, nowNs)
		return stack.Result{Changed: true}
	})
	return k.value
}

// A refund right after the charge, reservations included. A rate that others made wait five
// times remembers the two oldest of these as one.
func TestARefundUndoesWhatWasTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDrawer(chance.FromRapid(t))
		specs := d.stack()
		k, _ := fill(t, d, specs)
		before := k.value
		r := d.request(specs)
		taken := k.take(limits(t, specs...), r, d.nowNs)
		if taken.Granted == 0 {
			return
		}
		back := k.refund(limits(t, specs...), taken.Granted, d.nowNs)
		require.Equal(t, -taken.Granted, back.Granted)
		before = asOfNow(t, specs, before, d.nowNs)
		if longestState(before) < gcra.MaxEncodedLen {
			require.Equal(t, before, k.value)
		}
		require.Equal(t, fullIn(t, specs, before, d.nowNs), fullIn(t, specs, k.value, d.nowNs))
	})
}

// longestState is the length of the longest state of a rate in value.
func longestState(value []byte) (longest int) {
	if len(value) < 2 || value[0] != 1 {
		return 8
	}
	for rest := value[2:]; len(rest) >= 11; {
		length := int(binary.LittleEndian.Uint16(rest[9:]))
		if stack.Kind(rest[0]) == stack.Rate {
			longest = max(longest, length)
		}
		rest = rest[11+length:]
	}
	return longest
}

// fullIn is the times until the rates of a value are full.
func fullIn(t require.TestingT, specs []spec, value []byte, nowNs int64) (ns []int64) {
	var s stack.Stack
	s.Load(limits(t, specs...))
	if value != nil {
		require.NoError(t, s.Decode(value))
	}
	for _, rate := range s.Rates(nil, nowNs) {
		ns = append(ns, rate.FullIn(nowNs))
	}
	return ns
}
