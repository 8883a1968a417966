// Every answer compared with a model that is written from the documentation alone.
package window_test

import (
	"flag"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/naive"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/window"
)

// Rapid's own default of 100 cases is made for slower code than this.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "1000"); err != nil {
		panic(err)
	}
	m.Run()
}

// pair is a limiter and the model that it has to equal.
type pair struct {
	t     require.TestingT
	limit window.Limit
	state window.Window // of limit
	model *naive.Alone
	now   int64
}

type event struct{ at, units int64 }

// between fails unless lo <= got <= hi. It is cheap enough for tens of millions.
func (p *pair) between(lo, got, hi int64, what string) {
	if got < lo || got > hi {
		require.Failf(p.t, what, "%d is not in %d..%d; %+v, now %d", got, lo, hi, p.limit, p.now)
	}
}

func (p *pair) equal(want, got int64, what string) { p.between(want, got, want, what) }

// compare checks all answers at the current instant.
func (p *pair) compare(quantity int64) {
	s, now := &p.state, p.now
	count, left, resetNs, nextNs := p.model.Standing(now)
	gotCount, gotLeft, gotReset, gotNext := s.Standing(now)
	retryNs := p.model.RetryAfter(now, quantity)
	if retryNs == naive.Never {
		retryNs = window.Never
	}
	p.equal(left, s.Available(now), "available")
	p.equal(retryNs, s.RetryAfter(now, quantity), "retry after")
	p.equal(count, gotCount, "count")
	p.equal(left, gotLeft, "available, beside the others")
	p.equal(resetNs, gotReset, "reset after")
	p.equal(nextNs, gotNext, "next after")
}

// keepsItsWord checks that what a state promises for later comes true to the nanosecond.
// Only a state that was brought to now promises: another is read differently at every instant.
func (p *pair) keepsItsWord(quantity int64) {
	s := p.state
	s.BringTo(p.now)
	later := func(wait int64) int64 { return s.Available(p.now + wait) }

	const most = math.MaxInt64 // what a longer time is given as
	if wait := s.RetryAfter(p.now, quantity); 0 < wait && wait < most && wait <= most-p.now {
		p.between(quantity, later(wait), count(p.limit), "available when told")
		p.between(0, later(wait-1), quantity-1, "available before told")
	}
	if wait := resetAfter(&s, p.now); 0 < wait && wait < most && wait <= most-p.now {
		p.equal(int64(s.ExpireAt()), p.now+wait, "expire at")
		p.equal(0, resetAfter(&s, p.now+wait), "reset when told")
		p.equal(1, resetAfter(&s, p.now+wait-1), "reset before told")
	}
}

func (p *pair) charge(quantity int64) {
	taken := charge(&p.state, p.now, quantity)
	if taken > 0 {
		p.model.Charge(p.now, taken, 0)
	}
}

// reload stores the state and reads it back, as every command does.
func (p *pair) reload() {
	encoded := p.state.Append(nil)
	require.LessOrEqual(p.t, len(encoded), window.MaxEncodedLen)
	s := window.Window{Limit: p.limit}
	require.NoError(p.t, s.Decode(encoded))
	require.Equal(p.t, encoded, s.Append(nil))
	p.state = s
}

// chargeAndRefund checks what a refund right after a charge leaves, and leaves it so.
func (p *pair) chargeAndRefund(quantity int64) {
	before := p.state
	before.BringTo(p.now)
	taken := charge(&p.state, p.now, quantity)
	if taken == 0 {
		return
	}
	p.model.Charge(p.now, taken, 0)
	p.equal(taken, p.state.Refund(p.now, taken), "refunded")
	p.equal(taken, p.model.Refund(p.now, taken), "refunded")

	was, is := before.Append(nil), p.state.Append(nil)
	expireAt := int64(before.ExpireAt())
	joined := expireAt < math.MaxInt64 && expireAt-period(p.limit) >= p.now
	if len(was) == 0 || was[0] < 65 || joined {
		require.Equal(p.t, was, is, "refund after charge")
		return
	}
	// Two entries have become one. From now on that makes no more available than
	// there would have been, and no later than a slot.
	lag := period(p.limit) / 64
	for i := range int64(18) {
		at := p.now + min(period(p.limit)/16*i, math.MaxInt64-p.now)
		p.between(before.Available(max(at-lag, p.now)), p.state.Available(at),
			before.Available(at), "available after a refund")
	}
	p.equal(before.Available(p.now), p.state.Available(p.now), "available right after a refund")
}

// traffic is how a run behaves; drawing it once makes runs differ.
type traffic struct {
	gap         int64 // the usual time between two steps, at most, in ns
	maxQuantity int64
	maxCount    int64
	clockJumps  bool
}

