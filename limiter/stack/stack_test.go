// The rules of a stack, on traffic small enough to follow by hand.
package stack_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/gcra"
	"redis-throttle/internal/civil"
	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/stack"
)

func rate(count, periodNs, capacity int64) spec {
	return spec{kind: stack.Rate, count: count, periodNs: periodNs, capacity: capacity}
}

func window(count, periodNs int64) spec {
	return spec{kind: stack.Window, count: count, periodNs: periodNs}
}

func fixed(count, periodNs int64) spec {
	return spec{kind: stack.Fixed, count: count, periodNs: periodNs}
}

func first(count, periodNs int64) spec {
	return spec{kind: stack.First, count: count, periodNs: periodNs}
}

// in is a limit in a calendar's windows.
func in(c *civil.Windows, count int64) spec {
	return spec{kind: stack.Fixed, count: count, calendar: c}
}

func limits(t require.TestingT, specs ...spec) []stack.Limit {
	limits := make([]stack.Limit, len(specs))
	for i, s := range specs {
		limits[i] = s.limit(t)
	}
	return limits
}

// cost is a plain request.
func cost(units int64) stack.Request { return stack.Request{Cost: units} }

func TestConstructorsRefuseWhatCannotWork(t *testing.T) {
	const longest = math.MaxInt64
	rate := func(count, n int64, unit time.Duration, capacity int64) error {
		_, err := stack.NewRate(count, n, unit, capacity)
		return err
	}
	for _, tt := range []struct {
		what string
		got  error
		want error
	}{
		{"a rate", rate(5, 1, time.Second, 10), nil},
		{"one unit a nanosecond", rate(1e9, 1, time.Second, 1), nil},
		{"more than that", rate(1e9+1, 1, time.Second, 1), stack.ErrRate},
		{"the longest period", rate(1, longest, 1, 1), nil},
		{"one nanosecond longer", rate(2, 1<<62, 2, 1), stack.ErrPeriod},
		{"a period of more than 64 bits", rate(2, longest, time.Hour, 1), stack.ErrPeriod},
		{"no period", rate(1, 0, time.Second, 1), stack.ErrPeriod},
		{"two negatives", rate(1, -1, -time.Second, 1), stack.ErrPeriod},
		{"nobody", rate(0, 1, time.Second, 0), nil},
		{"nobody in no time", rate(0, 0, time.Second, 0), stack.ErrPeriod},
		{"a negative count", rate(-1, 1, time.Second, 1), stack.ErrCount},
		{"no capacity", rate(1, 1, time.Second, 0), stack.ErrCapacity},
		{"the widest bucket", rate(1, 1, 1, longest), nil},
		{"one that takes too long to fill", rate(1, 2, 1, longest), stack.ErrTolerance},
	} {
		assert.ErrorIs(t, tt.got, tt.want, tt.what)
	}
	for name, newLimit := range map[string]func(int64, int64, time.Duration) (stack.Limit, error){
		"window": stack.NewWindow, "first": stack.NewFirst,
	} {
		for _, tt := range []struct {
			count, n int64
			unit     time.Duration
			want     error
		}{
			{longest, longest, 1, nil},
			{1e12, 1, 1, nil},
			{1, 1 << 62, 2, stack.ErrPeriod},
			{1, 0, 1, stack.ErrPeriod},
			{1, 1, 0, stack.ErrPeriod},
			{0, 1, 1, nil},
			{0, 1 << 62, 2, stack.ErrPeriod},
			{-1, 1, 1, stack.ErrCount},
		} {
			_, err := newLimit(tt.count, tt.n, tt.unit)
			assert.ErrorIs(t, err, tt.want, "%s %+v", name, tt)
		}
	}
	minutes, err := calendar.Every(1, time.Minute, 0)
	require.NoError(t, err)
	for count, want := range map[int64]error{longest: nil, 1: nil, 0: nil, -1: stack.ErrCount} {
		_, err := stack.NewFixedIn(minutes, count)
		assert.ErrorIs(t, err, want, count)
	}
}

