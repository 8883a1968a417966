// The rules one by one, on traffic small enough to follow by hand.
package window_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/window"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	start  = int64(1_700_000_040) * second // a multiple of a minute
)

func newLimit(t require.TestingT, count, periodNs int64) window.Limit {
	limit, err := window.New(count, periodNs, time.Nanosecond)
	require.NoError(t, err)
	return limit
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for _, tt := range []struct {
		name     string
		count, n int64
		unit     time.Duration
		want     error
	}{
		{"one a nanosecond", 1, 1, 1, nil},
		{"more than one a nanosecond", math.MaxInt64, 1, 1, nil},
		{"the longest period", 1, math.MaxInt64, 1, nil},
		{"one nanosecond longer", 1, 1 << 62, 2, window.ErrTooLong},
		{"a product of more than 64 bits", 1, math.MaxInt64, time.Hour, window.ErrTooLong},
		{"no count", 0, 1, time.Second, window.ErrCount},
		{"negative count", -1, 1, time.Second, window.ErrCount},
		{"no period", 1, 0, time.Second, window.ErrPeriod},
		{"negative period", 1, -1, time.Second, window.ErrPeriod},
		{"no unit", 1, 1, 0, window.ErrPeriod},
		{"two negatives", 1, -1, -time.Second, window.ErrPeriod},
	} {
		limit, err := window.New(tt.count, tt.n, tt.unit)
		assert.Equal(t, tt.want, err, tt.name)
		if tt.want == nil {
			assert.Equal(t, tt.count, limit.Count(), tt.name)
			assert.Equal(t, tt.n*int64(tt.unit), limit.Period(), tt.name)
		}
	}
}

func TestAnUntouchedLimitHoldsAllOfCount(t *testing.T) {
	limit := newLimit(t, 5, minute)
	var s window.State
	assert.Equal(t, int64(5), limit.Available(&s, start))
	assert.Equal(t, int64(0), limit.RetryAfter(&s, start, 5))
	assert.Equal(t, int64(0), limit.NextAfter(&s, start))
	assert.Equal(t, int64(0), limit.ResetAfter(&s, start))
	assert.Equal(t, int64(0), limit.ExpireAt(&s))
}

func TestAUnitOccupiesItsPeriodUpToTheLastNanosecond(t *testing.T) {
	limit := newLimit(t, 1, minute)
	var s window.State
	require.Equal(t, int64(1), limit.Charge(&s, start, 1))
	for _, tt := range []struct{ after, available, retryAfter int64 }{
		{0, 0, minute},
		{1, 0, minute - 1},
		{minute - 1, 0, 1},
		{minute, 1, 0},
		{2 * minute, 1, 0},
	} {
		now := start + tt.after
		assert.Equal(t, tt.available, limit.Available(&s, now), tt.after)
		assert.Equal(t, tt.retryAfter, limit.RetryAfter(&s, now, 1), tt.after)
		assert.Equal(t, tt.retryAfter, limit.NextAfter(&s, now), tt.after)
		assert.Equal(t, tt.retryAfter, limit.ResetAfter(&s, now), tt.after)
	}
	assert.Equal(t, start+minute, limit.ExpireAt(&s))
}

// 30 per minute, 20 units in second 58, 20 more in second 62: a calendar window lets
// all 40 through.
func TestABoundaryIsNoLoophole(t *testing.T) {
	limit := newLimit(t, 30, minute)
	var s window.State
	admitted := int64(0)
	for i := range int64(20) {
		admitted += limit.Charge(&s, start+58*second+i, 1)
	}
	require.Equal(t, int64(20), admitted)
	for i := range int64(20) {
		admitted += limit.Charge(&s, start+62*second+i, 1)
	}
	assert.Equal(t, int64(30), admitted)

	// The 31st fits when the very first of second 58 leaves, to the nanosecond.
	now := start + 63*second
	wait := limit.RetryAfter(&s, now, 1)
	assert.Equal(t, start+58*second+minute, now+wait)
	assert.Zero(t, limit.Charge(&s, now+wait-1, 1))
	assert.Equal(t, int64(1), limit.Charge(&s, now+wait, 1))
}

