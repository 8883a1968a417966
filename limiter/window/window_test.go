// The rules one by one, on traffic small enough to follow by hand.
package window_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/window"
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

func count(limit window.Limit) int64 {
	n, _, _, _ := (&window.Window{Limit: limit}).Standing(0)
	return n
}

// period is when a unit that is charged at the epoch is over.
func period(limit window.Limit) int64 {
	w := window.Window{Limit: limit}
	w.Charge(0, 1, 0)
	return int64(w.ExpireAt())
}

// charge is Charge, and returns how many units it took.
func charge(w *window.Window, nowNs, quantity int64) int64 {
	before := w.Available(nowNs)
	w.Charge(nowNs, quantity, 0)
	return before - w.Available(nowNs)
}

// counted is how many units w counts, also of those beyond its count.
func counted(w window.Window, nowNs int64) int64 { return w.Refund(nowNs, math.MaxInt64) }

func resetAfter(w *window.Window, nowNs int64) int64 {
	_, _, ns, _ := w.Standing(nowNs)
	return ns
}

func nextAfter(w *window.Window, nowNs int64) int64 {
	_, _, _, ns := w.Standing(nowNs)
	return ns
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
			assert.Equal(t, tt.count, count(limit), tt.name)
			assert.Equal(t, tt.n*int64(tt.unit), period(limit), tt.name)
		}
	}
}

func TestAnUntouchedLimitHoldsAllOfCount(t *testing.T) {
	limit := newLimit(t, 5, minute)
	s := window.Window{Limit: limit}
	assert.Equal(t, int64(5), s.Available(start))
	assert.Equal(t, int64(0), s.RetryAfter(start, 5))
	assert.Equal(t, int64(0), nextAfter(&s, start))
	assert.Equal(t, int64(0), resetAfter(&s, start))
	assert.Equal(t, int64(0), int64(s.ExpireAt()))
}

func TestAUnitOccupiesItsPeriodUpToTheLastNanosecond(t *testing.T) {
	limit := newLimit(t, 1, minute)
	s := window.Window{Limit: limit}
	require.Equal(t, int64(1), charge(&s, start, 1))
	for _, tt := range []struct{ after, available, retryAfter int64 }{
		{0, 0, minute},
		{1, 0, minute - 1},
		{minute - 1, 0, 1},
		{minute, 1, 0},
		{2 * minute, 1, 0},
	} {
		now := start + tt.after
		assert.Equal(t, tt.available, s.Available(now), tt.after)
		assert.Equal(t, tt.retryAfter, s.RetryAfter(now, 1), tt.after)
		assert.Equal(t, tt.retryAfter, nextAfter(&s, now), tt.after)
		assert.Equal(t, tt.retryAfter, resetAfter(&s, now), tt.after)
	}
	assert.Equal(t, start+minute, int64(s.ExpireAt()))
}

// 30 per minute, 20 units in second 58, 20 more in second 62: a calendar window lets
// all 40 through.
func TestABoundaryIsNoLoophole(t *testing.T) {
	limit := newLimit(t, 30, minute)
	s := window.Window{Limit: limit}
	admitted := int64(0)
	for i := range int64(20) {
		admitted += charge(&s, start+58*second+i, 1)
	}
	require.Equal(t, int64(20), admitted)
	for i := range int64(20) {
		admitted += charge(&s, start+62*second+i, 1)
	}
	assert.Equal(t, int64(30), admitted)

	// The 31st fits when the very first of second 58 leaves, to the nanosecond.
	now := start + 63*second
	wait := s.RetryAfter(now, 1)
	assert.Equal(t, start+58*second+minute, now+wait)
	assert.Zero(t, charge(&s, now+wait-1, 1))
	assert.Equal(t, int64(1), charge(&s, now+wait, 1))
}

func TestTimesFollowTheGrantsOneByOne(t *testing.T) {
	limit := newLimit(t, 10, minute)
	s := window.Window{Limit: limit}
	for _, grant := range []struct{ at, units int64 }{{0, 3}, {10, 4}, {20, 3}} {
		require.Equal(t, grant.units, charge(&s, start+grant.at*second, grant.units))
	}
	now := start + 30*second
	require.Zero(t, s.Available(now))
	for _, tt := range []struct{ quantity, seconds int64 }{
		{0, 0}, {1, 30}, {3, 30}, {4, 40}, {7, 40}, {8, 50}, {10, 50},
	} {
		assert.Equal(t, tt.seconds*second, s.RetryAfter(now, tt.quantity), tt.quantity)
	}
	assert.Equal(t, window.Never, s.RetryAfter(now, 11))
	assert.Equal(t, 30*second, nextAfter(&s, now))
	assert.Equal(t, 50*second, resetAfter(&s, now))
}

func TestChargeTakesWhatThereIs(t *testing.T) {
	limit := newLimit(t, 10, minute)
	s := window.Window{Limit: limit}
	for _, tt := range []struct{ quantity, taken int64 }{
		{-1, 0}, {0, 0}, {7, 7}, {7, 3}, {1, 0}, {math.MaxInt64, 0},
	} {
		before := s
		assert.Equal(t, tt.taken, charge(&s, start, tt.quantity), tt.quantity)
		if tt.taken == 0 {
			assert.Equal(t, before, s, tt.quantity)
		}
	}
}