func TestAStackHoldsUpToEightLimits(t *testing.T) {
	var s stack.Stack
	limit := rate(5, second, 5).limit(t)
	for i := range 8 {
		assert.Equal(t, i, s.Len())
		assert.True(t, s.Add(limit))
	}
	assert.False(t, s.Add(limit))
	assert.Equal(t, 8, s.Len())
	assert.True(t, s.RatesOnly())
	s.Reset()
	assert.Zero(t, s.Len())
	assert.True(t, s.Add(fixed(1, second).limit(t)))
	assert.False(t, s.RatesOnly())
}

func TestNothingIsChargedWhenOneLimitDenies(t *testing.T) {
	specs := limits(t, rate(5, second, 5), rate(7, hour, 7))
	k := key{t: t}
	for i := range int64(5) {
		want := stack.Result{Rule: 0, Limit: 5, Remaining: 4 - i, RetryAfterNs: stack.Never,
			ResetAfterNs: (i + 1) * second / 5, NextAfterNs: second / 5, Granted: 1, Changed: true}
		require.Equal(t, want, k.take(specs, cost(1), start))
	}
	stored := string(k.value)

	assert.Equal(t, stack.Result{Limited: true, Rule: 0, Limit: 5, RetryAfterNs: second / 5, ResetAfterNs: second, NextAfterNs: second / 5},
		k.take(specs, cost(1), start), "the limit of the second denies")
	assert.Equal(t, stored, string(k.value))

	r := k.take(specs, cost(4), start+second)
	assert.True(t, r.Limited, "the limit of the hour denies")
	assert.Equal(t, 1, r.Rule)
	assert.Equal(t, int64(2), r.Remaining)
	assert.Zero(t, r.Granted)
	assert.Equal(t, stored, string(k.value))

	assert.Equal(t, int64(2), k.take(specs, cost(2), start+second).Granted, "the other was not charged")
}

func TestTheRule(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		specs   []spec
		taken   int64
		cost    int64
		limited bool
		want    int
	}{
		{"the fewest units left when allowed", []spec{rate(9, second, 9), window(5, minute), fixed(7, hour)}, 0, 1, false, 1},
		{"the first of several with as few", []spec{rate(9, second, 9), fixed(5, minute), window(5, minute)}, 0, 1, false, 1},
		{"fewest after the charge, not before", []spec{rate(5, second, 5), rate(4, second, 4)}, 0, 4, false, 1},
		{"the longest wait when limited", []spec{rate(5, second, 5), window(5, minute), rate(5, second, 5)}, 5, 1, true, 1},
		{"the first of several that wait as long", []spec{rate(9, second, 9), rate(5, second, 5), rate(5, second, 5)}, 5, 1, true, 1},
		{"one that can never is longer than any wait", []spec{window(5, 24*hour), rate(4, second, 4)}, 4, 5, true, 1},
		{"the first of several that can never", []spec{rate(9, second, 9), fixed(3, minute), rate(2, second, 2)}, 0, 4, true, 1},
	} {
		k := key{t: t}
		require.False(t, k.take(limits(t, tt.specs...), cost(tt.taken), start).Limited, tt.rule)
		got := k.take(limits(t, tt.specs...), cost(tt.cost), start)
		assert.Equal(t, tt.limited, got.Limited, tt.rule)
		assert.Equal(t, tt.want, got.Rule, tt.rule)
		assert.Equal(t, tt.specs[tt.want].holds(), got.Limit, tt.rule)
	}
}

// 100 callers at once on RATE 10/s BURST 1 MAXWAIT 5s.
func TestMaxWaitTurnsABurstIntoARow(t *testing.T) {
	specs := limits(t, rate(10, second, 1))
	k := key{t: t}
	for i := range int64(100) {
		before := string(k.value)
		r := k.take(specs, stack.Request{Cost: 1, MaxWaitNs: 5 * second}, start)
		if i <= 50 {
			require.Equal(t, stack.Result{Limit: 1, RetryAfterNs: stack.Never, ResetAfterNs: (i + 1) * second / 10,
				NextAfterNs: (i + 1) * second / 10, Granted: 1, WaitNs: i * second / 10, Changed: true}, r)
			continue
		}
		require.Equal(t, stack.Result{Limited: true, Limit: 1, RetryAfterNs: second / 10, ResetAfterNs: 51 * second / 10,
			NextAfterNs: 51 * second / 10}, r)
		require.Equal(t, before, string(k.value))
	}
	assert.Equal(t, uint64(start+51*second/10), k.s.ExpireAt(start), "51 units of 100 ms were charged")

	r := k.take(specs, stack.Request{Cost: 1, MaxWaitNs: 5 * second}, start+second/10)
	assert.Equal(t, 5*second, r.WaitNs, "who was limited comes in when told")
}

