// Random limits and random traffic, for the tests that compare and count.
package gcra_test

import (
	"flag"
	"math"
	"math/bits"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/gcra"
	"redis-throttle/internal/chance"
)

// Rapid's own default of 100 cases is made for slower code than this.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "5000"); err != nil {
		panic(err)
	}
	m.Run()
}

// drawFromSeed favours neither small nor large numbers: every magnitude of the
// distance from lo is as likely, and both ends come up often. A choice among few
// is even.
func drawFromSeed(t *testing.T) chance.Draw {
	r := chance.New(t)
	return func(_ string, lo, hi int64) int64 {
		span := uint64(hi) - uint64(lo)
		if span < 64 {
			return lo + r.Int64N(int64(span)+1)
		}
		switch r.IntN(16) {
		case 0:
			return lo
		case 1:
			return hi
		}
		offset := r.Uint64() >> (64 - r.IntN(bits.Len64(span)+1))
		return int64(uint64(lo) + min(offset, span))
	}
}

// params are the arguments of New, with the period in ns.
type params struct {
	capacity, count, periodNs int64
}

func (p params) limit(t require.TestingT) gcra.Limit {
	limit, err := gcra.New(p.capacity, p.count, p.periodNs, time.Nanosecond)
	require.NoError(t, err, "%+v", p)
	return limit
}

// drawRealistic draws a rate from 1/day to 10^9/s and a burst from 0 to 10^6, or
// to what New accepts at that rate.
func drawRealistic(pick chance.Draw) params {
	const day = int64(24 * time.Hour)
	period := pick("period", 1, day)
	count := pick("count", 1, period)
	emission := (period-1)/count + 1
	return params{pick("capacity", 1, min(1e6+1, math.MaxInt64/emission)), count, period}
}

// drawExtreme draws from everything that New accepts with a period below 2^63 ns.
func drawExtreme(pick chance.Draw) params {
	period := pick("period", 1, math.MaxInt64)
	count := pick("count", 1, period)
	emission := (period-1)/count + 1
	return params{pick("capacity", 1, math.MaxInt64/emission), count, period}
}

func drawEither(t *rapid.T) func(chance.Draw) params {
	if rapid.Bool().Draw(t, "extreme") {
		return drawExtreme
	}
	return drawRealistic
}

// traffic draws requests that lie where decisions turn: the answer before says
// when to come back and for how much.
type traffic struct {
	pick  chance.Draw
	limit gcra.Limit
	nowNs int64
	last  gcra.Decision
}

func (tr *traffic) next() (nowNs, quantity int64) {
	tr.nowNs = tr.drawInstant()
	return tr.nowNs, tr.drawQuantity()
}

// add moves an instant, but not out of what a caller may pass in: 0 to 2^63-1.
func add(nowNs, elapsedNs int64) int64 {
	if elapsedNs > math.MaxInt64-nowNs {
		return math.MaxInt64
	}
	return max(0, nowNs+elapsedNs)
}

func (tr *traffic) drawInstant() int64 {
	retry := max(0, tr.last.RetryAfter)
	switch tr.pick("clock", 1, 11) {
	case 1, 2:
		return tr.nowNs
	case 3:
		return add(tr.nowNs, tr.pick("elapsed", 0, emission(tr.limit)))
	case 4:
		return add(tr.nowNs, tr.pick("elapsed", 0, tolerance(tr.limit)))
	case 5:
		return add(tr.nowNs, retry)
	case 6:
		return add(tr.nowNs, max(0, retry-1))
	case 7:
		return add(tr.nowNs, tr.last.ResetAfter)
	case 8:
		return add(tr.nowNs, tr.pick("jump", 0, int64(time.Hour)))
	case 9:
		return add(tr.nowNs, -tr.pick("back", 0, emission(tr.limit)))
	case 10:
		return add(tr.nowNs, -tr.pick("back", 0, tolerance(tr.limit)))
	default:
		return tr.pick("instant", 0, math.MaxInt64)
	}
}

func (tr *traffic) drawQuantity() int64 {
	capacity := tr.limit.Capacity()
	switch tr.pick("quantity of", 1, 8) {
	case 1:
		return 0
	case 2, 3:
		return 1
	case 4:
		return tr.last.Remaining
	case 5:
		return add(tr.last.Remaining, 1)
	case 6:
		return tr.pick("quantity", 0, capacity)
	case 7:
		return capacity
	default:
		return add(capacity, tr.pick("beyond", 0, math.MaxInt64))
	}
}
