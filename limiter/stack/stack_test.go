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