func TestMaxWaitOfAStackIsThatOfItsSlowestLimit(t *testing.T) {
	specs := limits(t, rate(10, second, 1), rate(1, second, 3))
	k := key{t: t}
	for i, want := range []int64{0, 100, 200, 1000, 2000} {
		r := k.take(specs, stack.Request{Cost: 1, MaxWaitNs: 2 * second}, start)
		require.False(t, r.Limited)
		assert.Equal(t, want*second/1000, r.WaitNs, i)
	}
	r := k.take(specs, stack.Request{Cost: 1, MaxWaitNs: 2 * second}, start)
	assert.True(t, r.Limited)
	assert.Equal(t, 1, r.Rule)
	assert.Equal(t, second, r.RetryAfterNs)

	// The first limit counts the last of them as of second 2, and has one unit again 100 ms
	// after: at 2.1 s, not before.
	first := limits(t, rate(10, second, 1))
	assert.Zero(t, k.peek(first, 1, start+2*second+second/10-1).Remaining)
	assert.Equal(t, int64(1), k.peek(first, 1, start+2*second+second/10).Remaining)
}

// 30 per minute, 20 units in second 58, 20 more in second 62.
func TestTheBoundaryOfACalendarWindow(t *testing.T) {
	for _, tt := range []struct {
		spec     spec
		admitted int64
		nextAt   int64 // when the next unit comes, s
	}{
		{fixed(30, minute), 40, 0},
		{window(30, minute), 30, 118},
	} {
		k := key{t: t}
		specs := limits(t, tt.spec)
		admitted := int64(0)
		for _, at := range []int64{58, 62} {
			for i := range int64(20) {
				admitted += k.take(specs, cost(1), start+at*second+i*second/20).Granted
			}
		}
		assert.Equal(t, tt.admitted, admitted, "%+v", tt.spec)
		if tt.nextAt == 0 {
			continue
		}
		now := start + 63*second
		r := k.take(specs, cost(1), now)
		assert.True(t, r.Limited)
		assert.Equal(t, start+tt.nextAt*second, now+r.RetryAfterNs, "the 31st fits when the first of second 58 leaves")
		assert.True(t, k.take(specs, cost(1), now+r.RetryAfterNs-1).Limited)
		assert.Equal(t, int64(1), k.take(specs, cost(1), now+r.RetryAfterNs).Granted)
	}
}

func TestUpTo(t *testing.T) {
	for _, tt := range []struct {
		rule           string
		specs          []spec
		taken, cost    int64
		granted, retry int64
	}{
		{"all of it where it fits", []spec{rate(5, second, 5)}, 1, 4, 4, stack.Never},
		{"what fits where it does not", []spec{rate(5, second, 5)}, 1, 9, 4, stack.Never},
		{"no more than the tightest has", []spec{rate(9, second, 9), window(5, minute), fixed(7, minute)}, 2, 9, 3, stack.Never},
		{"more than any limit holds", []spec{rate(5, second, 5)}, 0, math.MaxInt64, 5, stack.Never},
		{"at least one, or limited until there is one", []spec{rate(5, second, 5)}, 5, 3, 0, second / 5},
	} {
		k := key{t: t}
		k.take(limits(t, tt.specs...), cost(tt.taken), start)
		r := k.take(limits(t, tt.specs...), stack.Request{Cost: tt.cost, UpTo: true}, start)
		assert.Equal(t, tt.granted, r.Granted, tt.rule)
		assert.Equal(t, tt.granted == 0 && tt.cost > 0, r.Limited, tt.rule)
		assert.Equal(t, tt.retry, r.RetryAfterNs, tt.rule)
	}
}