func drawPair(t require.TestingT, pick chance.Draw) (*pair, traffic) {
	period := pick.OfAnyMagnitude("period", 1, math.MaxInt64)
	if pick.OneIn("usual period", 2) {
		period = []int64{127, 128, 4096, second, minute, 60 * minute, 24 * 60 * minute}[pick("period", 0, 6)]
	}
	perPeriod := []int64{2, 20, 50, 70, 130, 500, 2000}[pick("steps per period", 0, 6)]
	tr := traffic{
		gap:         max(2*(period/perPeriod), 1),
		maxCount:    pick.OfAnyMagnitude("count", 1, math.MaxInt64),
		maxQuantity: pick.OfAnyMagnitude("quantity", 1, math.MaxInt64),
		clockJumps:  pick.OneIn("clock jumps", 2),
	}
	if !pick.OneIn("unusual quantities", 4) {
		tr.maxQuantity = pick.OfAnyMagnitude("usual quantity", 1, math.MaxInt64/4000)
		tr.maxCount = tr.maxQuantity * pick("quantities in count", 1, 2*perPeriod)
	}
	p := &pair{t: t, now: pick.OfAnyMagnitude("now", 0, 1<<62), model: naive.Limit{Kind: naive.Window, Count: 1, Period: time.Duration(period)}.Alone()}
	p.setCount(tr.maxCount, period)
	return p, tr
}

func (p *pair) setCount(count, period int64) {
	p.limit = newLimit(p.t, count, period)
	p.state.Limit = p.limit
	p.model.Change(naive.Limit{Kind: naive.Window, Count: count, Period: time.Duration(period)})
}

func (p *pair) moveClock(pick chance.Draw, tr traffic) {
	step := pick("step", 0, tr.gap)
	switch kind := pick("clock", 0, 1023); {
	case kind < 100:
		step = 0
	case kind < 105:
		step = pick("pause", 0, period(p.limit))
	case kind < 107:
		step = pick.OfAnyMagnitude("long pause", 0, math.MaxInt64)
	case kind < 109 && tr.clockJumps:
		step = -pick.OfAnyMagnitude("set back", 0, p.now)
	case kind < 114 && tr.clockJumps:
		step = -min(pick("set back within a period", 0, period(p.limit)), p.now)
	case kind < 119 && tr.clockJumps:
		step = -min(pick("set back within a slot", 0, period(p.limit)/64), p.now)
	}
	if step > math.MaxInt64-p.now {
		step = -p.now // time is up; begin again
	}
	p.now += step
}

// run makes steps random steps and compares after each.
func run(t require.TestingT, pick chance.Draw, steps int) {
	p, tr := drawPair(t, pick)
	strict := pick.OneIn("strict", 4)
	for range steps {
		p.moveClock(pick, tr)
		quantity := pick("quantity", 0, min(tr.maxQuantity, tr.maxCount)+1)
		p.compare(quantity)
		switch op := pick("operation", 0, 31); {
		case op < 16: // all or nothing
			if p.state.Available(p.now) >= quantity {
				p.charge(quantity)
			}
		case op < 22: // as many as fit
			p.charge(quantity)
		case op < 24:
			if quantity > 0 { // of no units there is nothing to write
				p.equal(p.model.Refund(p.now, quantity), p.state.Refund(p.now, quantity), "refunded")
			}
		case op < 26:
			p.chargeAndRefund(quantity)
		case op == 26:
			p.setCount(tr.maxCount-pick.OfAnyMagnitude("count lowered by", 0, tr.maxCount-1), period(p.limit))
		case op < 29 && strict && quantity > 0:
			spare := pick.OfAnyMagnitude("spare", 0, tr.maxCount)
			p.state.BringTo(p.now) // as a denied call does, also where it takes no unit
			p.equal(p.model.ChargeDenied(p.now, quantity, spare), p.state.ChargeDenied(p.now, quantity, spare), "charged when denied")
		case op == 27 && quantity > 0:
			p.state.Force(p.now, quantity)
			p.model.Charge(p.now, quantity, 0)
		case op < 29: // denied
			require.Equal(t, p.model.BringTo(p.now), p.state.BringTo(p.now))
		case op == 29:
			p.keepsItsWord(quantity)
		default:
			p.reload()
		}
		p.compare(quantity)
	}
}

// Time ends in the middle of a slot. Random traffic gets there with 64 entries once in a million steps.
func TestItEqualsTheModelAtTheEndOfTime(t *testing.T) {
	pick := chance.FromSeed(t)
	for _, length := range []int64{math.MaxInt64, math.MaxInt64 / 2, 5656528805945477639, 60 * minute} {
		p := &pair{t: t, model: naive.Limit{Kind: naive.Window, Count: 1, Period: time.Duration(length)}.Alone()}
		p.setCount(1000, length)
		slot := length/64 + 1
		p.now = math.MaxInt64 - 2*slot
		for p.now < math.MaxInt64 {
			p.now += min(pick("step", 0, slot/40+1), math.MaxInt64-p.now)
			p.compare(pick("quantity", 0, 1001))
			p.charge(pick("charge", 1, 2))
			p.keepsItsWord(1)
			p.reload()
		}
	}
}

// steps is how many random steps a test makes in all.
func steps() int { return size.Of(100_000, 1_000_000) }

func TestItEqualsTheModel(t *testing.T) {
	pick := chance.FromSeed(t)
	for range steps() / 5000 {
		run(t, pick, 500)
	}
	rapid.Check(t, func(t *rapid.T) { run(t, chance.FromRapid(t), 150) })
}
