// What a call says of one limit beside its numbers: TAKE, SPARE and SHADOW; and FORCE.
package stack_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/limiter/stack"
)

func take(s spec, units int64) spec {
	s.terms.Take, s.terms.HasTake = units, true
	return s
}

func spare(s spec, units int64) spec {
	s.terms.Spare = units
	return s
}

func shadow(s spec) spec {
	s.terms.Shadow = true
	return s
}

// ofEachKind is a limit of ten units of each kind, all of which come back after a minute at most.
func ofEachKind() []spec {
	return []spec{rate(10, minute, 10), window(10, minute), fixed(10, minute), first(10, minute)}
}

func TestLimitsAreTheSameWhateverTheirTerms(t *testing.T) {
	one := window(10, minute)
	for _, tt := range []struct {
		other spec
		same  bool
	}{
		{one, true}, {take(one, 3), true}, {spare(shadow(one), 2), true},
		{window(11, minute), false}, {window(10, hour), false}, {fixed(10, minute), false},
	} {
		both := limits(t, shadow(one), tt.other)
		assert.Equal(t, tt.same, both[0].SameAs(both[1]), "%+v", tt.other)
	}
}

// Whatever is done to a lone limit, its state is the same whether it is enforced or a shadow: also after its numbers
// changed or the clock was set back. And it would have limited what it limits.
func TestAShadowIsKeptAsIfItWereEnforced(t *testing.T) {
	pick := chance.FromSeed(t)
	counts := map[string]int{}
	for range steps(3000) {
		d := newDrawer(pick)
		plain := d.stack()[:1]
		one, other := &key{t: t}, &key{t: t}
		for range 40 {
			if d.OneIn("change", 8) {
				plain = d.change(plain)[:1]
			}
			d.moveClock(plain)
			s := plain[0]
			if d.OneIn("spare", 4) {
				s = spare(s, d.Draw("spare", 0, min(s.holds(), 10)))
			}
			r := d.request(plain)
			r.Force = d.OneIn("force", 6) && mayForce(plain, 0, r)
			was := string(one.value)
			enforced, shadowed := one.take(limits(t, s), r, d.nowNs), other.take(limits(t, shadow(s)), r, d.nowNs)
			require.Equal(t, string(one.value), string(other.value), "%+v, %+v at %d of %x", s, r, d.nowNs, was)
			require.Equal(t, enforced.Limited, shadowed.Shadow > 0, "%+v, %+v at %d of %x", s, r, d.nowNs, was)
			require.Equal(t, enforced.Changed, shadowed.Changed)
			d.last = enforced
			switch {
			case !enforced.Limited || r.Force:
				require.Equal(t, enforced.Granted, shadowed.Granted)
			case enforced.Changed && r.Strict:
				counts["charged by STRICT"]++
			case enforced.Changed:
				counts["corrected"]++
				require.Zero(t, shadowed.Granted)
			}
		}
	}
	for _, what := range []string{"charged by STRICT", "corrected"} {
		assert.Greater(t, counts[what], steps(3000)/50, what)
	}
}

// The largest limits of each kind, and units to spare that together with the cost are more than 63 bits.
func TestWhatIsToSpareIsSparedWhateverTheCost(t *testing.T) {
	const most = math.MaxInt64
	for _, s := range []spec{rate(1_000_000_000, second, most), window(most, minute), fixed(most, minute), first(most, minute)} {
		for _, tt := range []struct {
			spare, cost int64
			limited     bool
		}{
			{0, most, false}, {1, most, true}, {1, most - 1, false}, {2, most - 1, true}, {most - 1, 1, false}, {most - 1, 2, true}, {most, 1, true}, {most, most, true}, {most, 0, false},
		} {
			k := &key{t: t}
			r := k.take(limits(t, spare(s, tt.spare)), cost(tt.cost), start)
			assert.Equal(t, tt.limited, r.Limited, "%v %+v", s, tt)
			assert.Equal(t, stack.Never, r.RetryAfterNs, "%v %+v", s, tt)
			upTo := (&key{t: t}).take(limits(t, spare(s, tt.spare)), stack.Request{Cost: tt.cost, UpTo: true}, start)
			assert.Equal(t, tt.spare == most, upTo.Limited, "%v %+v", s, tt)
			assert.LessOrEqual(t, upTo.Granted, most-tt.spare, "%v %+v", s, tt)
			asShadow := (&key{t: t}).take(limits(t, shadow(spare(s, tt.spare))), cost(tt.cost), start)
			assert.Equal(t, tt.limited, asShadow.Shadow > 0, "%v %+v", s, tt)
		}
	}
}

// A shadow is charged for the slot of its call, but no later than its state can say.
func TestAShadowOfALongTimeWaitsWithTheOthers(t *testing.T) {
	const century = 100 * 365 * 24 * hour
	long := shadow(rate(1, 290*365*24*hour, 1))
	k := &key{t: t}
	both := limits(t, rate(1, century, 1), long)
	k.take(limits(t, rate(1, century, 1)), cost(1), start)
	r := k.take(both, stack.Request{Cost: 1, MaxWaitNs: century}, start)
	assert.Equal(t, century, r.WaitNs)
	asked := k.take(limits(t, rate(1, century, 1), long.plain()), cost(1), start)
	assert.Equal(t, []int64{1, 0, math.MaxInt64}, []int64{int64(asked.Rule), asked.Remaining, asked.ResetAfterNs})
	assert.False(t, asked.Changed, "there is nothing to correct")
}