// A request of nothing is limited by UPTO as one of a unit is, but never charged nor stored.
func TestUpToOfNothingIsLimitedWhenNothingIsLeft(t *testing.T) {
	for _, tt := range []struct {
		rule             string
		spec             spec
		taken, at, retry int64
	}{
		{"something is left", rate(5, second, 5), 4, start, stack.Never},
		{"a rate with nothing left", rate(5, second, 5), 5, start, second / 5},
		{"a rate with a part of a unit", rate(5, second, 5), 5, start + second/10, second / 10},
		{"a window with nothing left", window(5, minute), 5, start, minute},
		{"a calendar window with nothing left", fixed(5, minute), 5, start, minute},
		{"a clock that was set back", rate(5, second, 5), 5, start - 1, second / 5},
	} {
		k := key{t: t}
		k.take(limits(t, tt.spec), cost(tt.taken), start)
		for _, strict := range []bool{false, true} {
			r := k.take(limits(t, tt.spec), stack.Request{UpTo: true, Strict: strict}, tt.at)
			assert.Equal(t, tt.retry != stack.Never, r.Limited, tt.rule)
			assert.Equal(t, tt.retry, r.RetryAfterNs, tt.rule)
			assert.Zero(t, r.Granted, tt.rule)
			assert.False(t, r.Changed, tt.rule)
		}
		assert.False(t, k.take(limits(t, tt.spec), cost(0), tt.at).Limited, "%s: without UPTO it only looks", tt.rule)
	}
}

func TestStrictChargesDeniedRequests(t *testing.T) {
	const s = second
	for _, tt := range []struct {
		rule          string
		spec          spec
		taken, cost   int64
		upTo          bool
		left, retryNs int64
		changed       bool
	}{
		{"a rate: as far as the bucket has it", rate(5, s, 5), 3, 4, false, 0, 4 * s / 5, true},
		{"a rate: more than it holds", rate(5, s, 5), 3, 6, false, 0, stack.Never, true},
		{"a rate: an empty bucket puts nobody further back", rate(5, s, 5), 5, 1, false, 0, s / 5, false},
		{"a calendar window: as far as it has it", fixed(5, minute), 3, 4, false, 0, minute, true},
		{"a full calendar window stays", fixed(5, minute), 5, 1, false, 0, minute, false},
		{"a sliding window: the oldest make room", window(5, minute), 3, 4, false, 0, minute, true},
		{"a full sliding window begins anew", window(5, minute), 5, 5, false, 0, minute, true},
		{"the whole cost, where one unit was missing", rate(5, s, 5), 5, 3, true, 0, s / 5, false},
	} {
		specs := limits(t, tt.spec)
		k := key{t: t}
		k.take(specs, cost(tt.taken), start)
		before := string(k.value)
		r := k.take(specs, stack.Request{Cost: tt.cost, Strict: true, UpTo: tt.upTo}, start)
		assert.True(t, r.Limited, tt.rule)
		assert.Zero(t, r.Granted, tt.rule)
		assert.Equal(t, tt.left, r.Remaining, tt.rule)
		assert.Equal(t, tt.retryNs, r.RetryAfterNs, tt.rule)
		assert.Equal(t, tt.changed, r.Changed, tt.rule)
		if !tt.changed {
			assert.Equal(t, before, string(k.value), tt.rule)
		}
	}

	k := key{t: t}
	specs := limits(t, window(2, minute))
	k.take(specs, cost(2), start)
	for i := range int64(10) {
		r := k.take(specs, stack.Request{Cost: 2, Strict: true}, start+i*20*second)
		require.True(t, r.Limited || i == 0, "hammering keeps one out")
	}
}

func TestStrictAllowedIsCharged(t *testing.T) {
	k := key{t: t}
	r := k.take(limits(t, rate(5, second, 5)), stack.Request{Cost: 2, Strict: true}, start)
	assert.False(t, r.Limited)
	assert.Equal(t, int64(2), r.Granted)
	assert.Equal(t, int64(3), r.Remaining)
}