func TestTimesFollowTheGrantsOneByOne(t *testing.T) {
	limit := newLimit(t, 10, minute)
	var s window.State
	for _, grant := range []struct{ at, units int64 }{{0, 3}, {10, 4}, {20, 3}} {
		require.Equal(t, grant.units, limit.Charge(&s, start+grant.at*second, grant.units))
	}
	now := start + 30*second
	require.Zero(t, limit.Available(&s, now))
	for _, tt := range []struct{ quantity, seconds int64 }{
		{0, 0}, {1, 30}, {3, 30}, {4, 40}, {7, 40}, {8, 50}, {10, 50},
	} {
		assert.Equal(t, tt.seconds*second, limit.RetryAfter(&s, now, tt.quantity), tt.quantity)
	}
	assert.Equal(t, window.Never, limit.RetryAfter(&s, now, 11))
	assert.Equal(t, 30*second, limit.NextAfter(&s, now))
	assert.Equal(t, 50*second, limit.ResetAfter(&s, now))
}

func TestChargeTakesWhatThereIs(t *testing.T) {
	limit := newLimit(t, 10, minute)
	var s window.State
	for _, tt := range []struct{ quantity, taken int64 }{
		{-1, 0}, {0, 0}, {7, 7}, {7, 3}, {1, 0}, {math.MaxInt64, 0},
	} {
		before := s
		assert.Equal(t, tt.taken, limit.Charge(&s, start, tt.quantity), tt.quantity)
		if tt.taken == 0 {
			assert.Equal(t, before, s, tt.quantity)
		}
	}
}

func TestForceTakesUnitsThatAreNotThere(t *testing.T) {
	limit := newLimit(t, 10, minute)
	var s window.State
	limit.Charge(&s, start, 8)
	assert.Equal(t, int64(5), limit.Force(&s, start+second, 5))
	now := start + 2*second
	assert.Zero(t, limit.Available(&s, now))
	assert.Equal(t, 58*second, limit.RetryAfter(&s, now, 5), "the eight leave")
	assert.Equal(t, 59*second, limit.RetryAfter(&s, now, 6), "the five leave, too")
	assert.Equal(t, int64(5), limit.Available(&s, start+minute))

	for _, none := range []int64{0, -1} {
		before := s
		assert.Zero(t, limit.Force(&s, now, none))
		assert.Equal(t, before, s)
	}
	assert.Equal(t, int64(math.MaxInt64-13), limit.Force(&s, now, math.MaxInt64), "what can be counted")
	assert.Zero(t, limit.Force(&s, now, 1))
}

func TestHammeringKeepsTheWindowFull(t *testing.T) {
	limit := newLimit(t, 10, minute)
	var s window.State
	limit.Charge(&s, start, 4)
	limit.Charge(&s, start+10*second, 6)

	// Three of the first four make room; the fourth and the six stay.
	now := start + 20*second
	assert.Equal(t, int64(3), limit.ChargeDenied(&s, now, 3))
	assert.Zero(t, limit.Available(&s, now))
	assert.Equal(t, 40*second, limit.RetryAfter(&s, now, 1))
	assert.Equal(t, 50*second, limit.RetryAfter(&s, now, 2))
	assert.Equal(t, 60*second, limit.RetryAfter(&s, now, 8))

	assert.Equal(t, int64(10), limit.ChargeDenied(&s, now+second, 11), "never more than count")
	assert.Equal(t, 60*second, limit.RetryAfter(&s, now+second, 1))
	assert.Zero(t, limit.ChargeDenied(&s, now+second, 0))
	assert.Zero(t, limit.ChargeDenied(&s, now+second, -1))

	// A request for three that was denied with one left takes that one first.
	var partly window.State
	limit.Charge(&partly, start, 9)
	assert.Equal(t, int64(3), limit.ChargeDenied(&partly, now, 3))
	assert.Zero(t, limit.Available(&partly, now))
	assert.Equal(t, int64(7), limit.Available(&partly, start+minute))

	// Above a count that was lowered, three make room for three.
	five := newLimit(t, 5, minute)
	limit.Charge(&partly, start+minute, 7)
	assert.Equal(t, int64(3), five.ChargeDenied(&partly, start+minute+1, 3))
	assert.Equal(t, int64(0), limit.Available(&partly, start+minute+1))
}