func TestForceTakesUnitsThatAreNotThere(t *testing.T) {
	limit := newLimit(t, 10, minute)
	s := window.Window{Limit: limit}
	charge(&s, start, 8)
	assert.Equal(t, int64(5), s.Force(start+second, 5))
	now := start + 2*second
	assert.Zero(t, s.Available(now))
	assert.Equal(t, 58*second, s.RetryAfter(now, 5), "the eight leave")
	assert.Equal(t, 59*second, s.RetryAfter(now, 6), "the five leave, too")
	assert.Equal(t, int64(5), s.Available(start+minute))

	for _, none := range []int64{0, -1} {
		before := s
		assert.Zero(t, s.Force(now, none))
		assert.Equal(t, before, s)
	}
	assert.Equal(t, int64(math.MaxInt64-13), s.Force(now, math.MaxInt64), "what can be counted")
	assert.Zero(t, s.Force(now, 1))
}

func TestHammeringKeepsTheWindowFull(t *testing.T) {
	limit := newLimit(t, 10, minute)
	s := window.Window{Limit: limit}
	charge(&s, start, 4)
	charge(&s, start+10*second, 6)

	// Three of the first four make room; the fourth and the six stay.
	now := start + 20*second
	assert.Equal(t, int64(3), s.ChargeDenied(now, 3, 0))
	assert.Equal(t, int64(10), counted(s, now))
	assert.Equal(t, 40*second, s.RetryAfter(now, 1))
	assert.Equal(t, 50*second, s.RetryAfter(now, 2))
	assert.Equal(t, 60*second, s.RetryAfter(now, 8))

	assert.Equal(t, int64(10), s.ChargeDenied(now+second, 11, 0))
	assert.Equal(t, int64(10), counted(s, now+second), "never more than count")
	assert.Equal(t, 60*second, s.RetryAfter(now+second, 1))
	assert.Zero(t, s.ChargeDenied(now+second, 0, 0))
	assert.Zero(t, s.ChargeDenied(now+second, -1, 0))

	// A request for three that was denied with one left takes that one first.
	partly := window.Window{Limit: limit}
	charge(&partly, start, 9)
	assert.Equal(t, int64(3), partly.ChargeDenied(now, 3, 0))
	assert.Equal(t, int64(10), counted(partly, now))
	assert.Equal(t, int64(7), partly.Available(start+minute))

	// Above a count that was lowered, three make room for three.
	charge(&partly, start+minute, 7)
	partly.Limit = newLimit(t, 5, minute)
	assert.Equal(t, int64(3), partly.ChargeDenied(start+minute+1, 3, 0))
	assert.Equal(t, int64(10), counted(partly, start+minute+1))
}

func TestRefundGivesBackTheMostRecentFirst(t *testing.T) {
	limit := newLimit(t, 10, minute)
	s := window.Window{Limit: limit}
	charge(&s, start, 4)
	charge(&s, start+10*second, 4)
	now := start + 20*second

	assert.Equal(t, int64(5), s.Refund(now, 5))
	assert.Equal(t, int64(7), s.Available(now))
	assert.Equal(t, 40*second, resetAfter(&s, now), "three of the first four are left")

	assert.Equal(t, int64(3), s.Refund(now, math.MaxInt64), "never above full")
	assert.Empty(t, s.Append(nil))

	assert.Zero(t, s.Refund(now, 1))
	assert.Zero(t, s.Refund(now, 0))
	assert.Zero(t, s.Refund(now, -1))
}

func TestRefundDoesNotGiveBackWhatHasLeft(t *testing.T) {
	limit := newLimit(t, 10, minute)
	s := window.Window{Limit: limit}
	charge(&s, start, 4)
	charge(&s, start+10*second, 4)
	assert.Equal(t, int64(4), s.Refund(start+minute, 8))
	assert.Equal(t, int64(10), s.Available(start+minute))
}

func TestTheCountMayChangeMidStream(t *testing.T) {
	s := window.Window{Limit: newLimit(t, 10, minute)}
	charge(&s, start, 4)
	charge(&s, start+10*second, 4)
	now := start + 20*second

	s.Limit = newLimit(t, 20, minute)
	assert.Equal(t, int64(12), s.Available(now))
	s.Limit = newLimit(t, 5, minute)
	assert.Equal(t, int64(0), s.Available(now))
	assert.Equal(t, int64(0), s.RetryAfter(now, 0))
	assert.Equal(t, 40*second, s.RetryAfter(now, 1), "8 - 4 leave room for one in 5")
	assert.Equal(t, 50*second, s.RetryAfter(now, 2))
	assert.Equal(t, 40*second, nextAfter(&s, now))
	s.Limit = newLimit(t, 4, minute)
	assert.Equal(t, 50*second, nextAfter(&s, now), "8 - 4 still fill 4")
	s.Limit = newLimit(t, 5, minute)
	assert.Zero(t, charge(&s, now, 1))
}