func TestPeekTellsWhatTakeWouldAnswer(t *testing.T) {
	specs := limits(t, rate(5, second, 5), window(4, minute))
	k := key{t: t}
	assert.Equal(t, stack.Result{Rule: 1, Limit: 4, Remaining: 4, RetryAfterNs: stack.Never}, k.peek(specs, 1, start))
	k.take(specs, cost(3), start)
	before := string(k.value)
	assert.Equal(t, stack.Result{Rule: 1, Limit: 4, Remaining: 1, RetryAfterNs: stack.Never, ResetAfterNs: minute, NextAfterNs: minute},
		k.peek(specs, 1, start))
	assert.Equal(t, stack.Result{Limited: true, Rule: 1, Limit: 4, Remaining: 1, RetryAfterNs: minute, ResetAfterNs: minute, NextAfterNs: minute},
		k.peek(specs, 2, start))
	assert.Equal(t, stack.Result{Limited: true, Rule: 1, Limit: 4, Remaining: 1, RetryAfterNs: stack.Never, ResetAfterNs: minute, NextAfterNs: minute},
		k.peek(specs, 5, start))
	assert.False(t, k.peek(specs, 0, start).Limited)
	assert.Equal(t, before, string(k.value))
}

func TestRefundGivesBackToEveryLimitUpToFull(t *testing.T) {
	specs := limits(t, rate(5, second, 5), window(9, minute), fixed(7, minute))
	k := key{t: t}
	k.take(specs, cost(1), start)
	first := string(k.value)
	k.take(specs, cost(3), start)
	r := k.refund(specs, 3, start)
	assert.Equal(t, stack.Result{Rule: 0, Limit: 5, Remaining: 4, RetryAfterNs: stack.Never, ResetAfterNs: second / 5,
		NextAfterNs: second / 5, Granted: -3, Changed: true}, r)
	assert.Equal(t, first, string(k.value), "byte for byte")

	r = k.refund(specs, math.MaxInt64, start)
	assert.Equal(t, int64(-1), r.Granted)
	assert.Equal(t, int64(5), r.Remaining)
	assert.Nil(t, k.value, "an untouched key is no key")

	assert.Equal(t, stack.Result{Rule: 0, Limit: 5, Remaining: 5, RetryAfterNs: stack.Never}, k.refund(specs, 1, start),
		"nothing to give back, nothing to write")
}

func TestAChangedStackKeepsTheStatesOfItsLimits(t *testing.T) {
	perSecond, perHour := rate(5, second, 5), rate(100, hour, 100)
	window9, fixed7 := window(9, minute), fixed(7, minute)
	for _, tt := range []struct {
		change    string
		was, is   []spec
		remaining []int64 // of each limit after 3 units were taken
	}{
		{"nothing", []spec{perSecond, window9}, []spec{perSecond, window9}, []int64{2, 6}},
		{"a limit raised keeps the other", []spec{perSecond, window9}, []spec{perSecond, window(20, minute)}, []int64{2, 17}},
		{"a limit lowered keeps the other", []spec{perSecond, window9}, []spec{perSecond, window(2, minute)}, []int64{2, 0}},
		{"a burst raised adds room at once", []spec{perSecond, window9}, []spec{rate(5, second, 50), window9}, []int64{47, 6}},
		{"a burst lowered below what is missing is empty", []spec{perSecond, window9}, []spec{rate(5, second, 2), window9}, []int64{0, 6}},
		{"other order", []spec{perSecond, window9, fixed7}, []spec{fixed7, perSecond, window9}, []int64{4, 2, 6}},
		{"one dropped", []spec{perSecond, window9, fixed7}, []spec{perSecond, fixed7}, []int64{2, 4}},
		{"one added starts full", []spec{perSecond, window9}, []spec{fixed7, perSecond, window9}, []int64{7, 2, 6}},
		{"another period is another limit", []spec{perSecond, window9}, []spec{perSecond, window(9, hour)}, []int64{2, 9}},
		{"another kind is another limit", []spec{perSecond, window9}, []spec{perSecond, fixed(9, minute)}, []int64{2, 9}},
		{"a lone rate becomes the first of a stack", []spec{perSecond}, []spec{window9, perSecond}, []int64{9, 2}},
		{"a lone rate keeps its TAT whatever its period", []spec{rate(1, hour, 9)}, []spec{rate(60, hour/60*60, 540)}, []int64{360}},
		{"a lone rate's TAT belongs to the first rate", []spec{perSecond}, []spec{fixed7, perHour, perSecond}, []int64{7, 99, 5}},
		{"a lone rate's TAT means nothing to a window", []spec{perSecond}, []spec{window9}, []int64{9}},
		{"a stack's rate goes on alone", []spec{window9, perSecond}, []spec{perSecond}, []int64{2}},
		{"a second of the same starts full", []spec{perSecond, window9}, []spec{perSecond, perSecond, window9}, []int64{2, 5, 6}},
	} {
		k := key{t: t}
		k.take(limits(t, tt.was...), cost(3), start)
		for i, want := range tt.remaining {
			r := k.peek(limits(t, raiseOthers(tt.is, i)...), 0, start)
			assert.Equal(t, i, r.Rule, tt.change)
			assert.Equal(t, want, r.Remaining, "%s: limit %d", tt.change, i)
		}
	}
}