func TestRefundGivesBackTheMostRecentFirst(t *testing.T) {
	limit := newLimit(t, 10, minute)
	var s window.State
	limit.Charge(&s, start, 4)
	limit.Charge(&s, start+10*second, 4)
	now := start + 20*second

	assert.Equal(t, int64(5), limit.Refund(&s, now, 5))
	assert.Equal(t, int64(7), limit.Available(&s, now))
	assert.Equal(t, 40*second, limit.ResetAfter(&s, now), "three of the first four are left")

	assert.Equal(t, int64(3), limit.Refund(&s, now, math.MaxInt64), "never above full")
	assert.Equal(t, window.State{}, emptied(s))
	assert.Empty(t, s.Append(nil))

	assert.Zero(t, limit.Refund(&s, now, 1))
	assert.Zero(t, limit.Refund(&s, now, 0))
	assert.Zero(t, limit.Refund(&s, now, -1))
}

// emptied is s, or the zero State when s has no entries.
func emptied(s window.State) window.State {
	if len(s.Append(nil)) == 0 {
		return window.State{}
	}
	return s
}

func TestRefundDoesNotGiveBackWhatHasLeft(t *testing.T) {
	limit := newLimit(t, 10, minute)
	var s window.State
	limit.Charge(&s, start, 4)
	limit.Charge(&s, start+10*second, 4)
	assert.Equal(t, int64(4), limit.Refund(&s, start+minute, 8))
	assert.Equal(t, int64(10), limit.Available(&s, start+minute))
}

func TestTheCountMayChangeMidStream(t *testing.T) {
	var s window.State
	ten, five, twenty := newLimit(t, 10, minute), newLimit(t, 5, minute), newLimit(t, 20, minute)
	ten.Charge(&s, start, 4)
	ten.Charge(&s, start+10*second, 4)
	now := start + 20*second

	assert.Equal(t, int64(12), twenty.Available(&s, now))
	assert.Equal(t, int64(0), five.Available(&s, now))
	assert.Equal(t, int64(0), five.RetryAfter(&s, now, 0))
	assert.Equal(t, 40*second, five.RetryAfter(&s, now, 1), "8 - 4 leave room for one in 5")
	assert.Equal(t, 50*second, five.RetryAfter(&s, now, 2))
	assert.Equal(t, 40*second, five.NextAfter(&s, now))
	four := newLimit(t, 4, minute)
	assert.Equal(t, 50*second, four.NextAfter(&s, now), "8 - 4 still fill 4")
	assert.Zero(t, five.Charge(&s, now, 1))
}

func TestAClockSetBackBlocksForOnePeriodAtMost(t *testing.T) {
	limit := newLimit(t, 10, minute)
	var s window.State
	limit.Charge(&s, start, 4)
	limit.Charge(&s, start+10*second, 6)

	now := start - 3600*second
	assert.Equal(t, int64(0), limit.Available(&s, now))
	assert.Equal(t, minute, limit.RetryAfter(&s, now, 1))
	assert.Equal(t, minute, limit.NextAfter(&s, now))
	assert.Equal(t, minute, limit.ResetAfter(&s, now))

	// Not stored, the same answer comes at every later instant. Stored, it heals.
	assert.Equal(t, minute, limit.RetryAfter(&s, now+second, 1))
	require.True(t, limit.Settle(&s, now), "has to be stored")
	assert.False(t, limit.Settle(&s, now))
	assert.Equal(t, minute-second, limit.RetryAfter(&s, now+second, 1))
	assert.Equal(t, now+minute, limit.ExpireAt(&s))
	assert.Equal(t, int64(10), limit.Available(&s, now+minute))
}