// A rate of which a forced call asks nothing keeps what it had, also how far its reservations reach.
func TestForceLeavesAloneWhatItAsksNothingOf(t *testing.T) {
	reserved, forced := rate(1, minute, 1), rate(1, hour, 1)
	k := &key{t: t}
	both := limits(t, reserved, forced)
	only := func(i int) []stack.Limit {
		some := slices.Clone(both)
		some[1-i] = some[1-i].With(stack.Terms{HasTake: true})
		return some
	}
	for range 3 {
		k.take(only(0), stack.Request{Cost: 1, MaxWaitNs: hour}, start)
	}
	state := func() []byte { return slices.Clone(k.value[2 : 2+11+16]) } // the header of the first limit, its TAT and its queue
	before := state()
	k.take(only(1), stack.Request{Cost: 1}, start+second)
	require.Equal(t, before, state(), "a call that is let through")
	assert.True(t, k.take(only(1), stack.Request{Cost: 1, Force: true}, start+second).Changed)
	assert.Equal(t, before, state(), "a forced one")
}

func TestForceSaturates(t *testing.T) {
	for _, s := range append(ofEachKind(), rate(1_000_000_000, second, 1), rate(1, 1<<62, 1)) {
		k := &key{t: t}
		for range 3 {
			r := k.take(limits(t, s), stack.Request{Cost: math.MaxInt64, Force: true}, start)
			assert.True(t, r.Limited, "%v", s)
			assert.GreaterOrEqual(t, r.Granted, int64(0), "%v", s)
			assert.Zero(t, r.Remaining, "%v", s)
			assert.Positive(t, r.ResetAfterNs, "%v", s)
			assert.True(t, k.peek(limits(t, s), 1, start).Limited, "%v", s)
		}
		was := string(k.value)
		r := k.take(limits(t, s), stack.Request{Cost: 1, Force: true}, start)
		assert.False(t, r.Changed, "what has no room is not charged: %v", s)
		assert.Equal(t, was, string(k.value), "%v", s)
	}
}

// One limit and callers of all sorts: some spare units for others, to some it is a shadow, some
// charge by force. Those let through without force are never too many, in any interval, and
// a caller that spares units leaves them behind.
func TestNoTermsAdmitAnybodyElse(t *testing.T) {
	pick := chance.FromSeed(t)
	counts := map[string]int{}
	for range steps(4000) {
		d := newDrawer(pick)
		d.nowNs = start
		plain := d.spec()
		k := &key{t: t}
		var granted []event
		counter := firstCounter{spec: plain}
		for range 120 {
			d.moveClockOn([]spec{plain})
			s := plain
			r := stack.Request{Cost: d.cost([]spec{s})}
			switch d.Draw("caller", 1, 6) {
			case 1:
				s = spare(s, d.Draw("spare", 0, min(s.holds(), 20)))
			case 2:
				s = shadow(s)
			case 3:
				r.Force = mayForce([]spec{s}, 0, r)
			case 4:
				s = shadow(take(s, d.cost([]spec{s})))
			}
			d.last = k.take(limits(t, s), r, d.nowNs)
			forced := r.Force && (d.last.Limited || d.last.Shadow > 0)
			switch {
			case d.last.Granted == 0:
			case forced:
				counts["forced"]++
			default:
				granted = append(granted, event{d.nowNs, d.last.Granted})
				if s.terms.Spare > 0 {
					counts["spared"]++
					require.GreaterOrEqual(t, k.peek(limits(t, plain), 0, d.nowNs).Remaining, s.terms.Spare)
				}
			}
			if d.last.Shadow > 0 {
				counts["shadowed"]++
			}
			if plain.kind == stack.First && d.last.Granted > 0 {
				used := counter.take(d.nowNs, d.last.Granted)
				if forced {
					counts["forced in a FIRST"]++
				} else {
					require.LessOrEqual(t, used, s.count-s.terms.Spare, "%+v", s)
				}
				if s.terms.Spare > 0 {
					counts["spared in a FIRST"]++
				}
			}
		}
		requirePromise(t, plain, granted)
	}
	for _, what := range []string{"forced", "spared", "shadowed"} {
		assert.Greater(t, counts[what], steps(4000), what)
	}
	for _, what := range []string{"forced in a FIRST", "spared in a FIRST"} {
		assert.Greater(t, counts[what], steps(4000)/20, what)
	}
}

// firstCounter is INCR, and EXPIRE when that answers 1.
type firstCounter struct {
	spec
	endsNs, used int64
}

// take returns what is used in the window then.
func (c *firstCounter) take(nowNs, units int64) int64 {
	if c.used == 0 || nowNs >= c.endsNs {
		c.endsNs, c.used = nowNs+c.periodNs, 0
	}
	c.used += units
	return c.used
}

func TestAShadowThatHoldsAllUnitsThereAreIsNotChangedByForce(t *testing.T) {
	for _, s := range ofEachKind() {
		k := &key{t: t}
		r := k.take(limits(t, shadow(s)), stack.Request{Cost: math.MaxInt64, Force: true}, start)
		assert.True(t, r.Changed, "%v", s)
		r = k.take(limits(t, shadow(s)), stack.Request{Cost: 1, Force: true}, start)
		assert.Equal(t, []int64{0, 1}, []int64{r.Granted, int64(r.Shadow)}, "%v", s)
		assert.False(t, r.Changed, "%v", s)
	}
}
