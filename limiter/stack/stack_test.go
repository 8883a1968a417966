// The rules of a stack, on traffic small enough to follow by hand.
package stack_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