func TestAClockSetBackALittleMovesOnlyWhatIsLater(t *testing.T) {
	limit := newLimit(t, 10, minute)
	var s window.State
	limit.Charge(&s, start, 4)
	limit.Charge(&s, start+10*second, 4)

	now := start + 5*second
	assert.Equal(t, 55*second, limit.RetryAfter(&s, now, 6))
	assert.Equal(t, 60*second, limit.RetryAfter(&s, now, 7))
	assert.Equal(t, int64(1), limit.Charge(&s, now, 1), "a charge stores what it read")
	assert.Equal(t, 60*second, limit.ResetAfter(&s, now))
	assert.Equal(t, 59*second, limit.ResetAfter(&s, now+second))
}

// hot returns a limit with plenty left and the state after one charge of one unit every
// gap, the last of them at the instant returned.
func hot(t require.TestingT, charges int, gap int64) (window.Limit, window.State, int64) {
	limit := newLimit(t, 1_000_000, minute)
	var s window.State
	now := start
	for i := range charges {
		now = start + int64(i)*gap
		require.Equal(t, int64(1), limit.Charge(&s, now, 1))
	}
	return limit, s, now
}

func TestSixtyFourChargesAreExactAndTheNextSharesASlot(t *testing.T) {
	slot := minute/64 + 1
	limit, s, now := hot(t, 64, second/10)
	assert.Equal(t, now+minute, limit.ExpireAt(&s))
	limit.Charge(&s, now, 1)
	assert.Equal(t, now+minute, limit.ExpireAt(&s), "another at the same instant shares its entry")

	now += second / 10
	limit.Charge(&s, now, 1)
	lastOfSlot := now/slot*slot + slot - 1
	assert.Equal(t, lastOfSlot+minute, limit.ExpireAt(&s))
	assert.LessOrEqual(t, lastOfSlot-now, minute/64)

	before := len(s.Append(nil))
	limit.Charge(&s, lastOfSlot, 1)
	assert.Equal(t, before, len(s.Append(nil)), "the slot's next charge joins")

	// What was granted exactly still leaves exactly.
	assert.Equal(t, minute-(lastOfSlot-start), limit.NextAfter(&s, lastOfSlot))
}

func TestQuietForAPeriodAndASlotItIsExactAgain(t *testing.T) {
	limit, s, now := hot(t, 10_000, second/100)
	now += minute + minute/64
	require.Equal(t, limit.Count(), limit.Available(&s, now))
	for i := range int64(64) {
		limit.Charge(&s, now+i*second/2, 1)
	}
	for i := range int64(64) {
		at := now + minute + i*second/2
		assert.Equal(t, limit.Count()-64+i, limit.Available(&s, at-1))
		assert.Equal(t, limit.Count()-63+i, limit.Available(&s, at))
	}
}

func TestHugeNumbersNeitherWrapNorPanic(t *testing.T) {
	limit := newLimit(t, math.MaxInt64, math.MaxInt64)
	var s window.State
	assert.Equal(t, int64(math.MaxInt64-1), limit.Charge(&s, start, math.MaxInt64-1))
	assert.Equal(t, int64(1), limit.Charge(&s, start+1, math.MaxInt64))
	assert.Zero(t, limit.Available(&s, math.MaxInt64))
	assert.Equal(t, start, limit.RetryAfter(&s, math.MaxInt64, 1))
	assert.Equal(t, int64(math.MaxInt64), limit.ExpireAt(&s))
	small := newLimit(t, 1, math.MaxInt64)
	assert.Equal(t, start+1, small.RetryAfter(&s, math.MaxInt64, 1))
}