// raiseOthers raises all limits but one, so that this is the one with the fewest units.
func raiseOthers(specs []spec, but int) []spec {
	raised := slices.Clone(specs)
	for i := range raised {
		switch {
		case i == but:
		case raised[i].kind == stack.Rate:
			raised[i].capacity = 10_000
		default:
			raised[i].count = 10_000
		}
	}
	return raised
}

func TestLimitsOfTheSameKindAndPeriodAreToldApartByTheirOrder(t *testing.T) {
	k := key{t: t}
	k.take(limits(t, window(9, minute)), cost(3), start)                                          // 3
	k.take(limits(t, window(9, minute), window(8, minute)), cost(1), start)                       // 4, 1
	k.take(limits(t, window(9, minute), rate(5, second, 5), window(8, minute)), cost(1), start)   // 5, 1, 2
	k.take(limits(t, window(20, minute), window(30, minute), window(40, minute)), cost(1), start) // 6, 3, 1
	three := []spec{window(20, minute), window(30, minute), window(40, minute)}
	for i, want := range []int64{14, 27, 39} {
		assert.Equal(t, want, k.peek(limits(t, raiseOthers(three, i)...), 0, start).Remaining, i)
	}
	two := []spec{window(30, minute), window(20, minute)}
	for i, want := range []int64{24, 17} {
		assert.Equal(t, want, k.peek(limits(t, raiseOthers(two, i)...), 0, start).Remaining, i)
	}
}

func TestARaisedRateLocksNobodyOut(t *testing.T) {
	slow, quick := limits(t, rate(1, hour, 1), window(50, minute)), limits(t, rate(100, hour, 2), window(50, minute))
	k := key{t: t}
	k.take(slow, cost(1), start)
	r := k.take(quick, cost(1), start)
	assert.True(t, r.Limited)
	assert.Equal(t, 36*second, r.RetryAfterNs)
	assert.Equal(t, uint64(start+72*second), k.s.ExpireAt(start), "an empty bucket, and that is stored")
	assert.False(t, k.take(quick, cost(1), start+36*second).Limited)
}

func TestAClockThatWasSetBackHeals(t *testing.T) {
	for _, tt := range []struct {
		spec    spec
		retryNs int64
	}{
		{rate(1, hour, 1), hour},
		{window(1, hour), hour},
		{fixed(1, hour), hour},
	} {
		specs := limits(t, tt.spec)
		k := key{t: t}
		now := start - start%hour
		k.take(specs, cost(1), now+1000*hour)

		before := string(k.value)
		assert.True(t, k.peek(specs, 1, now).Limited)
		assert.Equal(t, before, string(k.value), "%+v: a peek writes nothing", tt.spec)

		r := k.take(specs, cost(1), now)
		assert.True(t, r.Limited, "%+v", tt.spec)
		assert.True(t, r.Changed, "%+v", tt.spec)
		assert.Equal(t, tt.retryNs, r.RetryAfterNs, "%+v", tt.spec)
		assert.False(t, k.take(specs, cost(1), now+r.RetryAfterNs).Limited, "%+v", tt.spec)
	}

	specs := limits(t, rate(10, second, 1))
	k := key{t: t}
	for range 51 {
		k.take(specs, stack.Request{Cost: 1, MaxWaitNs: 5 * second}, start)
	}
	r := k.take(specs, cost(1), start-1000*hour)
	assert.True(t, r.Changed)
	assert.Equal(t, 5*second+second/10, r.RetryAfterNs, "reservations are kept: they were made")
}

