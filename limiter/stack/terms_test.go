// What a call says of one limit beside its numbers: TAKE, SPARE and SHADOW; and FORCE.
package stack_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

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

// The largest limits of each kind, and units to spare that together with the cost are more than 63 bits.
func TestWhatIsToSpareIsSparedWhateverTheCost(t *testing.T) {
	const most = math.MaxInt64
	for _, s := range []spec{rate(1_000_000_000, second, most), window(most, minute), fixed(most, minute), first(most, minute)} {
		for _, tt := range []struct {
			spare, cost int64
			limited     bool
		}{
			{0, most, false}, {1, most, true}, {1, most - 1, false}, {2, most - 1, true}, {most - 1, 1, false}, {most - 1, 2, true}, {most, 1, true},
			{most, most, true}, {most, 0, false},
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