func TestAClockSetBackBlocksForOnePeriodAtMost(t *testing.T) {
	limit := newLimit(t, 10, minute)
	s := window.Window{Limit: limit}
	charge(&s, start, 4)
	charge(&s, start+10*second, 6)

	now := start - 3600*second
	assert.Equal(t, int64(0), s.Available(now))
	assert.Equal(t, minute, s.RetryAfter(now, 1))
	assert.Equal(t, minute, nextAfter(&s, now))
	assert.Equal(t, minute, resetAfter(&s, now))

	// Not stored, the same answer comes at every later instant. Stored, it heals.
	assert.Equal(t, minute, s.RetryAfter(now+second, 1))
	require.True(t, s.BringTo(now), "has to be stored")
	assert.False(t, s.BringTo(now))
	assert.Equal(t, minute-second, s.RetryAfter(now+second, 1))
	assert.Equal(t, now+minute, int64(s.ExpireAt()))
	assert.Equal(t, int64(10), s.Available(now+minute))
}

func TestAClockSetBackALittleMovesOnlyWhatIsLater(t *testing.T) {
	limit := newLimit(t, 10, minute)
	s := window.Window{Limit: limit}
	charge(&s, start, 4)
	charge(&s, start+10*second, 4)

	now := start + 5*second
	assert.Equal(t, 55*second, s.RetryAfter(now, 6))
	assert.Equal(t, 60*second, s.RetryAfter(now, 7))
	assert.Equal(t, int64(1), charge(&s, now, 1), "a charge stores what it read")
	assert.Equal(t, 60*second, resetAfter(&s, now))
	assert.Equal(t, 59*second, resetAfter(&s, now+second))
}

// Entries that have left the window do not count when what is left is read anew, so it stays exact.
func TestAClockSetBackAfterManyChargesIsReadExactly(t *testing.T) {
	s, _ := hot(t, 40, second/10)
	now := start + minute + 7*second/2 // all but the last five have left
	for i := range int64(5) {
		require.Equal(t, int64(1), charge(&s, now+i*2*second, 1))
	}
	assert.Equal(t, minute, resetAfter(&s, now+second))
}

// hot returns a limit with plenty left and the state after one charge of one unit every
// gap, the last of them at the instant returned.
func hot(t require.TestingT, charges int, gap int64) (window.Window, int64) {
	s, now := window.Window{Limit: newLimit(t, 1_000_000, minute)}, start
	for i := range charges {
		now = start + int64(i)*gap
		require.Equal(t, int64(1), charge(&s, now, 1))
	}
	return s, now
}

func TestSixtyFourChargesAreExactAndTheNextSharesASlot(t *testing.T) {
	slot := minute/64 + 1
	s, now := hot(t, 64, second/10)
	assert.Equal(t, now+minute, int64(s.ExpireAt()))
	charge(&s, now, 1)
	assert.Equal(t, now+minute, int64(s.ExpireAt()), "another at the same instant shares its entry")

	now += second / 10
	charge(&s, now, 1)
	lastOfSlot := now/slot*slot + slot - 1
	assert.Equal(t, lastOfSlot+minute, int64(s.ExpireAt()))
	assert.LessOrEqual(t, lastOfSlot-now, minute/64)

	before := len(s.Append(nil))
	charge(&s, lastOfSlot, 1)
	assert.Equal(t, before, len(s.Append(nil)), "the slot's next charge joins")

	// What was granted exactly still leaves exactly.
	assert.Equal(t, minute-(lastOfSlot-start), nextAfter(&s, lastOfSlot))
}

func TestQuietForAPeriodAndASlotItIsExactAgain(t *testing.T) {
	s, now := hot(t, 10_000, second/100)
	now += minute + minute/64
	require.Equal(t, count(s.Limit), s.Available(now))
	for i := range int64(64) {
		charge(&s, now+i*second/2, 1)
	}
	for i := range int64(64) {
		at := now + minute + i*second/2
		assert.Equal(t, count(s.Limit)-64+i, s.Available(at-1))
		assert.Equal(t, count(s.Limit)-63+i, s.Available(at))
	}
}

func TestHugeNumbersNeitherWrapNorPanic(t *testing.T) {
	limit := newLimit(t, math.MaxInt64, math.MaxInt64)
	s := window.Window{Limit: limit}
	assert.Equal(t, int64(math.MaxInt64-1), charge(&s, start, math.MaxInt64-1))
	assert.Equal(t, int64(1), charge(&s, start+1, math.MaxInt64))
	assert.Zero(t, s.Available(math.MaxInt64))
	assert.Equal(t, start, s.RetryAfter(math.MaxInt64, 1))
	assert.Equal(t, int64(math.MaxInt64), int64(s.ExpireAt()))
	s.Limit = newLimit(t, 1, math.MaxInt64)
	assert.Equal(t, start+1, s.RetryAfter(math.MaxInt64, 1))
}