// A tolerance and a wait of 100 years and more: RetryAfter is when the request succeeds, also
// where the bucket cannot count all of MaxWait.
func TestTimesOfCenturies(t *testing.T) {
	const year = 365 * 24 * hour
	for _, tt := range []struct {
		what                        string
		spec                        spec
		maxWaitNs, retryNs, longest int64
	}{
		{"150 years, wait 100", rate(1, 150*year, 1), 100 * year, 50 * year, 100 * year},
		{"250 years, wait 100", rate(1, 250*year, 1), 100 * year, 250*year - (math.MaxInt64 - 250*year), math.MaxInt64 - 250*year},
		{"250 years, wait 250", rate(1, 250*year, 1), 250 * year, 250*year - (math.MaxInt64 - 250*year), math.MaxInt64 - 250*year},
		{"the longest, wait 100 years", rate(1, math.MaxInt64, 1), 100 * year, math.MaxInt64, 0},
	} {
		specs := limits(t, tt.spec)
		k := key{t: t}
		request := stack.Request{Cost: 1, MaxWaitNs: tt.maxWaitNs}
		const now = int64(0)
		require.Equal(t, int64(1), k.take(specs, request, now).Granted, tt.what)
		r := k.take(specs, request, now)
		assert.True(t, r.Limited, tt.what)
		assert.Equal(t, tt.retryNs, r.RetryAfterNs, tt.what)
		before := string(k.value)
		assert.True(t, k.take(specs, request, now+tt.retryNs-1).Limited, tt.what)
		assert.Equal(t, before, string(k.value), tt.what)
		r = k.take(specs, request, now+tt.retryNs)
		assert.False(t, r.Limited, tt.what)
		assert.Equal(t, tt.longest, r.WaitNs, tt.what)
		assert.Equal(t, tt.longest+tt.spec.periodNs, r.ResetAfterNs, tt.what)
	}
}

func TestTheLatestInstant(t *testing.T) {
	specs := limits(t, rate(1, math.MaxInt64, 1), window(1, math.MaxInt64), fixed(1, math.MaxInt64), fixed(1, second))
	k := key{t: t}
	r := k.take(specs, cost(1), math.MaxInt64-1)
	assert.Equal(t, int64(1), r.Granted)
	assert.NotNil(t, k.value)
	assert.Equal(t, uint64(2*math.MaxInt64-1), k.s.ExpireAt(start))
	assert.True(t, k.take(specs, cost(1), math.MaxInt64).Limited)
	assert.Equal(t, int64(-1), k.refund(specs, 1, math.MaxInt64-1).Granted)
	assert.Nil(t, k.value)
}

// What the queue of CL.WAIT does: put a stack of rates back to where it was.
func TestRatesAreTheWholeStateOfAStackOfRates(t *testing.T) {
	specs := limits(t, rate(10, second, 1), rate(7, minute, 7), rate(100, hour, 3))
	k := key{t: t}
	for range 20 {
		k.take(specs, stack.Request{Cost: 1, MaxWaitNs: hour}, start)
	}
	before := string(k.value)
	rates := k.s.Rates(nil, start)
	assert.True(t, k.s.FullWith(rates, start))
	k.take(specs, stack.Request{Cost: 1, MaxWaitNs: hour}, start)
	require.NotEqual(t, before, string(k.value))
	assert.False(t, k.s.FullWith(rates, start))

	k.s.Load(specs)
	k.s.SetRates(rates, start)
	assert.Equal(t, before, string(k.s.Append(nil)))
	assert.Equal(t, specs, k.s.Limits(nil))

	k.s.Load(specs)
	atNs := start + rates[2].FullIn(start)
	assert.False(t, k.s.FullWith(rates, atNs-1), "a full bucket, and one that lacks a nanosecond")
	assert.True(t, k.s.FullWith(rates, atNs))
}

// A reservation is cancelled if the states are as they were. A rate of nobody has none to compare, whatever the stack held before.
func TestARateOfNobodyHasNoState(t *testing.T) {
	var s stack.Stack
	used := rate(5, hour, 5)
	s.Load([]stack.Limit{used.limit(t), used.limit(t)})
	s.Take(stack.Request{Cost: 5}, start)
	s.Load([]stack.Limit{used.limit(t), rate(0, hour, 0).limit(t)})
	states := s.Rates(nil, start)
	require.Len(t, states, 2)
	assert.Equal(t, gcra.State{}, states[1])
}
